"""The merge of locks as a function, and that of what is rendered from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from git_project import BASE, State, pin
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from envspec.lock.model import GitSource, Lock, LockedImage, LockedTarget, SpecInputs
from envspec.lock.read import load, loads
from envspec.lock.render import rendered_files
from envspec.lock.write import dumps
from envspec.review.git.merge import merge
from envspec.review.git.merge_rendered import merge_requirements
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
def test_a_merge_is_readable_symmetric_and_rendered(ours: State, theirs: State) -> None:
    base = BASE.lock()
    merged, mirrored = merge(base, ours.lock(), theirs.lock()), merge(base, theirs.lock(), ours.lock())
    assert merged.lock == mirrored.lock
    assert bool(merged.conflicts) is (merged.lock is None)
    if merged.lock is None:
        assert {(c.target) for c in merged.conflicts} <= {"cpu", "cu128"}
        return
    assert loads(dumps(merged.lock), "x") == merged.lock
    sides = [rendered_files(lock) for lock in (base, ours.lock(), theirs.lock())]
    for path, text in rendered_files(merged.lock).items():
        assert merge_requirements(sides[0][path], sides[1][path], sides[2][path]) == text


@given(states(), states())
@settings(max_examples=examples(40))
def test_every_change_of_a_package_is_a_changed_line(one: State, other: State) -> None:
    assert (readable(one.lock()) == readable(other.lock())) == (one.lock() == other.lock())


def test_shared_inputs() -> None:
    def lock(inputs: SpecInputs) -> Lock:
        return Lock("demo", inputs, BASE.lock().targets)

    base = lock(SpecInputs(allow_source=("a", "b")))
    merged = merge(base, lock(SpecInputs(allow_source=("a", "b", "c"))), lock(SpecInputs(allow_source=("b", "d"))))
    assert merged.lock is not None and merged.lock.inputs.allow_source == ("b", "c", "d")
    merged = merge(base, lock(SpecInputs(exclude_newer="1")), lock(SpecInputs(exclude_newer="2")))
    assert [str(conflict) for conflict in merged.conflicts][:1] == ["exclude-newer is 1 on one side and 2 on the other"]


def images(**digests: str) -> tuple[LockedImage, ...]:
    return tuple(LockedImage(name, f"sha256:{digit * 64}") for name, digit in sorted(digests.items()))


def test_images() -> None:
    base = replace(BASE.lock(), images=images(base="a", gone="a", tool="a"))
    ours = replace(base, images=images(base="b", gone="a", tool="a"))
    theirs = replace(base, images=images(base="a", new="c", tool="a"))
    merged = merge(base, ours, theirs).lock
    assert merged == merge(base, theirs, ours).lock and merged is not None
    assert merged.images == images(base="b", new="c", tool="a")
    assert f"image base  sha256:{'b' * 16}\n" in readable(merged)
    clash = merge(base, ours, replace(base, images=images(base="c", gone="a", tool="a")))
    (conflict,) = clash.conflicts
    assert str(conflict).startswith("the image base is sha256:bbbb") and clash.lock is None


def test_no_target_left() -> None:
    one, other = BASE.without_target("cpu").lock(), BASE.without_target("cu128").lock()
    assert [str(c) for c in merge(BASE.lock(), one, other).conflicts] == [
        "both sides' removals together leave no target"
    ]


def test_one_package_asked_for_differently() -> None:
    one, other = (BASE.unask("numpy").ask(text).lock() for text in ("numpy>=2", "numpy<3"))
    conflicts = merge(BASE.lock(), one, other).conflicts
    assert {c.message for c in conflicts} == {"the spec asks for numpy differently on the two sides"}


def test_rendered_files_that_only_locking_can_give() -> None:
    base, ours, theirs = (
        rendered_files(state.lock())["cpu/requirements.txt"]
        for state in (BASE, BASE.bump(pin("numpy", "2.2")), BASE.bump(pin("numpy", "2.3")))
    )
    assert merge_requirements(base, ours, theirs) is None
    assert merge_requirements(base, base, ours) == ours
    assert merge_requirements("numpy\n", "numpy\n", "numpy==1\n") is None, "the user's own file"
    extra = rendered_files(BASE.bump(pin("own", "1", index="internal")).lock())["cpu/requirements.txt"]
    more = rendered_files(BASE.bump(pin("other", "1", index="elsewhere")).lock())["cpu/requirements.txt"]
    assert merge_requirements(base, extra, more) is None, "two headers"
    assert merge_requirements(base, extra, ours) is not None


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


def test_terms_of_one_side_go_in_and_of_two_sides_are_a_conflict() -> None:
    """No solver made a merged lock: what bounds a target on one side and moves its pins on the other is solved anew."""
    base = BASE.lock()

    def bounded(*constraints: str) -> Lock:
        targets = (replace(one, inputs=replace(one.inputs, constraints=constraints)) for one in base)
        return replace(base, targets=tuple(targets))

    merged = merge(base, bounded("nobody<1"), base)
    assert merged.lock == bounded("nobody<1")
    assert merge(base, bounded("nobody<1"), bounded("nobody<2")).conflicts
    assert merge(base, bounded("nobody<1"), BASE.bump(pin("numpy", "3.0")).lock()).conflicts
