"""What every command says of a lock that somebody tampered with, and that none of the shipped ones is taken for one."""

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from forging import Forgery, forgeries
from support.matrix import by_day

from envspec.app.inputs import read_spec
from envspec.cli.main import run
from envspec.lock import read
from envspec.lock.inputs import spec_case
from envspec.lock.judge import UnsoundLock, judge, sound
from envspec.lock.model import Lock
from envspec.lock.read import load
from envspec.lock.store import LockFolder

SHIPPED = (
    *("cpu-py311", "deit-v2.6", "dev", "hpc-v2.7", "jax-v0.12", "llm-v2.9", "mm-v2.1", "mm-v2.9", "rapids-v26.10"),
    "team-v2.9",
)

FORGERIES = forgeries("check")
WARNED = [case for case in FORGERIES if case.shows]
"""Values that newer facts may give otherwise as well: what installs and exports warns, and takes the stricter one."""
REFUSED = [case for case in FORGERIES if not case.shows]
SHOWN = next(case for case in REFUSED if case.lock == "mm-v2.9" and case.stale)
"""One whose inputs were changed along: what the tests of a day show each command."""

Said = Callable[..., tuple[int, str]]
_HONEST: dict[tuple[str, ...], Lock] = {}
"""What the judge has nothing to say of, by the spec and what was added to it."""


def test_there_is_no_shipped_lock_that_is_not_judged(root: Path) -> None:
    assert tuple(sorted(path.parent.name for path in (root / "locks").glob("*/envspec.lock"))) == SHIPPED


@pytest.mark.by_day(5)
@pytest.mark.parametrize("name", SHIPPED)
def test_no_false_alarm(name: str, root: Path) -> None:
    lock = load(root / "locks" / name / "envspec.lock")
    spec = read_spec(str(root / "specs" / f"{name}.toml"))
    assert judge(lock, spec_case(spec)) == ()
    assert judge(lock) == ()
    start = time.process_time()
    judge(lock, spec_case(spec))
    assert time.process_time() - start < 0.3, "0.1 s on a machine of its own"


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Said:
    """A command's exit code, and all that it said. Commands read the lock from the disk; one text is parsed once."""
    monkeypatch.setattr(read, "loads", cache(read.loads))

    def call(*arguments: object) -> tuple[int, str]:
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return code, out + err

    return call


def project(case: Forgery, root: Path, folder: Path) -> str:
    """A project with the forgery's spec; gives its path."""
    text = (root / "specs" / f"{case.lock}.toml").read_text("utf-8")
    path = folder / "specs" / f"{case.lock}.toml"
    path.parent.mkdir()
    path.write_text(text.replace("[pip]\n", f"[pip]\n{case.added}", 1) if case.added else text, "utf-8")
    return str(path)


def forged(case: Forgery, root: Path, path: str) -> tuple[Lock, str]:
    """The forged lock of a spec, and a target that it is in. The judge finds it, and nothing before the forging."""
    spec = read_spec(path)
    key = (case.lock, case.added, str(case.before))
    if key not in _HONEST:
        honest = case.honest(load(root / "locks" / case.lock / "envspec.lock"))
        assert judge(honest, spec_case(spec)) == ()
        _HONEST[key] = honest
    lock = case.forge(_HONEST[key])
    return lock, next(flaw.targets[0] for flaw in judge(lock, spec_case(spec)) if flaw.code == case.code)


def test_there_are_enough_and_conda_is_among_them() -> None:
    assert len(FORGERIES) >= 40
    assert sum(change.get("kind") == "conda" for case in FORGERIES for change in case.change) >= 10


@pytest.mark.by_day(9)
@pytest.mark.parametrize("case", FORGERIES, ids=lambda case: case.name)
def test_judged(case: Forgery, root: Path, tmp_path: Path) -> None:
    """By the judge, and by the one gate that leads from a lock to whatever is made of it."""
    path = project(case, root, tmp_path)
    lock, target = forged(case, root, path)
    assert target in {one.name for one in lock}
    if case.shows:
        assert {doubt.code for doubt in sound(lock, spec_case(read_spec(path)), "envspec.lock").doubts} == {case.code}
        return
    with pytest.raises(UnsoundLock, match="can't be right for its spec") as refused:
        sound(lock, spec_case(read_spec(path)), "envspec.lock")
    assert case.code in {flaw.code for flaw in refused.value.flaws}
    assert {flaw.severity for flaw in refused.value.flaws} == {"error"}


def test_what_only_warns_is_listed() -> None:
    assert [(case.name, case.code) for case in WARNED] == [
        ("a-bound-that-is-read-in-no-wheel", "correction-unfounded"),
        ("a-lower-driver-floor", "wrong-driver-floor"),
        ("a-setuptools-that-is-not-there", "correction-broken"),
        ("a-wheel-that-is-said-to-need-numpy-1", "correction-broken"),
        ("no-driver-floor", "wrong-driver-floor"),
        ("other-architectures", "wrong-architectures"),
        ("what-no-pure-wheel-can-say", "correction-unfounded"),
    ]


@pytest.mark.by_commit(4)
@pytest.mark.parametrize("case", by_day(REFUSED, lambda case: case is SHOWN), ids=lambda case: case.name)
def test_no_command_takes_it(
    case: Forgery, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    path = project(case, root, tmp_path)
    spec = f"specs/{case.lock}.toml"
    lock, target = forged(case, root, path)
    LockFolder(tmp_path / "locks", case.lock).write(lock)
    monkeypatch.chdir(tmp_path)
    before = (tmp_path / "locks" / case.lock / "envspec.lock").read_bytes()

    code, text = said("check", spec)
    assert code == 1 and "fresh" not in text, text
    assert case.stale or f"[{case.code}]" in text, text

    out = tmp_path / "out"
    refusals = [
        ("install", spec, "--target", target, "--prefix", out, "--offline"),
        ("export", spec, "--target", target, "--format", "requirements", "-o", out),
        ("export", spec, "--target", target, "--format", "dockerfile", "-o", out),
        ("bundle", spec, "--target", target, "-o", out),
        ("smoke", spec, "--target", target, "--runner", "local", "--output", out),
    ]
    status, sentence = (1, "changed since it was locked") if case.stale else (2, "can't be right for its spec")
    for refusal in refusals:
        code, text = said(*refusal)
        assert code == status and f"[{case.code}]" in text and sentence in text, (refusal[0], text)
        assert ("find out who did" in text) is not case.stale
        assert not out.exists(), refusal

    if not case.stale:
        code, text = said("doctor", spec, "--target", target, "--driver", "580.65.06")
        assert code == 1 and f"[{case.code}]" in text and "infeasible" in text, text

    _refused_by_lock(case, tmp_path, monkeypatch, said)
    assert (tmp_path / "locks" / case.lock / "envspec.lock").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("case", WARNED, ids=lambda case: case.name)
def test_what_only_warns_is_exported_as_the_stricter(
    case: Forgery, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    path = project(case, root, tmp_path)
    spec = f"specs/{case.lock}.toml"
    lock, target = forged(case, root, path)
    LockFolder(tmp_path / "locks", case.lock).write(lock)
    monkeypatch.chdir(tmp_path)

    code, text = said("check", spec)
    assert code == 1 and "unsound" in text and f"[{case.code}]" in text, text
    assert "find out who did" not in text

    for command in (
        ("export", spec, "--target", target, "--format", case.in_format, "-o", "out"),
        ("install", spec, "--target", target, "--prefix", "prefix", "--dry-run"),
        ("run", spec, "--target", target, "--dry-run", "--", "python"),
    ):
        code, text = said(*command)
        assert code == 0 or command[0] == "run", text  # this machine may be another than the target's
        assert f"warning: the lock of {case.lock}: {target}: " in text and f"[{case.code}]" in text, text
    texts = [path.read_text("utf-8", "replace") for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert any(case.shows in text for text in texts)

    _, text = said("doctor", spec, "--target", target, "--driver", "580.65.06")
    assert f"[{case.code}]" in text and "infeasible" not in text, text
    _refused_by_lock(case, tmp_path, monkeypatch, said)


def _refused_by_lock(case: Forgery, folder: Path, monkeypatch: pytest.MonkeyPatch, said: Said) -> None:
    """`lock` writes it anew; here nothing of the network is at hand, and the pins must not be kept."""
    spec, tmp_path = f"specs/{case.lock}.toml", folder
    monkeypatch.setenv("ENVSPEC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache" / "uv"))
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")  # or uv would be asked for its own
    code, text = said("lock", spec, "--offline")
    assert code != 0 and "is fresh" not in text
    assert case.stale or "envspec resolves this again" in text
