"""A spec is normalised once for each command, and handed down by few."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest
from support.told import Told, pin

from envspec.app.check import states_of
from envspec.lock.inputs import SpecCase, spec_inputs, target_inputs
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec

SPEC = Path(__file__).parents[2] / "specs" / "mm-v2.9.toml"


def holds(frame: FrameType) -> bool:
    """Whether a call was given a spec, itself or in its case."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(isinstance(frame.f_locals.get(name), (Spec, SpecCase, RelockRequest)) for name in names)


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def watched(run: Callable[[], object]) -> tuple[Counter[str], int]:
    """How often each function was called, and how many that hold a spec called each other at most."""
    calls: Counter[str] = Counter()
    deepest = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal deepest
        if event == "call" and "envspec" in frame.f_code.co_filename:
            calls[frame.f_code.co_name] += 1
            if holds(frame):
                deepest = max(deepest, sum(map(holds, callers(frame))))

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls, deepest


def normalised(calls: Counter[str]) -> tuple[int, int]:
    return calls[spec_inputs.__name__], calls[target_inputs.__name__]


@pytest.mark.slow
def test_check_normalises_each_target_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SPEC.parents[1])
    calls, deepest = watched(lambda: states_of(["specs/mm-v2.9.toml"], None))
    assert normalised(calls) == (1, len(load_spec(str(SPEC)).targets))
    assert deepest <= 11


def test_relock_normalises_each_target_once(tmp_path: Path) -> None:
    path = tmp_path / "demo.toml"
    tables = "".join(f"[targets.{name}]\nplatform = 'linux-64'\n" for name in "abcdef")
    path.write_text(f"[env]\npython = '3.12'\n[pip]\ndependencies = ['numpy']\n{tables}")
    spec, told = load_spec(str(path)), Resolvers(Told(pin("numpy", "1.0")))
    old, _ = relock(RelockRequest(spec), told)
    calls, deepest = watched(lambda: relock(RelockRequest(spec, old), told))
    assert normalised(calls) == (1, 6)
    assert deepest <= 11
