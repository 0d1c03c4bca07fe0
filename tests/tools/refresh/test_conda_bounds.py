"""conda's match specs in the words of PEP 440, and which patches hold on PyPI beside METADATA, wheels and dates."""

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st
from packaging.specifiers import SpecifierSet
from test_conda_patches import ANY, EXTENSION, NEWEST, NUMPY, PANDAS, Index, Made

from tools.refresh.conda_bounds import Inexpressible, clauses, read_spec, specifier_text
from tools.refresh.conda_patches import patches_of
from tools.refresh.needed_bounds import Needed, needs_of
from tools.refresh.releases import DatedRelease, releases


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("numpy", ("numpy", "")),
        ("numpy *", ("numpy", "")),
        ("numpy >=1.19,<2.0a0", ("numpy", ">=1.19,<2")),
        ("numpy >=1.19, <3", ("numpy", ">=1.19,<3")),
        ("zarr<3", ("zarr", "<3")),
        ("pandas >=1.0,<1.6.0dev0", ("pandas", ">=1,<1.6")),
        ("semver >=2.13.0,<2.14.dev0", ("semver", ">=2.13,<2.14")),
        ("requests >=2.*", ("requests", ">=2")),
        ("h11 0.*", ("h11", "==0.*")),
        ("tokenizers 0.4.1", ("tokenizers", "==0.4.1")),
        ("tokenizers ==0.4.1", ("tokenizers", "==0.4.1")),
        ("setuptools !=65.0.*", ("setuptools", "!=65.0.*")),
        ("numpy =1.26", ("numpy", "==1.26.*")),
        ("nvidia-ml-py ~=12.0", ("nvidia-ml-py", "~=12.0")),
        ("numpy <=1.26.4", ("numpy", "<=1.26.4")),
        ("pytest >7,!=8.0", ("pytest", ">7,!=8.0")),
        ("typing_extensions >=3.10.0.0", ("typing_extensions", ">=3.10")),
    ],
)
def test_specs(spec: str, expected: tuple[str, str]) -> None:
    name, bound = read_spec(spec)
    assert (name, specifier_text(bound)) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "pytorch 2.4.1 cuda118_*",
        "smopy 0.0.7|0.0.8",
        "numpy >=2.0.0rc1",
        "numpy ==2.0a0",
        "libfoo >=9e",
        "numpy >=1.2.*.3",
        "[version=1]",
        "numpy >=1,(<2|>3)",
        "",
    ],
)
def test_what_pep_440_has_no_words_for(spec: str) -> None:
    with pytest.raises(Inexpressible):
        read_spec(spec)


@given(st.text(alphabet="<>=!~,|.* 0123456789abrcdev", max_size=30))
def test_whatever_is_read_is_a_specifier(version: str) -> None:
    try:
        bound = clauses(version)
    except Inexpressible:
        return
    try:
        SpecifierSet(specifier_text(bound))
    except ValueError:
        assert "~=" in version  # PEP 440 wants two numbers there


def compared(
    frame: Mapping[str, Made], change: str, conditions: str = "name: frame", file: str = "frame.yaml"
) -> tuple[Needed, list[str]]:
    """Compare one patch of `frame` with an index, and give the reasons for which it's left out.

    `frame` has a newer release as well.
    """
    patches, left_out = patches_of({file: f"if: {{{conditions}}}\nthen: [{{add_depends: '{change}'}}]\n"})
    assert left_out == ()
    index = Index({"frame": {**frame, "99.0": NEWEST} if frame else {}, "numpy": NUMPY, "pandas": PANDAS})

    def of(project: str) -> tuple[DatedRelease, ...]:
        return releases(project, index.files(project))

    found, without = needs_of("frame", change.partition(" ")[0], patches, of, index)
    return found, [reason for _, reason in without]


def bounds(found: Needed) -> dict[str, str]:
    return {str(version): specifier_text(tuple(sorted(clauses))) for version, clauses in found.bounds.items()}


def left_out(frame: Mapping[str, Made], change: str, conditions: str = "name: frame", file: str = "frame.yaml") -> str:
    found, reasons = compared(frame, change, conditions, file)
    assert found.bounds == {}
    (reason,) = reasons
    return reason


def test_what_metadata_lacks() -> None:
    frame = {
        "1.0.0": Made("2023-02-01", ("pandas>=1",)),
        "1.1.0": Made("2023-03-01", ('pandas; python_version >= "3.8"', "other")),
        "1.2.0": Made("2023-04-01", ("pandas>=1,<2",)),
    }
    found, reasons = compared(frame, "pandas <2", "name: frame, version_lt: '1.2'")
    assert (bounds(found), reasons) == ({"1.0.0": "<2", "1.1.0": "<2"}, [])
    assert {specifier_text(tuple(found.covered[version])) for version in found.bounds} == {"<2"}


def test_only_what_is_news_of_a_bound() -> None:
    found, _ = compared({"1.0.0": Made("2023-02-01", ("pandas>=1.5.3",))}, "pandas >=1.5,<2")
    assert bounds(found) == {"1.0.0": "<2"}


def test_a_recipe_that_was_mended_and_not_metadata() -> None:
    assert left_out({"1.0.0": Made("2023-02-01", ("pandas<2",))}, "pandas <2") == "METADATA says it already"


def test_an_extra_counts_and_a_test_extra_does_not() -> None:
    extra = {"1.0.0": Made("2023-02-01", ('pandas>=1; extra == "dataframe"',))}
    assert bounds(compared(extra, "pandas <2")[0]) == {"1.0.0": "<2"}
    for name in ("test", "dev", "docs", "all", "unit-tests", "test_all"):
        aside = {"1.0.0": Made("2023-02-01", (f'pandas>=1; extra == "{name}"',))}
        assert left_out(aside, "pandas <2") == "METADATA doesn't name the dependency"


def test_a_requirement_that_nobody_can_read_counts_for_nothing() -> None:
    frame = {"1.0.0": Made("2023-02-01", ("pandas>=1", "???", "pandas ~> 3"))}
    assert bounds(compared(frame, "pandas <2")[0]) == {"1.0.0": "<2"}


def test_sources_have_no_metadata_to_compare_with() -> None:
    assert left_out({"1.0.0": Made("2023-02-01", (), ())}, "pandas <2") == "no wheel, so no METADATA to compare with"


def test_yanked_and_early_releases_count_for_nothing() -> None:
    frame = {
        "1.0.0": Made("2023-02-01", ("pandas",), yanked=True),
        "1.1.0rc1": Made("2023-02-01", ("pandas",)),
    }
    assert left_out(frame, "pandas <2", "name: frame, version_lt: '2'") == "PyPI has none of the versions"


def test_the_newest_release_of_a_package_is_never_bound() -> None:
    """Whoever needs more of the dependency would have no other release to go to."""
    frame = {"1.0.0": Made("2023-02-01", ("pandas",))}
    assert bounds(compared({**frame, "100.0": frame["1.0.0"]}, "pandas <2")[0]) == {"1.0.0": "<2"}
    conditions = "name: frame, version: '100.0'"
    assert left_out({"100.0": frame["1.0.0"]}, "pandas <2", conditions).startswith("it's the newest release")


def test_versions_that_pypi_lacks() -> None:
    frame = {"1.0.0": Made("2023-02-01", ("pandas",))}
    assert left_out(frame, "pandas <2", "name: frame, version: '0.9'") == "PyPI has none of the versions"
    assert left_out({}, "pandas <2") == "PyPI doesn't have both"
    assert left_out(frame, "other <2") == "PyPI doesn't have both"


def test_a_moment_alone_ends_at_the_newest_release_before_it() -> None:
    frame = {version: Made(day, ("pandas",)) for version, day in (("1.0", "2023-03-01"), ("1.1", "2023-06-01"))}
    found, _ = compared(frame, "pandas <2", "name: frame, timestamp_lt: 1682000000000")
    assert bounds(found) == {"1.0": "<2"}


def test_pythons_on_which_nothing_would_be_left() -> None:
    """NumPy 1.26 has no wheels for 3.13 and later: there, the bound would refuse what installs now."""
    found, _ = compared({"1.0.0": Made("2023-02-01", ("numpy",))}, "numpy <2")
    assert bounds(found) == {"1.0.0": "<2"}
    assert {*found.pythons.values()} == {frozenset({"3.11", "3.12"})}
    assert {*found.without.values()} == {frozenset({"3.9", "3.10", "3.13", "3.14", "3.15"})}
    compiled = {"1.0.0": Made("2023-02-01", ("numpy",), ("cp313-cp313-manylinux_2_17_x86_64",))}
    assert left_out(compiled, "numpy <2") == "nothing would be left to install"


def test_wheels_of_other_pythons_are_no_choice() -> None:
    """NumPy 2 has no wheel for 3.11 here, so that Python never got it."""
    frame = {"1.0.0": Made("2023-02-01", ("numpy",), ("cp311-cp311-manylinux_2_17_x86_64",))}
    assert left_out(frame, "numpy <2") == "METADATA says it already"


@pytest.mark.parametrize(
    ("uploaded", "change", "reason"),
    [
        ("2024-01-10", "pandas <2", "the release came long after what the bound leaves out"),
        ("2022-06-01", "pandas >=2.2", "the release is older than what the bound asks for"),
        ("2023-02-01", "pandas >=9", "PyPI has none of the versions that the bound admits"),
    ],
)
def test_dates_that_raise_a_doubt(uploaded: str, change: str, reason: str) -> None:
    assert left_out({"1.0.0": Made(uploaded, ("pandas",))}, change) == reason


def test_first_builds_of_python_code_are_as_on_pypi() -> None:
    conditions = "name: frame, version: 1.0.0, build_number: 0"
    assert bounds(compared({"1.0.0": Made("2023-02-01", ("pandas",))}, "pandas <2", conditions)[0])
    compiled = {"1.0.0": Made("2023-02-01", ("pandas",), EXTENSION)}
    assert left_out(compiled, "pandas <2", conditions) == "it concerns some builds of compiled code"


def test_files_that_guess() -> None:
    frame = {"1.0.0": Made("2023-02-01", ("numpy",), EXTENSION)}
    guess = left_out(frame, "numpy <2", file="numpy2_unknown_lower_bound.yaml")
    assert guess == "the file itself says that it's a guess"
    file = "numpy2_known_lower_bound.yaml"
    assert bounds(compared(frame, "numpy <2", file=file)[0]) == {"1.0.0": "<2"}
    for tags in (ANY, ("py3-none-manylinux_2_17_x86_64",)):
        assert left_out({"1.0.0": Made("2023-02-01", ("numpy",), tags)}, "numpy <2", file=file).startswith(
            "without an extension module"
        )
