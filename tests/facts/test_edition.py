"""The edition of the facts: those that ship, or a newer `envspec-facts` that is installed; none of a repository."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import date
from hashlib import sha256
from pathlib import Path

import pytest

from envspec.base.errors import InputError
from envspec.facts import edition, reach, tables
from envspec.facts.edition import MANIFEST, Edition, choose, shipped_edition
from tools.refresh import edition as writer

OWN = shipped_edition()


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A newer edition, as pip leaves it in a folder of site-packages."""
    folder = tmp_path / "site-packages" / "envspec_facts"
    writer.write(folder)
    renamed(folder, version="2099.1.1")
    return folder


def renamed(folder: Path, **changed: object) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def edited(folder: Path, name: str, change: Callable[[str], str]) -> None:
    """Change a table and its hash in the list, as another build of the package would."""
    path = folder / name
    path.write_text(change(path.read_text("utf-8")), "utf-8")
    files = json.loads((folder / MANIFEST).read_text())["files"]
    renamed(folder, files={**files, name: sha256(path.read_bytes()).hexdigest()})


def run(installed: Path, *arguments: str, cwd: Path, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """The command line with this folder as the only one that pip installs to."""
    code = "import site, sys\nplaces = [sys.argv.pop(1)]\nsite.getsitepackages = lambda: places\n"
    code += "site.ENABLE_USER_SITE = False\n"
    code += "from envspec.cli.main import run\nsys.exit(run(sys.argv[1:]))"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(installed.parent), *arguments],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout, ran.stderr


def test_the_shipped_version_is_as_new_as_its_tables() -> None:
    days = [tables.read(path.stem).get("as-of") for path in OWN.folder.glob("*.toml")]
    assert max(day for day in days if day) <= OWN.day
    assert OWN.origin == "envspec" and OWN.note is None


def test_a_newer_one_is_taken(installed: Path) -> None:
    assert choose(OWN, [installed]) == Edition("2099.1.1", installed, "envspec-facts")
    assert choose(OWN, [installed]).day == "2099-01-01"


@pytest.mark.parametrize("version", ["2020.1.1", OWN.version])
def test_an_older_or_equal_one_is_not(installed: Path, version: str) -> None:
    renamed(installed, version=version)
    assert choose(OWN, [installed]) == OWN


def test_of_two_the_newer_is_taken(installed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    writer.write(other)
    renamed(other, version="2099.1.1.1")
    assert choose(OWN, [other, installed]).folder == choose(OWN, [installed, other]).folder == other


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"format": 2}, "its format is 2, and this envspec reads 1"),
        ({"format": "1"}, "has no format"),
        ({"files": {}}, "it lacks calendar.toml"),
        ({"files": []}, "has no format or no list"),
        ({"files": {"../../secret.toml": "0" * 64}}, "which is no table"),
        ({"files": {"/etc/passwd": "0" * 64}}, "which is no table"),
        ({"version": "2099.1.1; rm"}, "no version that is a day"),
        ({"version": None}, "no version that is a day"),
    ],
)
def test_one_that_cannot_be_read_is_passed_over_with_its_reason(
    installed: Path, changed: dict[str, object], said: str
) -> None:
    renamed(installed, **changed)
    found = choose(OWN, [installed])
    assert found.folder == OWN.folder and said in str(found.note)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_a_damaged_list_is_passed_over(installed: Path, text: str) -> None:
    (installed / MANIFEST).write_text(text)
    found = choose(OWN, [installed])
    assert found.folder == OWN.folder and MANIFEST in str(found.note)


def test_a_changed_or_missing_table_is_passed_over(installed: Path) -> None:
    with (installed / "gpus.toml").open("a") as file:
        file.write("\n")
    assert "gpus.toml isn't the file that its list names" in str(choose(OWN, [installed]).note)
    (installed / "gpus.toml").unlink()
    found = choose(OWN, [installed])
    assert found.origin == "envspec" and "gpus.toml" in str(found.note)


@pytest.mark.slow
def test_the_command_line_reads_it_and_runs_none_of_its_code(installed: Path, tmp_path: Path) -> None:
    (installed / "__init__.py").write_text("raise SystemExit('code of the package ran')")
    new = '  { name = "Z900", capability = "12.0", kind = "datacentre", memory = [999], source = "nvidia" },\n'
    edited(installed, "gpus.toml", lambda text: text.replace("\ngpus = [\n", "\ngpus = [\n" + new))
    code, out, err = run(installed, "gpus", "Z900", cwd=tmp_path)
    assert code == 0 and "Z900" in out, err
    assert run(installed, "gpus", "Z900", cwd=tmp_path, env={"ENVSPEC_FACTS": "shipped"})[0] == 2
    document = json.loads(run(installed, "facts", "--json", cwd=tmp_path)[1])
    assert (document["version"], document["from"], document["note"]) == ("2099.1.1", "envspec-facts", None)


@pytest.mark.slow
def test_a_repository_brings_no_facts(installed: Path, tmp_path: Path) -> None:
    """Neither the working directory nor PYTHONPATH is where pip installs."""
    nowhere = tmp_path / "empty" / "envspec_facts"
    code, out, _ = run(nowhere, "facts", "--json", cwd=installed.parent, env={"PYTHONPATH": str(installed.parent)})
    assert code == 0 and json.loads(out)["from"] == "envspec"


@pytest.mark.slow
def test_a_broken_one_is_told(installed: Path, tmp_path: Path) -> None:
    renamed(installed, format=9)
    for command in ("facts", "doctor"):
        code, _, err = run(installed, command, cwd=tmp_path)
        assert code in (0, 1) and "warning: envspec-facts in " in err and "its format is 9" in err


@pytest.mark.slow
def test_a_lock_serves_though_newer_facts_differ(installed: Path, root: Path, tmp_path: Path) -> None:
    """`check` says where; what exports warns, and has the stricter floor."""
    edited(
        installed, "toolkits.toml", lambda text: text.replace('compat-linux = "525.60.13"', 'compat-linux = "526.0"')
    )
    code, out, _ = run(installed, "check", "specs/mm-v2.9.toml", cwd=root)
    assert code == 1 and "by today's facts the driver floor is 526.0 (the lock says 525.60.13)" in out
    asked = ("specs/mm-v2.9.toml", "--target", "cu128-hopper", "--format", "dockerfile")
    code, out, err = run(installed, "export", *asked, "-o", str(tmp_path / "out"), cwd=root)
    assert code == 0 and "by today's facts the driver floor is 526.0" in err and "cu126-volta" not in err
    assert "driver>=526.0" in (tmp_path / "out" / "cu128-hopper" / "Dockerfile").read_text()
    _, out, err = run(installed, "doctor", "specs/mm-v2.9.toml", "--gpu", "H100", "--driver", "580.65.06", cwd=root)
    assert "note: facts 2099.1.1, from envspec-facts" in err
    assert "its lock: by today's facts the driver floor is 526.0" in out


def test_the_switch_has_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVSPEC_FACTS", "none")
    edition.current.cache_clear()
    try:
        with pytest.raises(InputError, match="ENVSPEC_FACTS"):
            edition.current()
    finally:
        edition.current.cache_clear()


def test_writing_gives_the_same_bytes_and_refuses_another_folder(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    assert writer.write(one) == writer.write(other) == writer.write(one) == OWN.version
    assert (one / MANIFEST).read_bytes() == (other / MANIFEST).read_bytes()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="something else"):
        writer.write(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2026.11.22", "2026.12.1"),
        ("2026.12.1", "2026.12.1.1"),
        ("2026.12.1.1", "2026.12.1.2"),
        ("2027.1.1", "2027.1.1.1"),
    ],
)
def test_each_writing_of_the_tables_is_a_version(before: str, after: str) -> None:
    assert writer.next_version(before, date(2026, 12, 1)) == after


def test_every_source_has_a_kind_of_proof() -> None:
    for path in OWN.folder.glob("*.toml"):
        table = tables.read(path.stem)
        assert reach.of_sources(table).keys() == table["sources"].keys(), path.name
        assert set(table["proof"]) <= set(reach.KINDS)
        named = [key for keys in table["proof"].values() for key in keys.split() if key != "*"]
        assert set(named) <= set(table["sources"]) and len(named) == len(set(named)), path.name
