"""git's own merge of a shipped lock, and of the same as uv writes one, beside what the driver makes of it, over what
changes in a year: where either is right so is the driver, and where it isn't, `lock` begins with both sides' changes.

Right is the lock that has both changes, where either order of them gives the same.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from pathlib import Path

import pytest
from git_project import pin
from msgspec.structs import replace
from test_git_plain_merges import bumped, every

from envspec.app.git import merge_lock
from envspec.base.errors import LockError
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.read import load, read_for_display
from envspec.lock.write import dumps
from envspec.packages.names import requirement_name
from envspec.review.git.merge import by_line, merge

Change = Callable[[Lock], Lock]


def each(change: Callable[[LockedTarget], LockedTarget]) -> Change:
    return lambda lock: replace(lock, targets=tuple(sorted(map(change, lock), key=lambda target: target.name)))


def asks(target: LockedTarget, *lines: str, without: str = "") -> LockedTarget:
    kept = (line for line in target.inputs.requirements if requirement_name(line) != without)
    return replace(target, inputs=replace(target.inputs, requirements=tuple(sorted((*kept, *lines)))))


def with_pin(target: LockedTarget, one: Pin) -> LockedTarget:
    return replace(target, pins=tuple(sorted((*target.pins, one), key=lambda pin: (pin.kind, pin.name))))


def bump(*names: str) -> Change:
    return lambda lock: reduce(lambda found, name: bumped(found, name, every(found, name)), names, lock)


def upgrade(moment: str, *names: str) -> Change:
    return lambda lock: replace(bump(*names)(lock), inputs=replace(lock.inputs, exclude_newer=moment))


def add(name: str, index: str = "pypi") -> Change:
    one = replace(pin(name, "1.0", index=index), direct=True)
    return each(lambda target: with_pin(asks(target, f"{name}>=1"), one))


def private(name: str) -> Change:
    def change(lock: Lock) -> Lock:
        inputs = replace(lock.inputs, sources={**lock.inputs.sources, name: "internal"})
        return replace(add(name, "internal")(lock), inputs=inputs)

    return change


def remove(name: str) -> Change:
    def change(target: LockedTarget) -> LockedTarget:
        return replace(asks(target, without=name), pins=tuple(one for one in target.pins if one.name != name))

    return each(change)


def new_target(name: str, like: str) -> Change:
    def change(lock: Lock) -> Lock:
        (same,) = (target for target in lock if target.name == like)
        return each(lambda target: target)(replace(lock, targets=(*lock.targets, replace(same, name=name))))

    return change


def renamed(was: str, now: str) -> Change:
    return each(lambda target: replace(target, name=now) if target.name == was else target)


def dropped(name: str) -> Change:
    return lambda lock: replace(lock, targets=tuple(target for target in lock if target.name != name))


def cuda(name: str, package: str) -> Change:
    def change(target: LockedTarget) -> LockedTarget:
        return replace(target, inputs=replace(target.inputs, cuda="12.9")) if target.name == name else target

    return lambda lock: bumped(each(change)(lock), package, {name})


def python(target: LockedTarget) -> LockedTarget:
    return replace(target, inputs=replace(target.inputs, python="3.13"))


def override(line: str) -> Change:
    def change(target: LockedTarget) -> LockedTarget:
        lines = tuple(sorted((*target.inputs.overrides, (line, "why"))))
        return replace(target, inputs=replace(target.inputs, overrides=lines))

    return each(change)


def events(lock: Lock) -> Mapping[str, tuple[Change, Change]]:
    """What happened to the locks of a team in a year, as one branch does it and as another does."""
    names = sorted({pin.name for target in lock for pin in target.pins if pin.index == "pypi"})
    asked = sorted({pin.name for target in lock for pin in target.pins if pin.direct and pin.index == "pypi"})
    first, *_, last = (target.name for target in lock)
    return {
        "upgrade": (upgrade("2026-01-01T00:00:00Z", *names[::7]), upgrade("2026-02-01T00:00:00Z", *names[3::11])),
        "security fix": (bump(names[10]), bump(names[11])),
        "add": (add("aaa"), add("zzz")),
        "add beside": (add("aab"), add("aac")),
        "remove": (remove(asked[0]), remove(asked[-1])),
        "new target": (new_target("a-new", first), new_target("z-new", last)),
        "renamed target": (renamed(first, "a-one"), renamed(last, "z-one")),
        "dropped target": (dropped(first), dropped(last)),
        "CUDA": (cuda(first, names[20]), cuda(last, names[40])),
        "Python": (each(python), each(python)),
        "private wheel": (private("acme-models"), private("our-models")),
        "override": (override("numpy>=2"), override("pillow>=1")),
    }


def merges(base: Lock, one: Change, other: Change) -> Iterator[tuple[str, Lock, Lock, Lock, Lock]]:
    """The common ancestor, the two sides and the right answer, as git has them in what it does with two branches."""
    try:
        mine, theirs, both = one(base), other(base), other(one(base))
        if both != one(other(base)):
            return
        elsewhere = bump("certifi")
        yield "merge", base, mine, theirs, both
        yield "rebase", base, theirs, mine, both
        if both != mine:
            yield "cherry-pick", mine, elsewhere(base), both, elsewhere(theirs)
            yield "revert", mine, both, base, theirs
    except ValueError:
        return  # the one takes what the other changes


def uv_text(lock: Lock) -> str:
    """A lock as uv writes one: a list of packages for all platforms, with every file, and the project's requirements
    and Python once."""
    packages: dict[tuple[str, str, str | None], tuple[set[str], set[str]]] = {}
    for target in lock:
        for one in target.pins:
            edges, files = packages.setdefault((one.name, one.version, one.index), (set(), set()))
            edges.update(f'name = "{line}"' for line in one.dependencies)
            files.update([f'url = "{one.artifact.file}", hash = "{one.artifact.sha256}"'] if one.artifact else [])
    inputs = [target.inputs for target in lock]
    asked = {f'name = "{line}"' for of in inputs for line in of.requirements}
    out = [
        f'version = 1\nrequires-python = ">={max(of.python for of in inputs)}"\n',
        f'\n[options]\nexclude-newer = "{lock.inputs.exclude_newer}"\n' if lock.inputs.exclude_newer else "",
        "\n[manifest]\n" + _uv_list("overrides", {f'name = "{line}"' for of in inputs for line, _ in of.overrides}),
    ]
    for (name, version, index), (edges, files) in sorted(packages.items()):
        out.append(f'\n[[package]]\nname = "{name}"\nversion = "{version}"\nsource = {{ registry = "{index}" }}\n')
        out += [_uv_list("dependencies", edges), _uv_list("wheels", files)]
    out.append('\n[[package]]\nname = "team"\nversion = "1"\nsource = { virtual = "." }\n')
    return "".join((*out, _uv_list("dependencies", asked), "\n[package.metadata]\n", _uv_list("requires-dist", asked)))


def _uv_list(key: str, items: set[str]) -> str:
    return f"{key} = [\n" + "".join(f"    {{ {one} }},\n" for one in sorted(items)) + "]\n" if items else ""


class Merges:
    """Three files, merged by git and by the driver."""

    def __init__(self, folder: Path) -> None:
        self.files = [folder / name for name in ("base", "ours", "theirs")]
        self.folder = folder

    def held(self, base: Lock, ours: Lock, theirs: Lock, right: Lock) -> tuple[bool, bool, bool]:
        """Whether git's merge, uv.lock's and the driver's is right; the driver's has to be where another is."""
        for file, lock in zip(self.files, (base, ours, theirs), strict=True):
            file.write_text(uv_text(lock))
        text, conflicts = by_line(self.files[0], self.files[1], self.files[2], self.folder)
        uv = not conflicts and text.rstrip("\n") == uv_text(right).rstrip("\n")
        for file, lock in zip(self.files, (base, ours, theirs), strict=True):
            file.write_text(dumps(lock))
        text, conflicts = by_line(self.files[0], self.files[1], self.files[2], self.folder)
        git = not conflicts and _lock(text) == right
        problems = merge_lock(*self.files)
        driver = not problems and _lock(self.files[1].read_text()) == right
        assert driver or not git, "plain git does better"
        assert driver or not uv, "uv.lock does better"
        if problems:
            begun = merge(base, ours, theirs).lock
            changed = {(target.name, pin.name) for target in right for pin in target.pins} - {
                (target.name, pin.name) for target in begun for pin in target.pins
            }
            assert not changed, "lock begins without a package of either side"
        return git, uv, driver


def _lock(text: str) -> Lock | None:
    try:
        return read_for_display(text, "")
    except LockError:
        return None


@pytest.fixture
def base(root: Path) -> Lock:
    return load(root / "locks" / "team-v2.9" / "envspec.lock")


@pytest.mark.slow
def test_the_commonest_pairs(base: Lock, tmp_path: Path) -> None:
    found, run = events(base), Merges(tmp_path)
    for name in ("security fix", "add", "remove", "private wheel"):
        for _, *sides in merges(base, found["upgrade"][0], found[name][1]):
            git, _, driver = run.held(*sides)
            assert driver, name
            assert git or name != "security fix", "an upgrade and a fix are plain git's"


@pytest.mark.nightly
def test_every_event_against_every_other(base: Lock, tmp_path: Path) -> None:
    run, counts = Merges(tmp_path), [0, 0, 0, 0]
    for one, _ in events(base).values():
        for _, other in events(base).values():
            for _, *sides in merges(base, one, other):
                counts = [count + right for count, right in zip(counts, (True, *run.held(*sides)), strict=True)]
    every, git, uv, driver = counts
    assert every > 300 and git < uv < driver == every, counts


@pytest.mark.nightly
def test_two_hundred_pairs_of_edits(base: Lock, tmp_path: Path) -> None:
    names = sorted({pin.name for target in base for pin in target.pins if pin.index == "pypi"})
    asked = sorted({pin.name for target in base for pin in target.pins if pin.direct and pin.index == "pypi"})
    run, counts = Merges(tmp_path), [0, 0, 0, 0]
    for seed in range(200):
        draw = random.Random(seed)

        def edit(draw: random.Random = draw) -> Change:
            word = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=5))
            several = draw.sample(names, draw.randint(3, 15))
            return draw.choice([bump(*several), bump(draw.choice(names)), add(word), remove(draw.choice(asked))])

        one, other = edit(), edit()
        for _, *sides in merges(base, one, other):
            counts = [count + right for count, right in zip(counts, (True, *run.held(*sides)), strict=True)]
    every, git, uv, driver = counts
    assert every > 400 and git < driver >= uv and driver / every > 0.9, counts
