"""The list of what `envspec lock` changed: by package, and by target where these differ."""

from envspec.app.lock.summary import changes
from envspec.lock.model import Lock, LockedTarget, Pin, SpecInputs, TargetInputs


def lock(**targets: str) -> Lock:
    inputs = TargetInputs("linux-64", "3.12", None)
    found = (
        LockedTarget(name, inputs, (Pin("pip", "torch", version, "pypi", None),)) for name, version in targets.items()
    )
    return Lock("demo", SpecInputs(), tuple(found))


def test_it_names_the_targets_that_moved() -> None:
    old = lock(a="2.10", b="2.10")
    assert changes(old, lock(a="2.11", b="2.11")) == ["changed torch 2.10 -> 2.11"]
    assert changes(old, lock(a="2.10", b="2.11")) == ["changed torch 2.10 -> 2.11 [b]"]


def test_targets_that_change_their_versions_with_each_other_are_told() -> None:
    told = changes(lock(a="2.10", b="2.11"), lock(a="2.11", b="2.10"))
    assert told == ["changed torch 2.10 -> 2.11 [a]", "changed torch 2.11 -> 2.10 [b]"]


def test_a_target_that_came_or_went_is_no_change_of_what_others_have() -> None:
    assert changes(lock(a="2.10"), lock(a="2.10", b="2.10")) == changes(lock(a="2.10", b="2.10"), lock(a="2.10")) == []
    assert changes(lock(a="2.10"), lock(a="2.10", b="2.11")) == ["added torch 2.11 [b]"]
    assert changes(lock(a="2.10", b="2.9"), lock(a="2.10")) == ["removed torch 2.9 [b]"]
