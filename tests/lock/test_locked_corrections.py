"""What was read from a wheel and shaped a lock: written, read, judged, merged and compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.told import pin

from envspec.diff.compare import apply, diff
from envspec.diff.settings import of_corrections
from envspec.errors import LockError
from envspec.git.merge import merge
from envspec.git.textconv import readable
from envspec.lock.judge import judge
from envspec.lock.model import Lock, LockedCorrection, LockedTarget, SpecInputs, TargetInputs
from envspec.lock.read import loads
from envspec.lock.write import dumps

PANDAS, NUMPY = pin("pandas", "2.0.3", "numpy"), pin("numpy", "1.26.4")
assert PANDAS.artifact is not None
READ = LockedCorrection(
    "pandas", "2.0.3", PANDAS.artifact.file, PANDAS.artifact.sha256, "numpy<2", "it imports numpy.core alone"
)
OTHER = replace(READ, package="h5py", version="3.10.0")


def lock(*read: LockedCorrection, numpy: str = "1.26.4") -> Lock:
    inputs = TargetInputs("linux-64", "3.11", "2.28", requirements=("pandas",))
    pins = (replace(NUMPY, version=numpy), replace(PANDAS, direct=True))
    return Lock("demo", SpecInputs(), (LockedTarget("t", inputs, pins),), corrections=read)


def test_it_stands_in_the_lock_as_text() -> None:
    text = dumps(lock(READ))
    assert '\n[[corrections]]\npackage = "pandas"\nversion = "2.0.3"\nfile = "pandas-2.0.3-py3-none-any.whl"\n' in text
    assert loads(text, "envspec.lock").corrections == (READ,)
    assert dumps(lock(OTHER, READ)) == dumps(lock(READ, OTHER))
    assert "corrections" not in dumps(lock())


@pytest.mark.parametrize(
    ("field", "value"), [("constraint", "numpy<<2"), ("sha256", "abc"), ("file", "../x.whl"), ("package", "")]
)
def test_what_no_reading_gives_is_refused(field: str, value: str) -> None:
    with pytest.raises(LockError, match=rf"\[\[corrections\]\]|{field}"):
        loads(dumps(lock(replace(READ, **{field: value}))), "envspec.lock")


def test_pins_are_judged_by_it() -> None:
    assert "correction-broken" not in {flaw.code for flaw in judge(lock(READ))}
    (flaw,) = (flaw for flaw in judge(lock(READ, numpy="2.2.6")) if flaw.code == "correction-broken")
    assert flaw.package == "numpy"
    assert "pandas 2.0.3 needs numpy<2 (it imports numpy.core alone), but numpy 2.2.6 is pinned" in flaw.message
    another = replace(READ, sha256="b" * 64)
    assert "correction-broken" not in {flaw.code for flaw in judge(lock(another, numpy="2.2.6"))}


def test_a_review_shows_what_came_and_went() -> None:
    old, new = lock(OTHER), lock(READ)
    assert apply(diff(old, new), old) == new
    assert [(fact.risk, fact.code) for fact in of_corrections(old.corrections, new.corrections)] == [
        ("low", "correction-removed"),
        ("low", "correction-added"),
    ]
    assert "correction pandas 2.0.3 numpy<2" in readable(new)


def test_two_branches_readings_are_both_kept() -> None:
    merged = merge(lock(), lock(READ), lock(OTHER)).lock
    assert merged is not None and merged.corrections == (OTHER, READ)
