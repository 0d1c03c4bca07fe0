"""Two branches that bump different packages, merged by git alone: no driver, as on a hosting site's merge button."""

import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from git_project import Repository
from msgspec.structs import replace

from envspec.app.inputs import read_spec
from envspec.lock.inputs import spec_case
from envspec.lock.judge import judge
from envspec.lock.model import Lock, Pin
from envspec.lock.read import load
from envspec.lock.store import LockFolder, rendered_files

Chosen = Callable[[Lock, str], set[str]]


def every(lock: Lock, name: str) -> set[str]:
    return {target.name for target in lock if target.pin(name, "pip")}


def in_one(lock: Lock, name: str) -> set[str]:
    return {min(every(lock, name))}


def in_some(lock: Lock, name: str) -> set[str]:
    return set(sorted(every(lock, name))[-2:])


def bumped(lock: Lock, name: str, targets: set[str]) -> Lock:
    """A later release of a package, which whoever asks for it still takes."""

    def change(pin: Pin) -> Pin:
        if (pin.kind, pin.name) != ("pip", name) or pin.artifact is None:
            return pin
        version = f"{pin.version}.post1"
        file = pin.artifact.file.replace(f"-{pin.version}-", f"-{version}-")
        sha256 = f"{random.Random(file).getrandbits(256):064x}"
        return replace(pin, version=version, artifact=replace(pin.artifact, file=file, sha256=sha256))

    return replace(
        lock, targets=tuple(replace(t, pins=tuple(map(change, t.pins))) if t.name in targets else t for t in lock)
    )


def free(lock: Lock, spec: str, count: int) -> list[str]:
    """Find packages beside each other, from the middle on, that can be bumped alone: nobody pins them to a version."""
    names = sorted({pin.name for target in lock for pin in target.pins if pin.kind == "pip" and pin.index == "pypi"})
    parsed = read_spec(spec)
    sound = (
        name for name in names[len(names) // 2 :] if not judge(bumped(lock, name, every(lock, name)), spec_case(parsed))
    )
    return list(islice(sound, count))


class Shipped:
    """A repository with a shipped spec and its lock."""

    def __init__(self, name: str, root: Path, folder: Path) -> None:
        self.repository = Repository(folder)
        self.spec = f"specs/{name}.toml"
        self.folder = LockFolder(folder / "locks", name)
        (folder / "specs").mkdir()
        (folder / self.spec).write_bytes((root / self.spec).read_bytes())
        self.base = load(root / "locks" / name / "envspec.lock")
        self.commit(self.base)

    def commit(self, lock: Lock) -> None:
        self.folder.write(lock)
        self.repository.git("add", "-A")
        self.repository.git("commit", "-q", "-m", "lock")

    def branch(self, name: str, lock: Lock) -> None:
        self.repository.git("switch", "-q", "-c", name, "main")
        self.commit(lock)


CASES = [
    ("mm-v2.9", every, every),
    ("mm-v2.9", in_one, in_one),
    ("mm-v2.9", in_some, in_one),
    ("mm-v2.9", every, in_some),
    ("hpc-v2.7", in_one, every),
    ("team-v2.9", in_some, in_some),
]
IDS = [f"{name}-{one.__name__}-{other.__name__}" for name, one, other in CASES]


@pytest.mark.by_commit(3)
@pytest.mark.slow
@pytest.mark.parametrize(("name", "one", "other"), CASES, ids=IDS)
def test_neighbours(name: str, one: Chosen, other: Chosen, root: Path, tmp_path: Path) -> None:
    """Pairs of packages that stand beside each other; lock and rendered files, in both directions."""
    shipped = Shipped(name, root, tmp_path / "clone")
    base = shipped.base
    names = free(base, str(root / shipped.spec), 4)
    for first, second in zip(names[::2], names[1::2], strict=True):
        ours = bumped(base, first, one(base, first))
        theirs = bumped(base, second, other(base, second))
        both = bumped(ours, second, other(base, second))
        for number, (here, there) in enumerate(((ours, theirs), (theirs, ours))):
            shipped.branch(f"{first}-{number}", there)
            shipped.branch(f"{second}-{number}", here)
            assert "Merge made by" in shipped.repository.git("merge", "--no-edit", f"{first}-{number}")
            assert load(shipped.folder.path) == both
            assert shipped.folder.read_rendered_files(both) == rendered_files(both)
    checked = shipped.repository.envspec("check", shipped.spec)
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def test_what_git_merges_and_no_solver_would_is_refused(root: Path, tmp_path: Path) -> None:
    """One branch takes a release that another one's bump doesn't fit."""
    shipped = Shipped("mm-v2.9", root, tmp_path / "clone")
    base, tqdm = shipped.base, shipped.base.targets[0].pin("tqdm")
    assert tqdm is not None
    bound = f"tqdm<={tqdm.version}"

    def bounded(pin: Pin) -> Pin:
        return replace(pin, dependencies=(*pin.dependencies, bound)) if pin.name == "accelerate" else pin

    shipped.branch("topic", replace(base, targets=tuple(replace(t, pins=tuple(map(bounded, t.pins))) for t in base)))
    shipped.branch("other", bumped(base, "tqdm", every(base, "tqdm")))
    shipped.repository.git("merge", "--no-edit", "topic")
    checked = shipped.repository.envspec("check", shipped.spec)
    assert checked.returncode == 1 and "[requirement-unmet]" in checked.stdout
