"""check.py reads locks, without tomllib too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from envspec.lock.toml_text import inline_strings, key, string
from envspec.smoke import check

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "locks").glob("*/envspec.lock"))


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.parent.name)
def test_the_small_reader_reads_every_lock_as_tomllib_does(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert check.Toml(text).document() == tomli.loads(text)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.text(st.characters(exclude_categories=["Cs"])))
def test_the_small_reader_reads_what_the_lock_writer_writes(texts: list[str], name: str) -> None:
    written = (
        f"[targets.{key(name or 'x')}]\nall = {inline_strings(texts)}\none = {string(name)}\nyes = true\nsize = 12\n"
    )
    assert check.Toml(written).document() == tomli.loads(written)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a = 1\nb =\n", 2),
        ("a = 1\na = 2\n", 2),
        ('a = "x\n', 1),
        ("a = [1 2]\n", 1),
        ("[a\n", 1),
        ("a = 1 b = 2\n", 1),
        ('a = "\\q"\n', 1),
        ("a = 1979-05-27\n", 1),
        ("a = 1.5\n", 1),
        ("a = {b = 1\n", 1),
    ],
)
def test_what_it_does_not_know_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(check.Unreadable, match=f"line {line}: expected"):
        check.Toml(text).document()


def test_a_package_belongs_to_the_targets_that_it_names() -> None:
    lock = check.read_toml(
        '[[conda]]\nname = "python"\nversion = "3.11"\nbuild = "h1"\nprovides = ["pip"]\ntargets = ["a"]\n'
        '[[pip]]\nname = "torch"\nversion = "2.0"\n'
    )
    assert [(pin.kind, pin.name) for pin in check.pins(lock, "a")] == [("conda", "python"), ("pip", "torch")]
    assert [pin.name for pin in check.pins(lock, "b")] == ["torch"]
    assert check.pins(lock, "a")[0].provides == ("pip",)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1.0", "1.0.0", True),
        ("2.9.1+CU128", "2.9.1+cu128", True),
        ("1.0-rc1", "1.0rc1", True),
        ("01.2", "1.2", True),
        ("10", "1", False),
        ("2.9.1", "2.9.1+cu128", False),
        ("1.0.post1", "1.0", False),
    ],
)
def test_versions_are_compared_as_versions(one: str, other: str, same: bool) -> None:
    assert check.same_version(one, other) is same


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "gone"], "has no target gone; it has: cpu"),
        (["--config", "{other}"], "is of the target other, not cpu"),
        (["--config", "{cut}"], "can't be read"),
        (["--lock", "{missing}"], "can't be read: No such file or directory"),
        (["--lock", "{cut}"], "can't be read"),
        (["--steps", "0"], "'0' is no whole number from 1"),
        (["--only", "nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_wrong_usage_is_status_2(tmp_path: Path, words: list[str], said: str) -> None:
    (tmp_path / "other").write_text('{"schema": 1, "target": "other"}')
    (tmp_path / "cut").write_text('{"schema": 1, "tar')
    files = {name: str(tmp_path / name) for name in ("other", "cut", "missing")}
    lock = ["--lock", str(ROOT / "locks/cpu-py311/envspec.lock"), "--target", "cpu"]
    command = [sys.executable, str(ROOT / "envspec/smoke/check.py"), *lock, *(word.format(**files) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_importing_it_imports_neither_torch_nor_envspec() -> None:
    load = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('check', {str(ROOT / 'envspec/smoke/check.py')!r})\n"
        "sys.modules['check'] = module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'numpy', 'envspec'}))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-c", load], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
