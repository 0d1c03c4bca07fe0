"""The table of conda-forge's patches: rows, runs of releases, markers, and the same bytes for the same inputs."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tomli
from click.testing import CliRunner
from patched import NEWEST, NUMPY, PANDAS, Index, Made

from envspec.base.errors import InputError
from tools.refresh import __main__ as program
from tools.refresh.patches_table import table_from

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
