"""What can't be right in a new lock raises the risk of the rows that it is about."""

from diff_samples import added, base, reviewed, wheel
from msgspec.structs import replace

from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Artifact, Lock, LockedTarget, SpecInputs, TargetInputs
from envspec.packages.stated import StatedMetadata
from envspec.review.diff.judged import with_flaws


def test_what_nothing_asks_for_is_high() -> None:
    change = added(wheel("requests", "2.32.5"))
    found = with_flaws(reviewed(change), Side("new", change(base())), None)
    assert ("nothing-asks", "requests") in {(flaw.code, flaw.package) for flaw in found.flaws}
    assert found.rows[0].name == "requests" and found.rows[0].risk == "high" and found.rows[0].new


def lock(*lines: str, glibc: str = "2.28", file: str = "a-1.0-py3-none-any.whl", stated: tuple[str, ...] = ()) -> Lock:
    pin = replace(wheel("a", "1.0"), artifact=Artifact(file, "0" * 64), dependencies=lines)
    metadata = (StatedMetadata("a", "", stated),) if stated else ()
    inputs = TargetInputs("linux-64", "3.12", glibc, requirements=("a",), metadata=metadata)
    return Lock("demo", SpecInputs(), (LockedTarget("cpu", inputs, (pin,)),))


def codes(old: Lock, new: Lock) -> dict[str, str]:
    from envspec.review.diff.review import review

    found = review(Side("old", old), Side("new", new))
    return {fact.code: fact.risk for row in found.rows for move in row.moves for fact in move.facts}


def test_another_machine_explains_another_file() -> None:
    other = "a-1.0-py3-none-manylinux_2_34_x86_64.whl"
    new = replace(lock(file=other, glibc="2.34").targets[0].pins[0], artifact=Artifact(other, "1" * 64))
    for glibc, risk in (("2.34", "low"), ("2.28", "high")):
        moved = replace(lock(glibc=glibc), targets=(replace(lock(glibc=glibc).targets[0], pins=(new,)),))
        assert codes(lock(), moved) == {"file-changed": risk}


def test_what_the_spec_states_explains_the_requirements_of_a_source() -> None:
    source = "a-1.0.tar.gz"
    assert codes(lock(file=source), lock("b", file=source)) == {"requirements-changed": "high"}
    stated = lock("b", file=source, stated=("b",))
    for old, new in ((lock(file=source), stated), (stated, lock(file=source))):
        assert set(codes(old, new).values()) == {"low"}


def test_a_correction_explains_a_requirement() -> None:
    """faiss-cpu 1.7.4 needs NumPy, and its METADATA leaves that out: a newer envspec adds it to an old pin."""
    old = lock()
    pin = replace(old.targets[0].pins[0], name="faiss-cpu", version="1.7.4")
    before = replace(old, targets=(replace(old.targets[0], pins=(pin,)),))
    for line, risk in (("numpy", "low"), ("numpyy", "high")):
        changed = replace(pin, dependencies=(line,))
        after = replace(old, targets=(replace(old.targets[0], pins=(changed,)),))
        assert set(codes(before, after).values()) == {risk}
