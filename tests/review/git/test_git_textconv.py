"""A lock as `git diff` shows it steers no terminal."""

from envspec.lock.model import Artifact, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.review.git.textconv import readable


def test_no_foreign_word_steers_a_terminal() -> None:
    evil = "\x1b]0;evil\x07\x1b[2J\r\u202e\nline"
    pin = Pin("pip", "lib", "1.0", evil, Artifact("lib.whl", "0" * 64), licence=evil)
    inputs = TargetInputs("linux-64", "3.12", None, gpus=(evil,), requirements=(evil,))
    lock = Lock("demo", SpecInputs(sources={"lib": evil}), (LockedTarget("cpu", inputs, (pin,)),))
    shown = readable(lock)
    assert all(character.isprintable() for character in shown.replace("\n", ""))
    assert "\\x1b[2J\\r\\u202e\\nline" in shown and not any(line.startswith("line") for line in shown.splitlines())


def test_terms_have_a_line_each() -> None:
    inputs = TargetInputs(
        "linux-64",
        "3.12",
        None,
        constraints=("numpy<2.3",),
        overrides=(("numpy>=2", "tried"),),
        find_links=(("pyg", "torch-2.8.0+cpu.html"),),
        accept=(("gpu-only", "wanted"),),
    )
    lines = readable(Lock("demo", SpecInputs(), (LockedTarget("cpu", inputs, ()),))).splitlines()
    assert {
        "constraint numpy<2.3",
        "override numpy>=2  because tried",
        "find-links pyg torch-2.8.0+cpu.html",
        "accept gpu-only  because wanted",
    } <= set(lines)
