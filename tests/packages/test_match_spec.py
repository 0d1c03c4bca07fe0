"""conda's match specs as the judge reads them, held against rattler's own reading."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, strategies as st

from envspec.lock.read import load
from envspec.packages.conda import admits, is_file_of, place_of, takes_build_number
from envspec.packages.names import conda_name


@pytest.mark.parametrize(
    ("spec", "version", "build", "fits"),
    [
        ("a", "1", "x", True),
        ("a 1.2.*", "1.2", "", True),
        ("a 1.2.*", "1.20", "", False),
        ("a 1.2", "1.2.1", "", False),
        ("a ==2.7.1", "2.7.1", "", True),
        ("a=1.2", "1.2.1", "", True),
        ("a=1.2=py_0", "1.2", "py_0", True),
        ("a=1.2=py_0", "1.2", "py_1", False),
        ("a >=1.2,<2.0a0", "2.0", "", False),
        ("a>=1.2,<2", "1.9.9", "", True),
        ("a 1.*|3.*", "3.1", "", True),
        ("a 1.*|3.*", "2.1", "", False),
        ("a !=1.2.*", "1.2.5", "", False),
        ("a ~=1.2.3", "1.2.9", "", True),
        ("a ~=1.2.3", "1.3.0", "", False),
        ("python_abi 3.12.* *_cp312", "3.12", "8_cp312", True),
        ("python_abi 3.12.* *_cp312", "3.12", "8_cp313", False),
        ("conda-forge::a 1.*", "2", "", False),
        ('a[version=">=2",build="cuda*"]', "2.1", "cpu_0", False),
        ('a[version=">=2",build="cuda*"]', "2.1", "cuda_0", True),
        ("a * cuda*", "9", "cuda126_0", True),
        ('a[url="https://packages.example.org/a?build=x", build="cuda*"]', "1", "cuda_0", True),
        ("a[license=MIT, build_number=2, version='>=2']", "1", "x", False),
    ],
)
def test_match_specs(spec: str, version: str, build: str, fits: bool) -> None:
    assert admits(spec, version, build) == fits


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("a 1.*", ("", "")),
        ("conda-forge::a 1.*", ("conda-forge", "")),
        ("conda-forge/linux-64::a", ("conda-forge", "linux-64")),
        ("pytorch/label/nightly::a", ("pytorch/label/nightly", "")),
        ("https://example.org/own/noarch::a", ("https://example.org/own", "noarch")),
        ("a[channel=own, subdir='noarch', version='>=1']", ("own", "noarch")),
    ],
)
def test_the_channel_and_subdir_of_a_match_spec(spec: str, place: tuple[str, str]) -> None:
    assert place_of(spec) == place


_NUMBERS = st.lists(st.integers(0, 3), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
_VERSIONS = st.builds("{}{}".format, _NUMBERS, st.sampled_from(("", "a1", "rc2", ".post1")))
_STARRED = st.builds("{}{}".format, _NUMBERS, st.sampled_from((".*", "*")))
_OPERATORS = st.sampled_from((">=", "<=", "==", "!=", "<", ">", "=", "~="))
_CLAUSES = st.builds("{}{}".format, _OPERATORS, _VERSIONS | _STARRED) | _STARRED


@example(clauses=["0.0.*"], joined=",", version="0a1")
@example(clauses=["1.0.0.*"], joined=",", version="1.0.post1")
@example(clauses=["1.0.1.*"], joined=",", version="1.0a1")
@given(st.lists(_CLAUSES, min_size=1, max_size=3), st.sampled_from((",", "|")), _VERSIONS)
def test_as_rattler_reads_them(clauses: list[str], joined: str, version: str) -> None:
    rattler = pytest.importorskip("rattler")
    text = joined.join(clauses)
    read = rattler.VersionSpec(str(rattler.MatchSpec(f"a {text}", strict=False).version))
    assert admits(f"a {text}", version, "") == read.matches(rattler.Version(version))


@example(clauses=["==15.2.0"], joined=",", behind="=*_0", version="15.2.0", build="h_1")
@example(clauses=["=1.2"], joined=",", behind=" a_0", version="1.2.1", build="a_0")
@given(
    st.lists(_CLAUSES, min_size=1, max_size=2),
    st.sampled_from((",", "|")),
    st.sampled_from(("=a_0", " a_0", "=a*", "=*_0", " =a_0")),
    _VERSIONS,
    st.sampled_from(("a_0", "a_1", "h_0")),
)
def test_builds_behind_versions_as_rattler_reads_them(
    clauses: list[str], joined: str, behind: str, version: str, build: str
) -> None:
    rattler = pytest.importorskip("rattler")
    text = f"a {joined.join(clauses)}{behind}"
    name = rattler.PackageName("a")
    record = rattler.PackageRecord(
        name, rattler.VersionWithSource(version), rattler.package.BuildString(build), 0, "noarch", None
    )
    assert admits(text, version, build) == rattler.MatchSpec(text, strict=False).matches(record)


_BUILDS = st.text("aA_0", min_size=1, max_size=4)


@example(wanted="*_0", build="A_0")
@example(wanted="a_0", build="A_0")
@given(st.text("aA_0*", min_size=1, max_size=4).filter(lambda text: "**" not in text), _BUILDS)
def test_builds_as_rattler_reads_them(wanted: str, build: str) -> None:
    rattler = pytest.importorskip("rattler")
    name, version = rattler.PackageName("a"), rattler.VersionWithSource("1")
    record = rattler.PackageRecord(name, version, rattler.package.BuildString(build), 0, "noarch", None)
    assert admits(f"a * {wanted}", "1", build) == rattler.MatchSpec(f"a * {wanted}").matches(record)


_PATTERNS = st.lists(
    st.sampled_from(("a", "A", "_", "0", ".", r"\d", r"\w", "[a0]", "[^a]", "a*", ".*", "0?", "(a|_0)", "(a*)*", "|")),
    min_size=1, max_size=4,
).map("".join)  # fmt: skip


@example(pattern="(a+)+0", build="a" * 60)
@example(pattern=".*(?=0)0", build="a_0")
@given(_PATTERNS, _BUILDS)
def test_regular_expressions_of_builds_as_rattler_reads_them(pattern: str, build: str) -> None:
    rattler = pytest.importorskip("rattler")
    name, version = rattler.PackageName("a"), rattler.VersionWithSource("1")
    record = rattler.PackageRecord(name, version, rattler.package.BuildString(build), 0, "noarch", None)
    for text in (f"a[build='^{pattern}$']", f'a[build="^{pattern}"]', f'a[build_number=1, build="^{pattern}$"]'):
        read = rattler.MatchSpec(text.replace("build_number=1, ", ""))
        assert admits(text, "1", build) == read.matches(record), text


@pytest.mark.parametrize(
    ("expression", "build"), [("^(a$", "a"), ("^(a{1000}){1000}$", "a"), ("^.*$", "no build"), ("^.*$", "")]
)
def test_what_rattler_reads_no_expression_or_build_in_fits_nothing(expression: str, build: str) -> None:
    pytest.importorskip("rattler")
    assert not admits(f'a[build="{expression}"]', "1", build)


@given(st.sampled_from(("", ">=", "<=", "==", "!=", "<", ">")), st.integers(0, 3), st.integers(0, 3), st.booleans())
def test_build_numbers_as_rattler_reads_them(operator: str, bound: int, number: int, quoted: bool) -> None:
    rattler = pytest.importorskip("rattler")
    name, version = rattler.PackageName("a"), rattler.VersionWithSource("1")
    record = rattler.PackageRecord(name, version, rattler.package.BuildString("x"), number, "noarch", None)
    text = f"a[build_number='{operator}{bound}']" if quoted else f"a[build_number={operator}{bound}]"
    assert takes_build_number(text, number) == rattler.MatchSpec(text).matches(record)
    assert takes_build_number("a 1.*", number)


@pytest.mark.parametrize("spec", [f"a[sha256={'ab' * 32}]", f"a 1.*[md5='{'CD' * 16}', subdir=noarch]"])
def test_the_file_of_a_match_spec(spec: str) -> None:
    assert is_file_of(spec, "ab" * 32, "cd" * 16)
    assert not is_file_of(spec, "ef" * 32, "ef" * 16)
    assert not is_file_of(spec, "ef" * 32, None)


def test_every_edge_of_the_shipped_lock_holds(root: Path) -> None:
    for target in load(root / "locks" / "hpc-v2.7" / "envspec.lock"):
        pins = {pin.name: pin for pin in target.pins if pin.kind == "conda"}
        for pin in pins.values():
            for text in pin.dependencies:
                if found := pins.get(conda_name(text)):
                    assert admits(text, found.version, found.build or ""), (pin.name, text)


@pytest.mark.nightly
def test_what_conda_forge_s_records_need_is_read_as_rattler_reads_it(recorded_data: Path) -> None:
    """Of each package that a match spec names, some of its records are asked for."""
    rattler = pytest.importorskip("rattler")
    documents = [json.loads(path.read_text()) for path in sorted(recorded_data.glob("conda-forge/*/repodata.json"))]
    kinds = ("packages", "packages.conda")
    records = [one for document in documents for kind in kinds for one in document[kind].values()]
    builds: dict[str, list[tuple[str, str]]] = {}
    for one in records:
        builds.setdefault(one["name"], []).append((one["version"], one["build"]))
    specs = {text for one in records for text in (*one["depends"], *one.get("constrains", ()))}
    assert len(specs) > 10_000
    for text in specs:
        read, name = rattler.MatchSpec(text, strict=False), conda_name(text)
        known = builds.get(name, [("1.0", "0"), ("12.6", "h0_1")])
        for version, build in known[:: max(1, len(known) // 2)]:
            said = rattler.VersionWithSource(version), rattler.package.BuildString(build)
            record = rattler.PackageRecord(rattler.PackageName(name), *said, 0, "noarch", None)
            assert admits(text, version, build) == read.matches(record), (text, version, build)
