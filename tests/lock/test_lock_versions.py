"""Locks of older schemas are read, `check` says what it says of newer ones, and `lock` writes them anew."""

import hashlib
import re
from pathlib import Path

import pytest
import tomli
from msgspec.structs import replace

from envspec.base.errors import LockError
from envspec.cli.main import run
from envspec.lock.model import LOCK_VERSION
from envspec.lock.read import LockLayout, load, loads, read_for_display
from envspec.lock.store import LockFolder
from envspec.lock.write import dumps
from envspec.resolve.workflow.pythons import with_missing_pythons

OLD = Path(__file__).parent / "versions" / "1.lock"
SECOND = OLD.with_name("2.lock")
"""What envspec wrote of specs/cpu-py311.toml."""


def test_each_older_version_has_an_example_that_is_read() -> None:
    examples = sorted(OLD.parent.glob("*.lock"))
    assert [path.stem for path in examples] == [str(version) for version in range(1, LOCK_VERSION)]
    for path in examples:
        assert f"lock-version = {path.stem}\n" in path.read_text("utf-8")
        assert load(path).targets


def test_schema_1_says_the_same_without_digests() -> None:
    said = tomli.loads(OLD.read_text("utf-8"))
    del said["digest"]
    for target in said["targets"].values():
        del target["fingerprint"]
    assert tomli.loads(dumps(load(OLD))) == {**said, "lock-version": 2}


def test_schema_2_stays_as_it_is_written_and_was_solved_for_the_first_patch_release() -> None:
    lock = load(SECOND)
    assert dumps(lock) == SECOND.read_text("utf-8")
    assert lock.pythons[0].version != "3.11.0" and {one.inputs.full_python for one in lock} == {"3.11"}
    written = dumps(replace(lock, schema=LOCK_VERSION))
    assert {one.inputs.full_python for one in loads(written, "x")} == {lock.pythons[0].version}


@pytest.mark.parametrize("key", ["python-range", "requires-python"])
def test_schema_2_has_no_keys_of_schema_3(key: str) -> None:
    near = "licence = " if key == "requires-python" else "glibc = "
    text = SECOND.read_text("utf-8").replace(near, f'{key} = "<3.12"\n{near}', 1)
    with pytest.raises(LockError, match=f'unknown key "{key}"'):
        loads(text, "x")
    assert read_for_display(text.replace("lock-version = 2", "lock-version = 3"), "x")


@pytest.mark.parametrize(
    ("old", "new"),
    [('version = "', 'version = "1'), ("[env]\n", ""), ("\n[[pip]]", "\n\n[[pip]]")],
    ids=["a version", "a table", "a line"],
)
def test_schema_1_with_another_digest(old: str, new: str) -> None:
    head, body = OLD.read_text("utf-8").split("\n\n", 1)
    with pytest.raises(LockError, match="edited by hand or cut short"):
        loads(f"{head}\n\n{body.replace(old, new, 1)}".replace("[env]\n[env]", "[env]"), "x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("change the spec, then lock again", "approved by security"),
        ("[env]\n", "# approved by security\n[env]\n"),
        ('version = "3.1.6"\n', 'version = "3.1.6" # approved by security\n'),
        ('index = "pypi"\nlicence = "MIT"\n', 'licence = "MIT"\nindex = "pypi"\n'),
        ('version = "3.1.6"\n', 'version = "3.1.6"\n\n'),
        ('  "MarkupSafe>=2.0",\n', '  "MarkupSafe>=2.0"\n'),
        ("platform =", "platform  ="),
    ],
    ids=["header", "line", "end", "order", "blank", "comma", "spaces"],
)
def test_schema_1_is_held_to_its_own_layout(old: str, new: str) -> None:
    """Its digest is right, as an attacker's would be: what can be read, but isn't written so, is no lock of ours."""
    text = OLD.read_text("utf-8").replace(old, new, 1)
    assert text != OLD.read_text("utf-8")
    body = text[text.index("\n\n") + 1 :]
    head = text[: text.index("\n\n") + 1]
    text = re.sub("[0-9a-f]{64}", hashlib.sha256(body.encode()).hexdigest(), head, count=1) + body
    with pytest.raises(LockLayout) as found:
        loads(text, "x")
    assert found.value.place is not None
    assert (
        text.splitlines()[found.value.place.line - 1] != OLD.read_text("utf-8").splitlines()[found.value.place.line - 1]
    )


def test_schema_1_has_no_keys_of_schema_2(root: Path) -> None:
    """Its digest is right, as an attacker's would be."""
    text = OLD.read_text("utf-8")
    head, body = text[: text.index("\n\n") + 1], text[text.index("\n\n") + 1 :]
    body = body.replace("licence =", 'publisher = { kind = "GitHub" }\nlicence =', 1)
    head = re.sub("[0-9a-f]{64}", hashlib.sha256(body.encode()).hexdigest(), head)
    with pytest.raises(LockError, match='unknown key "publisher"') as found:
        loads(head + body, "x")
    assert found.value.place is not None and "publisher" in (head + body).splitlines()[found.value.place.line - 1]


def test_check_takes_it_and_lock_writes_it_anew(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "cpu-py311.toml").write_bytes((root / "specs" / "cpu-py311.toml").read_bytes())
    folder = LockFolder(tmp_path / "locks", "cpu-py311")
    lock = with_missing_pythons(load(OLD), lambda: None)
    folder.write(lock)
    written = folder.path.read_bytes()
    folder.path.write_bytes(OLD.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert run(["check"]) == 0
    assert run(["lock", "specs/cpu-py311.toml", "--offline"]) == 0
    said = capsys.readouterr().out
    assert f"added python for linux-64 {lock.pythons[0].version}" in said and said.count("added") == 1
    assert folder.path.read_bytes() == written


def test_lock_rewrites_what_is_only_laid_out_otherwise(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a merge line by line may leave it: `check` says where, `lock` judges and rewrites it."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "cpu-py311.toml").write_bytes((root / "specs" / "cpu-py311.toml").read_bytes())
    folder = LockFolder(tmp_path / "locks", "cpu-py311")
    folder.write(with_missing_pythons(load(OLD), lambda: None))
    written = folder.path.read_text("utf-8")
    folder.path.write_text(written.replace("\n\n[[pip]]", "\n\n\n[[pip]]", 1), "utf-8")
    monkeypatch.chdir(tmp_path)
    line = written[: written.index("\n\n[[pip]]")].count("\n") + 3
    assert run(["check"]) == 1
    assert f"envspec.lock:{line}: the lock is not as envspec writes it" in capsys.readouterr().out
    assert run(["install", "specs/cpu-py311.toml", "--prefix", "env", "--offline"]) == 2
    assert run(["lock", "specs/cpu-py311.toml", "--offline"]) == 0
    assert folder.path.read_text("utf-8") == written
