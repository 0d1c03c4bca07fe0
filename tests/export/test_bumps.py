"""What git sees of recipes when a package moves: six targets' recipes, by plain git's diff and merge."""

import subprocess
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path

import pytest
from msgspec.structs import replace
from recipe_plans import parsed

from envspec.export.folder import render_all, render_all_of_spec
from envspec.export.make import make_spec_plan
from envspec.export.plan import decode, encode
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin, SoundLock
from envspec.spec.model import Spec

SPEC = "mm-v2.9"
Change = Callable[[Spec, Lock], tuple[Spec, Lock]]


def moved(name: str, *, of: str = "") -> Change:
    """A change: a package has another version and file, in all targets or in one."""

    def pin(one: Pin) -> Pin:
        assert one.artifact
        file = one.artifact.file.replace(one.version, "99.1")
        artifact = replace(one.artifact, file=file, sha256=one.artifact.sha256[::-1], size=99)
        return replace(one, version="99.1", artifact=artifact, dependencies=(*one.dependencies, "moved"))

    def change(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        targets = tuple(
            replace(target, pins=tuple(pin(p) if p.name == name and of in target.name else p for p in target.pins))
            for target in lock
        )
        return spec, replace(lock, targets=targets)

    return change


def more(name: str) -> Change:
    """A change: the spec asks for a package more."""
    artifact = Artifact(f"{name}-1.0-py3-none-any.whl", "a" * 64, 1)

    def target(one: LockedTarget) -> LockedTarget:
        asked = tuple(sorted((*one.inputs.requirements, name)))
        pins = (*one.pins, Pin("pip", name, "1.0", "pypi", artifact, direct=True))
        return replace(one, inputs=replace(one.inputs, requirements=asked), pins=pins)

    return lambda spec, lock: (spec, replace(lock, targets=tuple(map(target, lock))))


def gone(name: str) -> Change:
    """A change: a package is in no target any more."""

    def target(one: LockedTarget) -> LockedTarget:
        return replace(one, pins=tuple(pin for pin in one.pins if pin.name != name))

    return lambda spec, lock: (spec, replace(lock, targets=tuple(map(target, lock))))


def python(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
    """A change: images get another build of Python."""
    return spec, replace(lock, pythons=tuple(replace(one, version="3.12.99", sha256="b" * 64) for one in lock.pythons))


def files(*changes: Change) -> dict[str, str]:
    """The recipes of the changed spec and lock, as `export --format all` writes them."""
    spec, lock = reduce(lambda done, change: change(*done), changes, parsed(SPEC))
    plan = make_spec_plan(spec, SoundLock.of(lock), f"recipes/{SPEC}")
    rendered = [*(made for of in plan.targets for made in render_all(of).values()), *render_all_of_spec(plan).values()]
    return {path: text for made in rendered for path, text in made.items()}


def git(folder: Path, *words: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *own, *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commit(folder: Path, texts: Mapping[str, str]) -> None:
    place = folder / "recipes" / SPEC
    for old in [*place.rglob("*")]:
        if old.is_file() and old.relative_to(place).as_posix() not in texts:
            old.unlink()
    for path, text in texts.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_bytes(encode(text))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "exported")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "recipes" / SPEC).mkdir(parents=True)
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, files())
    return tmp_path


def lines(folder: Path) -> dict[str, int]:
    """The lines that git shows of the last commit, by file."""
    rows = (row.split("\t") for row in git(folder, "diff", "--numstat", "HEAD~1").splitlines())
    return {path: int(added) + int(removed) for added, removed, path in rows}


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("name", "groups"), [("numpy", 1), ("nvidia-cublas-cu12", 2), ("deepspeed", 1), ("torch", 4)])
def test_a_package_that_moves_is_a_line_in_each_group_of_targets(repository: Path, name: str, groups: int) -> None:
    commit(repository, files(moved(name)))
    found = lines(repository)
    of_groups = {path: count for path, count in found.items() if "/requirements/" in path}
    assert [*of_groups.values()] == [2] * groups
    # torch's version is a variable of images, and says what GPUs it has code for
    assert name == "torch" or found == of_groups


BOTH = {
    "neighbours": (moved("numpy"), moved("notebook-shim"), moved("open-clip-torch")),
    "two more": (more("aaa"), more("beta"), moved("numpy")),
    "one less": (gone("numpy"), moved("notebook-shim"), more("zeta")),
    "one target": (moved("numpy", of="cu130"), moved("pandas"), gone("hjson")),
    "another Python": (python, moved("numpy"), more("gamma")),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BOTH)
def test_what_branches_change_plain_git_merges(repository: Path, case: str) -> None:
    """As it merges spec and lock: into what an export of these writes."""
    for number, change in enumerate(BOTH[case]):
        git(repository, "switch", "-qc", f"branch{number}", "main")
        commit(repository, files(change))
    git(repository, "switch", "-q", "main")
    for number in range(3):
        git(repository, "merge", "-q", "--no-edit", f"branch{number}")
    place = repository / "recipes" / SPEC
    merged = {path: decode((place / path).read_bytes()) for path in files(*BOTH[case])}
    assert merged == files(*BOTH[case])
