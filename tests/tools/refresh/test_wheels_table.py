"""The tables of the PyTorch indexes' files: made again from the recorded indexes, and what stops it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from packaging.version import Version
from support.recorded import RecordedIndex

from envspec.facts import tables, wheels
from tools.refresh import __main__ as program
from tools.refresh.published import PublishedFile, UpstreamChanged
from tools.refresh.wheels_table import FROM, PROJECTS, Source, refreshed_wheels, table_text

WHEELS = Path(tables.__file__).parent / "data" / "wheels"
OLD = "torch-2.9.1+cu130-cp312-cp312-manylinux_2_28_x86_64.whl"
NEW = "torch-2.10.0+cu130-cp312-cp312-manylinux_2_28_x86_64.whl"
SAID = {"requires_python": ">=3.10", "requires_dist": ["filelock"], "provides_extra": []}
RELEASE = {
    "sources": ["seen"],
    "metadata": [{"trust": "copied", "from": "seen", **SAID}],
    "files": [{"file": OLD, "sha256": "a" * 64, "metadata": 0}],
}
TABLE = table_text(
    {
        "schema": 1,
        "variant": "cu130",
        "sources": {"seen": "seen"},
        "projects": {**{name: {} for name in PROJECTS}, "torch": {"2.9.1+cu130": RELEASE}},
    }
)


def source(*files: str, has: Callable[[str, str], bool] = lambda release, platform: True, **hashes: str) -> Source:
    given = {OLD: hashes.get("old", "a" * 64), **dict.fromkeys(files, "b" * 64)}
    pages = [PublishedFile(file, sha256=sha256) for file, sha256 in given.items()]

    def of(project: str) -> list[PublishedFile]:
        return [page for page in pages if page.file.startswith(f"{project}-")]

    return Source(of, lambda file: SAID, has, dict.fromkeys(PROJECTS, "2.0.0"))


def test_nothing_new_changes_nothing() -> None:
    assert refreshed_wheels(TABLE, "cu130", source()) == TABLE


@pytest.mark.parametrize("path", sorted(WHEELS.glob("*.json")), ids=lambda path: path.stem)
def test_the_real_tables_keep_their_text(path: Path) -> None:
    text = path.read_text()
    assert table_text(json.loads(text)) == text


def test_new_files_come_with_their_own_metadata() -> None:
    other_python = OLD.replace("cp312", "cp313")
    found = json.loads(refreshed_wheels(TABLE, "cu130", source(NEW, other_python)))
    torch = found["projects"]["torch"]
    assert list(torch) == ["2.9.1+cu130", "2.10.0+cu130"] and found["sources"]["index"]
    group = {"trust": "verified", "from": FROM, **SAID}
    files = [{"file": NEW, "sha256": "b" * 64, "metadata": 0}]
    assert torch["2.10.0+cu130"] == {"sources": ["index"], "metadata": [group], "files": files}
    assert torch["2.9.1+cu130"]["sources"] == ["seen", "index"]
    assert torch["2.9.1+cu130"]["files"][1] == {"file": other_python, "sha256": "b" * 64, "metadata": 1}


def test_a_variant_that_has_no_table_yet_gets_one() -> None:
    made = json.loads(refreshed_wheels(None, "cu130", source(NEW)))
    assert list(made["projects"]["torch"]) == ["2.9.1+cu130", "2.10.0+cu130"]


@pytest.mark.parametrize(
    "file",
    [
        NEW.replace("2.10.0", "2.10.0rc1"),
        NEW.replace("manylinux_2_28_x86_64", "linux_s390x"),
        NEW.replace("2.10.0", "2.9.0"),
        "torch-2.10.0.tar.gz",
    ],
)
def test_what_the_tables_leave_out_stops_nothing(file: str) -> None:
    assert refreshed_wheels(TABLE, "cu130", source(file)) == TABLE


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (source(old="c" * 64), "has the SHA-256 c{64} there, and a{64} in the table"),
        (source("torch-2.10.0-cu130.whl"), "isn't the name of a wheel"),
        (source(NEW.replace("cp312-cp312", "cp310-abi3")), "for several Pythons"),
        (source(NEW.replace("cu130", "cu132")), "another local version than its index"),
        (
            source(NEW, has=lambda release, platform: False),
            "torch.toml has no build of torch 2.10.0 for cu130 on linux-64",
        ),
    ],
    ids=["replaced", "name", "abi3", "another variant", "a new variant without a build"],
)
def test_what_would_make_a_wrong_row_stops_it(asked: Source, why: str) -> None:
    with pytest.raises(UpstreamChanged, match=why):
        refreshed_wheels(TABLE, "cu130", asked)


@pytest.mark.slow
def test_the_command_makes_rows_again_from_the_recorded_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are taken out of a real table come again as they were, but for their sources."""
    whole: dict[str, Any] = json.loads((WHEELS / "cu129.json").read_text())
    less = {**whole, "projects": {name: dict(of) for name, of in whole["projects"].items()}}
    newest = {name: max(of, key=Version) for name, of in less["projects"].items()}
    for name, version in newest.items():
        del less["projects"][name][version]
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "cu129.json").write_text(table_text(less))
    monkeypatch.setattr(program, "WHEELS", tmp_path / "wheels")
    monkeypatch.setattr(program, "TABLE", tmp_path / "torch.toml")
    index = RecordedIndex()
    with index:
        monkeypatch.setenv("ENVSPEC_CONFIG", str(tmp_path / "config.toml"))
        (tmp_path / "config.toml").write_text(f'[mirrors]\npytorch = "{index.whl}"\n')
        monkeypatch.setenv("ENVSPEC_CACHE_DIR", str(tmp_path / "cache"))
        done = CliRunner().invoke(program.command, ["wheels", "cu129", "--write"], standalone_mode=False)
    assert done.exception is None and done.return_value == 0, done.output
    made = json.loads((tmp_path / "wheels" / "cu129.json").read_text())["projects"]
    for name, version in newest.items():
        assert said(made[name][version]) == said(whole["projects"][name][version]), name
    assert set(wheels.variants()) >= {"cu129"}


def said(release: Any) -> dict[str, object]:
    """What a release's files say, without how that is known."""
    known = [{key: group[key] for key in SAID} for group in release["metadata"]]
    return {row["file"]: (row["sha256"], known[row["metadata"]]) for row in release["files"]}
