"""What was read from a wheel and shaped a lock: written, read, judged, merged and compared."""

import pytest
from msgspec.structs import replace
from support.applied import apply
from support.told import pin

from envspec.base.errors import LockError
from envspec.lock.judge import judge
from envspec.lock.model import Artifact, Lock, LockedCorrection, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.lock.read import loads
from envspec.lock.write import dumps
from envspec.review.diff.review import diff
from envspec.review.diff.settings import of_corrections
from envspec.review.git.merge import merge
from envspec.review.git.textconv import readable

LINUX = "cp311-cp311-manylinux_2_17_x86_64"


def compiled(name: str, version: str, sha256: str) -> Pin:
    artifact = Artifact(f"{name}-{version}-{LINUX}.whl", sha256, 1)
    return replace(pin(name, version, "numpy"), artifact=artifact, direct=True)


def read(of: Pin, constraint: str = "numpy<2") -> LockedCorrection:
    assert of.artifact is not None
    return LockedCorrection(of.name, of.version, of.artifact.file, of.artifact.sha256, constraint, "as it says")


PANDAS, H5PY, NUMPY = (
    compiled("pandas", "2.0.3", "a" * 64),
    compiled("h5py", "3.10.0", "c" * 64),
    pin("numpy", "1.26.4"),
)
READ, OTHER = read(PANDAS), read(H5PY)


def lock(*read: LockedCorrection, numpy: str = "1.26.4") -> Lock:
    inputs = TargetInputs("linux-64", "3.11", "2.28", requirements=("h5py", "pandas"))
    pins = (H5PY, replace(NUMPY, version=numpy), PANDAS)
    return Lock("demo", SpecInputs(), (LockedTarget("t", inputs, pins),), corrections=read)


def test_it_stands_in_the_lock_as_text() -> None:
    text = dumps(lock(READ))
    assert f'\n[[corrections]]\npackage = "pandas"\nversion = "2.0.3"\nfile = "pandas-2.0.3-{LINUX}.whl"\n' in text
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
    assert (flaw.package, flaw.severity) == ("numpy", "warning")
    assert "pandas 2.0.3 needs numpy<2 (as it says), but numpy 2.2.6 is pinned" in flaw.message


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (replace(READ, sha256="b" * 64), "which isn't pinned"),
        (replace(READ, version="2.0.2"), "which isn't pinned"),
        (read(NUMPY), "can't need numpy<2"),
        (replace(READ, constraint="numpy<3"), "can't need numpy<3"),
        (replace(READ, constraint="evil"), "can't need evil"),
    ],
)
def test_a_row_that_no_reading_gives_is_a_flaw(row: LockedCorrection, says: str) -> None:
    """Of a wheel that isn't pinned an error; what may be read of those that are, other facts may say otherwise."""
    (flaw,) = judge(lock(row))
    assert flaw.code == "correction-unfounded" and says in flaw.message
    assert (flaw.severity == "error") is ("isn't pinned" in says)


def test_what_imports_pkg_resources_needs_setuptools_there() -> None:
    (flaw,) = judge(lock(read(PANDAS, "setuptools<82")))
    assert (flaw.code, flaw.severity) == ("correction-broken", "error") and "setuptools isn't pinned" in flaw.message


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
    assert merged.corrections == (OTHER, READ)


def test_a_row_goes_with_its_wheel_when_branches_are_merged() -> None:
    gone = replace(READ, sha256="b" * 64)
    merged = merge(lock(gone), lock(gone), lock(OTHER)).lock
    assert merged.corrections == (OTHER,)
