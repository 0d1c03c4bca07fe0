"""The merge of locks by package, as a function."""

from pathlib import Path
from typing import Any

import pytest
from git_project import BASE, CU126, State, conda, pin
from hypothesis import given, settings, strategies as st
from msgspec.structs import fields, replace
from support.examples import examples

from envspec.lock.model import GitSource, Lock, LockedImage, LockedPython, LockedTarget, SpecInputs
from envspec.lock.read import load, loads
from envspec.lock.write import dumps
from envspec.review.git.merge import Merged, merge
from envspec.review.git.textconv import readable

PACKAGES = ("app", "fsspec", "lib", "numpy", "tqdm")


@st.composite
def states(draw: st.DrawFn) -> State:
    state = BASE
    for name in draw(st.sets(st.sampled_from(PACKAGES), max_size=3)):
        dependencies = ("lib>=2", "fsspec") if name == "app" else ()
        version = draw(st.sampled_from(["2.5", "3.0"]))
        state = state.bump(pin(name, version, *dependencies), only=draw(st.sampled_from([None, "cpu", "cu128"])))
    return state


@given(states(), states())
@settings(max_examples=examples(40))
def test_an_untouched_side_gives_way(one: State, other: State) -> None:
    base, changed = one.lock(), other.lock()
    assert merge(base, changed, base).lock == merge(base, base, changed).lock == changed
    assert merge(base, changed, changed).lock == changed


@given(states(), states())
@settings(max_examples=examples(40))
def test_a_merge_has_both_sides_changes_whichever_is_ours(ours: State, theirs: State) -> None:
    base = BASE.lock()
    merged, mirrored = merge(base, ours.lock(), theirs.lock()), merge(base, theirs.lock(), ours.lock())
    assert merged.lock == mirrored.lock and len(merged.conflicts) == len(mirrored.conflicts)
    assert loads(dumps(merged.lock), "x") == merged.lock
    for target in merged.lock:
        for name, was in BASE.pins[target.name].items():
            versions = [side.pins[target.name][name].version for side in (ours, theirs)]
            changed = [version for version in versions if version != was.version]
            found = target.pin(name)
            assert found is not None and found.version == max(changed, default=was.version)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_target_that_one_side_moved_to_another_cuda_has_that_sides_torch(swapped: bool) -> None:
    moved = BASE.target("cu128", CU126).bump(pin("torch", "2.9.0+cu126", "tqdm"), only="cu128")
    upgraded = BASE.bump(pin("torch", "2.9.1", "tqdm"), only="cu128").bump(pin("numpy", "3.0"))
    ours, theirs = (upgraded, moved) if swapped else (moved, upgraded)
    right = moved.bump(pin("numpy", "3.0")).lock()
    assert merge(BASE.lock(), ours.lock(), theirs.lock()) == Merged(right)


def test_a_target_that_one_side_made_follows_what_the_other_changed_in_all() -> None:
    upgraded = BASE.bump(pin("numpy", "3.0")).drop("fsspec").ask("rich").bump(pin("rich", "1.0"))
    upgraded = upgraded.bump(pin("torch", "2.9.1", "tqdm"), only="cu128")
    made = BASE.target("cu126", CU126, like="cpu")
    right = upgraded.target("cu126", CU126, like="cpu")
    for ours, theirs in ((made, upgraded), (upgraded, made)):
        assert merge(BASE.lock(), ours.lock(), theirs.lock()) == Merged(right.lock())


def renamed(lock: Lock) -> Lock:
    targets = (replace(one, name="a100") if one.name == "cu128" else one for one in lock)
    return replace(lock, targets=tuple(sorted(targets, key=lambda target: target.name)))


@given(states())
@settings(max_examples=examples(40))
def test_a_new_name_of_a_target_loses_nothing_of_the_other_side(other: State) -> None:
    base, changed = BASE.lock(), other.bump(pin("tqdm", "9.0")).lock()
    for ours, theirs in ((renamed(base), changed), (changed, renamed(base))):
        assert merge(base, ours, theirs) == Merged(renamed(changed))
        assert merge(renamed(base), renamed(changed), base) == Merged(changed), "a revert of the new name"


@given(states(), states())
@settings(max_examples=examples(40))
def test_every_change_of_a_package_is_a_changed_line(one: State, other: State) -> None:
    assert (readable(one.lock()) == readable(other.lock())) == (one.lock() == other.lock())


def test_every_field_of_a_real_lock_comes_through(root: Path) -> None:
    for path in sorted((root / "locks").glob("*/envspec.lock")):
        lock = load(path)
        assert merge(lock, lock, lock).lock == merge(None, lock, lock).lock == lock


def test_a_new_field_of_a_lock_has_to_be_merged_too() -> None:
    assert {one.name for one in fields(Lock)} == {
        *("name", "inputs", "targets", "images", "corrections", "pythons", "bases"),
        "inventories",  # which lie beside the lock
    }
    assert {one.name for one in fields(LockedTarget)} == {
        *("name", "inputs", "pins", "architectures", "driver_floor"),
        *("provided", "extras"),  # which follow from an inventory
        "as_locked",  # which no lock that is read has: only one that was judged
    }


def test_of_two_new_versions_the_newer_counts_and_both_are_named() -> None:
    one, other = (BASE.bump(pin("numpy", version), conda("zlib", version)).lock() for version in ("2.9", "2.10"))
    merged = merge(BASE.lock(), one, other)
    assert {pin.version for target in merged.lock for pin in target.pins if pin.name in ("numpy", "zlib")} == {"2.10"}
    assert [str(one) for one in merged.conflicts] == [
        "cpu, cu128: zlib is 2.9 on one side and 2.10 on the other",
        "cpu, cu128: numpy is 2.9 on one side and 2.10 on the other",
    ]


def test_what_one_side_removed_and_the_other_changed_stays_where_it_is_required_still() -> None:
    gone, bumped = BASE.unask("numpy").drop("numpy"), BASE.bump(pin("numpy", "2.2"))
    merged = merge(BASE.lock(), gone.lock(), bumped.lock())
    assert (merged.lock, merged.conflicts) == (gone.lock(), ())
    needing = bumped.bump(pin("app", "1.1", "lib>=2", "fsspec", "numpy"))
    assert merge(BASE.lock(), gone.lock(), needing.lock()).lock.targets[0].pin("numpy") is not None
    without = merge(BASE.lock(), BASE.without_target("cpu").lock(), BASE.bump(pin("numpy", "2.2")).lock())
    assert [target.name for target in without.lock] == ["cu128"] and without.conflicts == ()


def test_shared_inputs() -> None:
    def lock(inputs: SpecInputs) -> Lock:
        return Lock("demo", inputs, BASE.lock().targets)

    base = lock(SpecInputs(allow_source=("a", "b")))
    merged = merge(base, lock(SpecInputs(allow_source=("a", "b", "c"))), lock(SpecInputs(allow_source=("b", "d"))))
    assert merged.lock.inputs.allow_source == ("b", "c", "d")
    later = merge(base, lock(SpecInputs(exclude_newer="1")), lock(SpecInputs(exclude_newer="2")))
    assert later.lock.inputs.exclude_newer == "2" and later.conflicts == (), "all pins are from before the later moment"


def images(**digests: str) -> tuple[LockedImage, ...]:
    return tuple(LockedImage(name, f"sha256:{digit * 64}") for name, digit in sorted(digests.items()))


def test_images() -> None:
    base = replace(BASE.lock(), images=images(base="a", gone="a", tool="a"))
    ours = replace(base, images=images(base="b", gone="a", tool="a"))
    theirs = replace(base, images=images(base="a", new="c", tool="a"))
    merged = merge(base, ours, theirs).lock
    assert merged == merge(base, theirs, ours).lock
    assert merged.images == images(base="b", new="c", tool="a")
    assert f"image base  sha256:{'b' * 16}\n" in readable(merged)
    clash = merge(base, ours, replace(base, images=images(base="c", gone="a", tool="a")))
    assert str(clash.conflicts[0]).startswith("images base is sha256:bbbb")
    assert clash.lock.image("base") is None, "lock asks the registry again"


def test_of_two_builds_of_python_the_newer_counts() -> None:
    def lock(version: str) -> Lock:
        return replace(BASE.lock(), pythons=(LockedPython("linux-64", version, "1", "f", "a" * 64),))

    merged = merge(lock("3.12.8"), lock("3.12.9"), lock("3.12.10"))
    assert merged.lock.pythons[0].version == "3.12.10" and len(merged.conflicts) == 1


def test_one_package_asked_for_differently() -> None:
    one, other = (BASE.unask("numpy").ask(text).lock() for text in ("numpy>=2", "numpy<3"))
    (conflict,) = merge(BASE.lock(), one, other).conflicts
    assert conflict.message == "requirements numpy is numpy>=2 on one side and numpy<3 on the other"


def test_real_locks_are_shown_whole(root: Path) -> None:
    for path in sorted((root / "locks").glob("*/envspec.lock")):
        lock = load(path)
        lines = readable(lock).splitlines()
        for target in lock:
            for pin_ in target.pins:
                assert any(line.startswith(f"{pin_.kind} {pin_.name} {pin_.version}  ") for line in lines)
        assert max(map(len, lines)) < 400


def test_what_names_its_own_source() -> None:
    made = pin("flash", "1.0")
    git = made.__class__(
        "pip", "flash", "1.0", "git", None, git=GitSource("https://example.org/flash.git", "a" * 40, "csrc")
    )
    url = made.__class__("pip", "wheel", "2", "url", made.artifact, url="https://example.org/wheel-2.tar.gz")
    lock = Lock("x", SpecInputs(), (LockedTarget("cpu", BASE.lock().targets[0].inputs, (git, url)),))
    text = readable(lock)
    assert "pip flash 1.0  https://example.org/flash.git aaaaaaaaaaaaaaaa csrc\n" in text
    assert "pip wheel 2  https://example.org/wheel-2.tar.gz  sha256:" in text


@pytest.mark.parametrize("field", ["constraints", "overrides"])
def test_terms_of_both_sides_go_in(field: str) -> None:
    def bounded(*names: str) -> Lock:
        terms: Any = tuple(f"{name}<1" if field == "constraints" else (f"{name}<1", "why") for name in names)
        targets = (replace(one, inputs=replace(one.inputs, **{field: terms})) for one in BASE.lock())
        return replace(BASE.lock(), targets=tuple(targets))

    assert merge(BASE.lock(), bounded("one"), bounded("other")).lock == bounded("one", "other")
