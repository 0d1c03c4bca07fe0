"""Corrections from conda-forge's patches: what is read of them, and the table that comes of it."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
import tomli
import yaml
from click.testing import CliRunner
from hypothesis import given, strategies as st
from packaging.version import Version

from envspec.base.errors import InputError
from tools.refresh import __main__ as program
from tools.refresh.conda_bounds import specifier_text
from tools.refresh.conda_patches import Patch, When, patches_of
from tools.refresh.patches_table import table_from
from tools.refresh.published import PublishedFile

ANY = ("py3-none-any",)
EXTENSION = ("cp312-cp312-manylinux_2_17_x86_64", "cp313-cp313-manylinux_2_17_x86_64")


@dataclass(frozen=True)
class Made:
    """A release: when it came (`2023-05-01`), what it requires, and the tags of its wheels; none for a source."""

    uploaded: str
    requires: tuple[str, ...] = ()
    tags: tuple[str, ...] = ANY
    yanked: bool = False


@dataclass
class Index:
    """PyPI with these projects, each with its releases by version. `read` lists the wheels whose METADATA was read."""

    projects: Mapping[str, Mapping[str, Made]]
    read: list[str] = field(default_factory=list)

    def files(self, project: str) -> tuple[PublishedFile, ...]:
        made = self.projects.get(project, {})
        return tuple(file for version, release in made.items() for file in files(project, version, release))

    def requires_dist(self, project: str, file: str) -> tuple[str, ...]:
        self.read.append(file)
        return self.projects[project][file.split("-")[1]].requires


def files(project: str, version: str, release: Made) -> Sequence[PublishedFile]:
    stem = f"{project.replace('-', '_')}-{version}"
    names = [f"{stem}-{tag}.whl" for tag in release.tags] or [f"{stem}.tar.gz"]
    return [PublishedFile(name, None, release.yanked, f"{release.uploaded}T00:00:00.123456Z") for name in names]


NUMPY = {
    "1.24.0": Made("2022-12-18", tags=("cp311-cp311-manylinux_2_17_x86_64",)),
    "1.26.4": Made("2024-02-05", tags=("cp312-cp312-manylinux_2_17_x86_64",)),
    "2.0.0": Made("2024-06-16", tags=EXTENSION),
    "2.3.0": Made("2025-06-07", tags=EXTENSION),
}
"""NumPy, as it is: each minor has wheels for the Pythons of its time."""

NEWEST = Made("2026-01-01")
"""A release after all that patches are for: the newest of a package is never bound."""

PANDAS = {"1.5.3": Made("2023-01-19"), "2.0.0": Made("2023-04-03"), "2.2.0": Made("2024-01-20")}


def read(text: str) -> tuple[Patch, ...]:
    patches, left_out = patches_of({"a.yaml": text})
    assert left_out == ()
    return patches


def bounds(then: str, conditions: str = "name: frame") -> list[tuple[str, str]]:
    text = f"if: {{{conditions}}}\nthen:\n  - {then}\n"
    return [(patch.dependency, specifier_text(patch.bound)) for patch in read(text)]


def reason(then: str, conditions: str = "name: frame") -> str:
    patches, left_out = patches_of({"a.yaml": f"if: {{{conditions}}}\nthen:\n  - {then}\n"})
    assert patches == () and {one.file for one in left_out} == {"a.yaml"}
    (found,) = {one.reason for one in left_out}
    return found


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("add_depends: lib9 >=1.2", [("lib9", ">=1.2")]),
        ("add_depends: [lib9 <2, lib8 >=3]", [("lib9", "<2"), ("lib8", ">=3")]),
        ("add_constrains: lib9<3", [("lib9", "<3")]),
        ("tighten_depends: {name: lib9, upper_bound: '2.0'}", [("lib9", "<2")]),
        ("tighten_depends: {name: lib9, upper_bound: 82, max_pin: x}", [("lib9", "<82")]),
        ("replace_depends: {old: lib9, new: lib9 <2.0a0}", [("lib9", "<2")]),
        ("replace_depends: {old: 'lib9 >=1.1', new: 'lib9 >=1.1,<2.0a0'}", [("lib9", "<2")]),
        ("replace_depends: {old: 'lib9 >=*', new: '${old},<4'}", [("lib9", "<4")]),
        ("replace_depends: {old: 'lib9?( *)', new: 'lib9 >=2.9,<2.10'}", [("lib9", ">=2.9,<2.10")]),
        ("replace_constrains: {old: 'lib9 >=1.2', new: 'lib9 >=1.2,<1.4'}", [("lib9", "<1.4")]),
    ],
)
def test_bounds(then: str, expected: list[tuple[str, str]]) -> None:
    assert bounds(then) == expected


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ("loosen_depends: {name: lib9, max_pin: x}", "it loosens, removes, renames"),
        ("remove_depends: lib9", "it loosens, removes, renames"),
        ("rename_depends: {old: lib9, new: lib8}", "it loosens, removes, renames"),
        ("replace_depends: {old: lib9 <2, new: lib8 <2}", "it loosens, removes, renames"),
        ("replace_depends: {old: 'lib9 >=1,<2', new: lib9 >=1}", "it adds no bound"),
        ("add_depends: lib9", "it adds no bound"),
        ("add_depends: python >=3.9", "it concerns Python itself or the machine"),
        ("add_depends: __glibc >=2.17", "it concerns Python itself or the machine"),
        ("add_depends: lib9 2.4.1 cuda118_*", "it names a build"),
        ("add_depends: lib9 1.2|1.3", "it names a build"),
        ("add_depends: 'lib9 ==${version}'", "the bound is relative to the build"),
        ("tighten_depends: {name: lib9, max_pin: x.x}", "the bound is relative to the build"),
        ("tighten_depends: {name: lib*, upper_bound: 2}", "it names no single dependency"),
        ("tighten_depends: 3", "it isn't a patch"),
        ("replace_depends: {new: lib9}", "it isn't a patch"),
    ],
)
def test_what_is_no_bound_is_left_out(then: str, expected: str) -> None:
    assert reason(then).startswith(expected)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ("has_depends: 'lib9 >=1'", "it names no single package"),
        ("name: lib*", "it names no single package"),
        ("name: frame, subdir_in: linux-64", "it concerns some builds"),
        ("name: frame, build: '*py38*'", "it concerns some builds"),
        ("name: frame, artifact_in: frame-1-0.conda", "it concerns some builds"),
        ("name: frame, timestamp_gt: 1", "it concerns some builds"),
        ("name: frame, has_depends: cuda-version*", "it depends on other dependencies"),
        ("name: frame, has_depends: 'python >=3.8,<3.9.0a0'", "it depends on other dependencies"),
        ("name: frame, version_lt: 2021a_x", "its versions aren't of PEP 440"),
        ("name: frame, timestamp_lt: soon", "it isn't a patch"),
        ("name: frame, timestamp_lt: 99999999999999999999", "it isn't a patch"),
    ],
)
def test_what_is_said_of_builds_is_left_out(conditions: str, expected: str) -> None:
    assert reason("add_depends: lib9 <2", conditions).startswith(expected)


def test_conditions() -> None:
    (patch,) = read(
        """\
if:
  name_in: [frame, frame-core]
  version_ge: 1.2.0
  version_lt: "2.0"
  timestamp_lt: 1700000000000
  subdir_in: noarch
  has_depends: ["lib9*", "python >=3.9*"]
  not_has_depends: lib9 *,<2.0a0
then:
  - tighten_depends: {name: lib9, upper_bound: 2}
"""
    )
    assert patch.packages == ("frame", "frame-core")
    day = datetime(2023, 11, 1, tzinfo=timezone.utc)
    assert patch.when == When(
        (((">="), "1.2.0"), ("<", "2.0")), (), datetime(2023, 11, 14, 22, 13, 20, tzinfo=timezone.utc)
    )
    assert [v for v in ("1.1", "1.2", "1.9.post1", "2.0") if patch.when.admits(Version(v), day)] == ["1.2", "1.9.post1"]
    assert not patch.when.admits(Version("1.2"), datetime(2023, 11, 15, tzinfo=timezone.utc))
    assert not patch.when.admits(Version("1.2"), None)


def test_versions_by_name_and_by_pattern() -> None:
    (patch,) = read("if: {name: frame, version_in: ['1.2.0', '2.*']}\nthen: [{add_depends: lib9 <2}]\n")
    admitted = [v for v in ("1.2", "1.2.1", "2.0", "2.5.1", "3.0") if patch.when.admits(Version(v), None)]
    assert admitted == ["1.2", "2.0", "2.5.1"]


@pytest.mark.parametrize("condition", ["build_number: 0", "build_number_lt: 2", "build: pyhd8ed1ab_0"])
def test_builds_that_were_mended_later(condition: str) -> None:
    (patch,) = read(f"if: {{name: frame, version: '1.2', {condition}}}\nthen: [{{add_depends: lib9 <2}}]\n")
    assert patch.when.first_builds


def test_several_documents_and_empty_ones() -> None:
    one = "if: {name: frame}\nthen: [{add_depends: lib9 <2}]\n"
    assert len(read(f"# a comment\n{one}---\n{one}---\n")) == 2
    assert read("") == () == read("# a comment\n")


@pytest.mark.parametrize("text", ["if: [", "a: b: c", "\t- x", "x: *unknown"])
def test_a_file_that_is_no_yaml_is_named_with_its_line(text: str) -> None:
    with pytest.raises(InputError, match=r"^b\.yaml:\d+: it isn't YAML: "):
        patches_of({"a.yaml": "", "b.yaml": text})


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["lib9 <2", "${old}"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["old", "new", "name", "upper_bound", "max_pin"]), inner, max_size=3)
    ),
    max_leaves=6,
)
_conditions = st.dictionaries(
    st.sampled_from(["name", "name_in", "version", "version_lt", "timestamp_lt", "has_depends", "build_number", "odd"]),
    _values,
    max_size=4,
)
_instructions = st.lists(
    st.dictionaries(st.sampled_from(["add_depends", "replace_depends", "tighten_depends", "odd"]), _values) | _values,
    max_size=3,
)


@given(st.lists(st.fixed_dictionaries({"if": _conditions | _values, "then": _instructions | _values}) | _values))
def test_whatever_the_documents_hold(documents: list[Any]) -> None:
    """Each of them is a bound between names, or left out for a reason."""
    patches, left_out = patches_of({"a.yaml": yaml.safe_dump_all(documents)})
    assert all(patch.packages and patch.dependency and patch.bound for patch in patches)
    assert all(one.reason for one in left_out)


REVISION = "0123456789abcdef"

FRAME = "if: {name: seaborn, version_lt: '2'}\nthen: [{tighten_depends: {name: pandas, upper_bound: 2}}]\n"
"""A patch of a package whose name conda and PyPI share."""

OLD = Made("2023-02-01", ("pandas>=1",))
CAPPED = Made("2023-02-01", ("pandas>=1,<2",))
WITHOUT = Made("2023-02-01")
SOURCE = Made("2023-02-01", tags=())


def table(
    frame: Mapping[str, Made], text: str = FRAME, dependencies: Mapping[str, Mapping[str, Made]] | None = None
) -> list[dict[str, str]]:
    index = Index({"seaborn": {**frame, "99.0": NEWEST}, "pandas": PANDAS, "numpy": NUMPY, **(dependencies or {})})
    rows: list[dict[str, str]] = tomli.loads(table_from({"frame.yaml": text}, REVISION, index).text)["corrections"]
    return rows


def versions(rows: Iterable[Mapping[str, str]]) -> list[str]:
    return [row["versions"] for row in rows]


def test_a_row() -> None:
    assert table({"0.9": WITHOUT, "1.0": OLD, "1.1": OLD, "2.0": OLD}) == [
        {
            "name": "conda-forge-seaborn-pandas",
            "package": "seaborn",
            "versions": ">=1.0,<=1.1",
            "constraint": "pandas<2",
            "reason": "conda-forge found that seaborn 1.0 to 1.1 need pandas<2, and their METADATA doesn't say so",
            "source": "frame",
            "proved": "reported",
        }
    ]


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ({"1.0": OLD, "1.1": OLD}, ["<=1.1"]),
        ({"1.0": OLD}, ["==1.0"]),
        ({"0.9": CAPPED, "1.0": OLD}, ["<=1.0"]),
        ({"0.9": SOURCE, "1.0": OLD, "1.1": SOURCE}, ["<=1.0"]),
        ({"1.0": OLD, "1.1": CAPPED, "1.2": SOURCE, "1.3": OLD}, ["<=1.3"]),
        ({"1.0": OLD, "1.1": WITHOUT, "1.2": OLD, "1.3": OLD}, ["==1.0", ">=1.2,<=1.3"]),
        ({"0.9": WITHOUT, "1.0": OLD}, ["==1.0"]),
        ({"1.0": CAPPED, "1.1": SOURCE}, []),
    ],
)
def test_runs_of_releases(frame: Mapping[str, Made], expected: list[str]) -> None:
    assert versions(table(frame)) == expected


def test_what_the_patch_is_not_for_stays_outside() -> None:
    text = FRAME.replace("version_lt: '2'", "version_in: ['1.0', '1.2']")
    assert versions(table({"1.0": OLD, "1.1": OLD, "1.2": OLD, "1.3": OLD}, text)) == ["==1.0", "==1.2"]


def test_several_patches_of_one_pair_make_one_bound() -> None:
    text = (
        f"{FRAME}---\nif: {{name: seaborn, version: '1.1'}}\n"
        "then: [{add_depends: 'pandas >=1.5,<2.1'}, {add_depends: pandas <=1.5.3}]\n"
    )
    frame = {"1.0": OLD, "1.1": Made("2023-02-01", ("pandas",))}
    old = {"pandas": {"1.4.0": Made("2022-01-01"), **PANDAS}}
    assert [(row["versions"], row["constraint"]) for row in table(frame, text, old)] == [
        ("==1.0", "pandas<2"),
        ("==1.1", "pandas>=1.5,<=1.5.3"),
    ]


def test_the_marker_leaves_out_pythons_without_wheels() -> None:
    (row,) = table({"1.0": Made("2023-02-01", ("numpy",))}, FRAME.replace("pandas", "numpy"))
    assert row["constraint"] == "numpy<2; python_version >= '3.11' and python_version < '3.13'"


def test_names_are_those_of_pypi() -> None:
    text = "if: {name: matplotlib-base}\nthen: [{add_depends: pandas <2}]\n"
    index = Index({"matplotlib": {"1.0": OLD, "99.0": NEWEST}, "pandas": PANDAS})
    made = table_from({"a.yaml": text, "b.yaml": text.replace("pandas", "libcurl")}, REVISION, index)
    assert '{ name = "conda-forge-matplotlib-pandas", package = "matplotlib",' in made.text
    assert made.left_out == {"conda's name has none on PyPI": 1}


def test_another_project_of_the_same_name_gets_no_rows() -> None:
    """conda's openfe, Open Free Energy, has 1.4.0; PyPI's generates features."""
    named = f"{FRAME}---\nif: {{name: seaborn, version_in: ['1.4']}}\nthen: [{{add_depends: click <8.2}}]\n"
    assert table({"1.0": OLD, "1.1": OLD}, named) == []
    assert versions(table({"1.0": OLD, "1.4": OLD}, named)) == ["<=1.4"]


def test_what_a_proved_correction_says_is_not_reported_again() -> None:
    """torch-numpy-2 says it of all before 2.3."""
    text = "if: {name: pytorch, version_lt: '2.4'}\nthen: [{tighten_depends: {name: numpy, upper_bound: 2}}]\n"
    made = {version: Made("2023-02-01", ("numpy",)) for version in ("2.1", "2.2", "2.3")}
    index = Index({"torch": {**made, "99.0": NEWEST}, "numpy": NUMPY})
    rows = tomli.loads(table_from({"a.yaml": text}, REVISION, index).text)["corrections"]
    assert versions(rows) == ["==2.3"]


def test_the_text_has_its_sources_and_its_counts() -> None:
    index = Index({"seaborn": {"1.0": OLD, "2.1": OLD}, "pandas": PANDAS})
    files = {
        "frame.yaml": FRAME,
        "x.y.yaml": FRAME.replace("'2'", "'1.0'"),
        "z.yaml": FRAME.replace("pandas", "python"),
    }
    text = table_from(files, REVISION, index).text
    assert "# at revision 0123456789abcdef " in text
    assert "# Of 3 bounds and other changes in 3 files, 1 hold, in 1 rows. The others:\n" in text
    assert "#     1  it concerns Python itself or the machine\n#     1  PyPI has none" not in text
    assert tomli.loads(text)["sources"] == {
        "frame": "recipe/patch_yaml/frame.yaml of conda-forge/conda-forge-repodata-patches-feedstock at 01234567"
    }


def test_same_inputs_same_bytes_however_many_at_once() -> None:
    projects = {"seaborn": {"1.0": OLD, "2.1": OLD}, "matplotlib": {"1.0": OLD, "2.1": OLD}, "pandas": PANDAS}
    files = {"frame.yaml": FRAME, "b.yaml": FRAME.replace("seaborn", "matplotlib")}
    alone = table_from(files, REVISION, Index(projects)).text
    with ThreadPoolExecutor(4) as pool:
        assert table_from(dict(reversed(files.items())), REVISION, Index(projects), pool.map).text == alone
    packages = [row["package"] for row in tomli.loads(alone)["corrections"]]
    assert packages == sorted(packages) and len(packages) == 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the repository, with one patch."""
    (tmp_path / "recipe" / "patch_yaml").mkdir(parents=True)
    (tmp_path / "recipe" / "patch_yaml" / "frame.yaml").write_text(FRAME)
    monkeypatch.setattr(program, "PATCH_TABLE", tmp_path / "repodata_patches.toml")
    monkeypatch.setattr(program, "LiveIndex", lambda *_: Index({"seaborn": {"1.0": OLD, "2.1": OLD}, "pandas": PANDAS}))
    return tmp_path


def test_the_program(folder: Path) -> None:
    command = ["patches", str(folder), "--revision", REVISION]
    shown = CliRunner().invoke(program.command, command, standalone_mode=False)
    assert shown.return_value == 1
    assert '+  { name = "conda-forge-seaborn-pandas",' in shown.stdout
    assert "hint: python -m tools.refresh patches " in shown.stderr
    assert not program.PATCH_TABLE.exists()
    assert CliRunner().invoke(program.command, [*command, "--write"], standalone_mode=False).return_value == 0
    assert len(tomli.loads(program.PATCH_TABLE.read_text())["corrections"]) == 1
    done = CliRunner().invoke(program.command, command, standalone_mode=False)
    assert (done.return_value, done.stdout) == (0, "")
    assert done.stderr == "envspec/facts/data/repodata_patches.toml is up to date\n"


def test_a_folder_without_patches_and_a_revision_that_is_none(folder: Path) -> None:
    runner = CliRunner()
    empty = runner.invoke(program.command, ["patches", str(folder / "recipe"), "--revision", REVISION])
    assert isinstance(empty.exception, InputError) and "has no YAML files" in str(empty.exception)
    main = runner.invoke(program.command, ["patches", str(folder), "--revision", "main"])
    assert isinstance(main.exception, InputError) and "`main` isn't a commit's hash" in str(main.exception)
    (folder / "recipe" / "patch_yaml" / "broken.yaml").write_text("if: [\n")
    broken = runner.invoke(program.command, ["patches", str(folder), "--revision", REVISION])
    assert isinstance(broken.exception, InputError) and str(broken.exception).startswith("broken.yaml:2: it isn't YAML")
