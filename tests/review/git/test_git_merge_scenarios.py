"""Locks merged by git itself, on real branches: what merges, what doesn't, and nobody takes a conflict for a lock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from git_project import BASE, CU126, LOCK, SPEC, Repository, State, conda, pin
from support.matrix import first_by_day

from envspec.lock.read import load
from envspec.lock.store import LockFolder
from envspec.review.git.setup import install
from envspec.review.git.setup import repository as git_repository

pytestmark = pytest.mark.e2e

Change = Callable[[State], State]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "clone")
    install(git_repository(made.folder), (sys.executable, "-m", "envspec"))
    return made


def bump(name: str, version: str, *dependencies: str, only: str | None = None) -> Change:
    return lambda state: state.bump(pin(name, version, *dependencies), only=only)


def both(*changes: Change) -> Change:
    def change(state: State) -> State:
        for one in changes:
            state = one(state)
        return state

    return change


def relocked(exclude_newer: str, *pins: str) -> Change:
    """As after `envspec lock --upgrade` with a new exclude-newer."""
    return lambda state: replace(state.bump(pin("numpy", "2.2")), exclude_newer=exclude_newer)


def add(name: str, version: str, *dependencies: str) -> Change:
    return lambda state: state.ask(name).bump(pin(name, version, *dependencies))


WITH_CONDA = replace(
    BASE.bump(conda("ffmpeg", "7.0", "zlib"), conda("zlib", "1.2")), conda_requirements=("ffmpeg 7.*",)
)

CLEAN: dict[str, tuple[State, Change, Change, Change]] = {
    "different packages": (
        BASE,
        bump("numpy", "2.2"),
        bump("tqdm", "4.2"),
        both(bump("numpy", "2.2"), bump("tqdm", "4.2")),
    ),
    "the same new version on both sides, and one more": (
        BASE,
        bump("numpy", "2.2"),
        both(bump("numpy", "2.2"), bump("tqdm", "4.2")),
        both(bump("numpy", "2.2"), bump("tqdm", "4.2")),
    ),
    "each side adds a package of the spec, with what it needs": (
        BASE,
        both(add("einops", "0.8", "typing"), bump("typing", "4.0")),
        add("rich", "15.0"),
        both(add("einops", "0.8", "typing"), bump("typing", "4.0"), add("rich", "15.0")),
    ),
    "one side removes a package, the other bumps another": (
        BASE,
        lambda state: state.unask("numpy").drop("numpy"),
        bump("lib", "2.5"),
        lambda state: state.unask("numpy").drop("numpy").bump(pin("lib", "2.5")),
    ),
    "the same package in different targets": (
        BASE,
        lambda state: state.bump(pin("torch", "2.9.1", "fsspec", "tqdm"), only="cu128"),
        lambda state: state.bump(pin("torch", "2.9.1+cpu", "fsspec", "tqdm", index="pytorch/cpu"), only="cpu"),
        lambda state: state.bump(pin("torch", "2.9.1", "fsspec", "tqdm"), only="cu128").bump(
            pin("torch", "2.9.1+cpu", "fsspec", "tqdm", index="pytorch/cpu"), only="cpu"
        ),
    ),
    "one side adds a target, the other bumps a package of the others": (
        BASE,
        lambda state: state.target("cu126", CU126, like="cpu"),
        bump("numpy", "2.2"),
        lambda state: (
            state.target("cu126", CU126, like="cpu")
            .bump(pin("numpy", "2.2"), only="cpu")
            .bump(pin("numpy", "2.2"), only="cu128")
        ),
    ),
    "one side removes a target, the other changes another": (
        BASE,
        lambda state: state.without_target("cu128"),
        bump("numpy", "2.2", only="cpu"),
        lambda state: state.without_target("cu128").bump(pin("numpy", "2.2")),
    ),
    "one side moves a target to another CUDA, the other changes another target": (
        BASE,
        lambda state: state.target("cu128", CU126).bump(pin("torch", "2.9.0+cu126", "tqdm"), only="cu128"),
        bump("numpy", "2.2", only="cpu"),
        lambda state: (
            state.target("cu128", CU126)
            .bump(pin("torch", "2.9.0+cu126", "tqdm"), only="cu128")
            .bump(pin("numpy", "2.2"), only="cpu")
        ),
    ),
    "what each side alone still needed goes when both are merged": (
        BASE,
        bump("app", "1.1", "lib>=2"),
        bump("torch", "2.9.0", "tqdm"),
        both(bump("app", "1.1", "lib>=2"), bump("torch", "2.9.0", "tqdm"), lambda state: state.drop("fsspec")),
    ),
    "one side asks for a package itself, the other bumps it": (
        BASE,
        lambda state: state.ask("lib"),
        bump("lib", "2.5"),
        both(lambda state: state.ask("lib"), bump("lib", "2.5")),
    ),
    "conda on one side, pip on the other": (
        WITH_CONDA,
        lambda state: state.bump(conda("ffmpeg", "7.1", "zlib")),
        bump("numpy", "2.2"),
        lambda state: state.bump(conda("ffmpeg", "7.1", "zlib"), pin("numpy", "2.2")),
    ),
}

ORPHANS = {"what each side alone still needed goes when both are merged"}
"""What both sides' files beside the lock have, and the merged lock hasn't."""

CONFLICTS: dict[str, tuple[State, Change, Change, str]] = {
    "two new versions": (
        BASE,
        bump("numpy", "2.2"),
        bump("numpy", "2.3"),
        "cpu: numpy is 2.2 on one side and 2.3 on the other",
    ),
    "removed here, bumped there": (
        BASE,
        lambda state: state.unask("numpy").drop("numpy"),
        bump("numpy", "2.2"),
        "cpu: numpy is removed on one side and changed on the other, to 2.2",
    ),
    "versions that don't go together": (
        BASE,
        bump("lib", "3.0"),
        bump("app", "1.1", "lib>=2,<3", "fsspec"),
        "cpu, cu128: app requires lib>=2,<3, but lib is 3.0",
    ),
    "a dependency that the other side removed": (
        BASE.ask("tqdm"),
        lambda state: state.unask("tqdm").drop("tqdm").bump(pin("torch", "2.9.0", "fsspec")),
        add("rich", "15.0", "tqdm"),
        "cpu, cu128: rich requires tqdm, but nothing provides it",
    ),
    "a target removed here, changed there": (
        BASE,
        lambda state: state.without_target("cu128"),
        bump("numpy", "2.2", only="cu128"),
        "cu128: changed on one side and removed on the other",
    ),
    "a target for another CUDA here, bumped there": (
        BASE,
        lambda state: state.target("cu128", CU126),
        bump("numpy", "2.2", only="cu128"),
        "cu128: solved for different inputs on one side, and changed on the other",
    ),
    "exclude-newer moved here, a package bumped there": (
        replace(BASE, exclude_newer="2026-01-01"),
        relocked("2026-02-01"),
        bump("tqdm", "4.2"),
        "cpu: solved for different inputs on one side, and changed on the other",
    ),
    "a different file of the same version": (
        BASE,
        lambda state: state.bump(pin("numpy", "2.2", content="a")),
        lambda state: state.bump(pin("numpy", "2.2", content="b")),
        "cpu: numpy is 2.2 on both sides, with different recorded metadata",
    ),
    "conda packages changed on both sides": (
        WITH_CONDA,
        lambda state: state.bump(conda("ffmpeg", "7.1", "zlib")),
        lambda state: state.bump(conda("zlib", "1.3")),
        "cpu: conda packages changed on both sides",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", first_by_day(1, CLEAN))
def test_it_merges(repository: Repository, name: str) -> None:
    base, ours, theirs, expected = CLEAN[name]
    repository.branches(base, ours(base), theirs(base))
    ran = repository.run("git", "merge", "--no-edit", "topic")
    assert repository.unmerged().isdisjoint({LOCK, SPEC}), ran.stdout + ran.stderr
    assert "merged by package" in ran.stderr
    assert "hint: run `envspec lock specs/demo.toml` to verify the lock and to update the files beside it" in ran.stderr
    assert load(repository.lock_path) == expected(base).lock()
    if name in ORPHANS:
        assert repository.envspec("check").stdout.startswith("specs/demo.toml: drifted")
        assert repository.envspec("lock", "--offline", SPEC).returncode == 0
    else:
        assert ran.returncode == 0
        assert repository.git("status", "--porcelain") == ""
    # what lies beside the lock is what is rendered from it
    assert repository.envspec("check").stdout.startswith("specs/demo.toml: fresh")


@pytest.mark.slow
@pytest.mark.parametrize("name", first_by_day(1, CONFLICTS))
def test_it_conflicts_and_everybody_notices(repository: Repository, name: str) -> None:
    base, ours, theirs, reason = CONFLICTS[name]
    repository.branches(base, ours(base), theirs(base))
    told = repository.git("merge", "--no-edit", "topic", code=1)
    assert f"{LOCK}: can't be merged by package; lock again" in told
    assert f"\n  {reason}\n" in told
    assert_conflict_is_noticed(repository)
    assert_hint_ends_it(repository, ours(base))


def assert_conflict_is_noticed(repository: Repository) -> None:
    assert LOCK in repository.unmerged()
    for command in (("check",), ("lock", "--offline", SPEC), ("tree", SPEC)):
        ran = repository.envspec(*command)
        assert ran.returncode in (1, 2)
        assert "the lock holds a merge conflict" in ran.stdout + ran.stderr


def assert_hint_ends_it(repository: Repository, state: State) -> None:
    """The way that the hint tells, with a solver's answer put in by hand."""
    repository.git("checkout", "--ours", "--", LOCK)
    repository.write(state)
    repository.git("add", "-A")
    repository.git("commit", "-q", "--no-edit")
    assert repository.envspec("check").returncode == 0


@pytest.mark.slow
def test_two_first_locks_conflict(repository: Repository) -> None:
    repository.branches(None, BASE, bump("numpy", "2.2")(BASE))
    assert "  cpu: numpy is 2.1 on one side and 2.2 on the other" in repository.git("merge", "topic", code=1)
    assert_conflict_is_noticed(repository)


@pytest.mark.slow
def test_a_rebase_merges_each_commit(repository: Repository) -> None:
    repository.branches(BASE, bump("tqdm", "4.2")(BASE), bump("app", "1.1", "lib>=2", "fsspec")(BASE))
    repository.git("switch", "-q", "topic")
    repository.commit(both(bump("app", "1.1", "lib>=2", "fsspec"), bump("lib", "2.5"))(BASE))
    assert repository.git("rebase", "main").count("merged by package") == 2
    expected = both(bump("app", "1.1", "lib>=2", "fsspec"), bump("lib", "2.5"), bump("tqdm", "4.2"))(BASE)
    assert load(repository.lock_path) == expected.lock()


@pytest.mark.slow
def test_a_cherry_pick_of_one_commit(repository: Repository) -> None:
    repository.branches(BASE, bump("tqdm", "4.2")(BASE), bump("app", "1.1", "lib>=2", "fsspec")(BASE))
    repository.git("cherry-pick", "topic")
    assert load(repository.lock_path) == both(bump("tqdm", "4.2"), bump("app", "1.1", "lib>=2", "fsspec"))(BASE).lock()


@pytest.mark.slow
def test_a_revert_of_an_older_change(repository: Repository) -> None:
    repository.commit(BASE)
    repository.commit(bump("numpy", "2.2")(BASE))
    repository.commit(both(bump("numpy", "2.2"), bump("tqdm", "4.2"))(BASE))
    repository.git("revert", "--no-edit", "HEAD~1")
    assert load(repository.lock_path) == bump("tqdm", "4.2")(BASE).lock()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "reason"),
    first_by_day(
        1,
        [
            (
                lambda text: text.replace("2.2", "2.4 "),
                "a lock can't be read: [[pip]]: version must be a version, not '2.4 '",
            ),
            (
                lambda text: text.replace("lock-version = 3", "lock-version = 99"),
                "a lock can't be read: the lock has schema 99",
            ),
        ],
    ),
    ids=["edited by hand", "a newer schema"],
)
def test_a_side_that_cant_be_read(repository: Repository, damage: Callable[[str], str], reason: str) -> None:
    repository.branches(BASE, bump("numpy", "2.2")(BASE), bump("tqdm", "4.2")(BASE))
    repository.lock_path.write_text(damage(repository.lock_path.read_text()))
    repository.commit()
    assert reason in repository.git("merge", "topic", code=1)
    assert LOCK in repository.unmerged()
    assert "<<<<<<< one side\n" in repository.lock_path.read_text()
    assert repository.envspec("check").returncode == 1


@pytest.mark.slow
def test_a_second_merge_after_a_merge(repository: Repository) -> None:
    """The merged lock is a common ancestor as good as any."""
    repository.branches(BASE, bump("numpy", "2.2")(BASE), bump("app", "1.1", "lib>=2", "fsspec")(BASE))
    repository.git("merge", "--no-edit", "topic")
    merged = load(repository.lock_path)
    repository.git("switch", "-q", "topic")
    repository.commit(both(bump("app", "1.1", "lib>=2", "fsspec"), bump("lib", "2.5"))(BASE))
    repository.git("switch", "-q", "main")
    LockFolder(repository.folder / "locks", "demo").write(merged)
    repository.git("merge", "--no-edit", "topic")
    expected = both(bump("numpy", "2.2"), bump("app", "1.1", "lib>=2", "fsspec"), bump("lib", "2.5"))(BASE)
    assert load(repository.lock_path) == expected.lock()


def test_without_git_setup_one_package_on_both_sides_conflicts(repository: Repository) -> None:
    assert repository.envspec("git-setup", "--undo").returncode == 0
    repository.branches(BASE, bump("numpy", "2.2")(BASE), bump("numpy", "2.3")(BASE))
    repository.git("merge", "--no-edit", "topic", code=1)
    assert_conflict_is_noticed(repository)


def test_a_lost_program_stops_a_merge_and_no_diff(repository: Repository) -> None:
    repository.branches(BASE, bump("numpy", "2.2")(BASE), bump("tqdm", "4.2")(BASE))
    repository.git("config", "merge.envspec.driver", "/nowhere/envspec git-merge %O %A %B %P")
    repository.git("config", "diff.envspec.textconv", 'f() { /nowhere/envspec "$1" 2>/dev/null || cat "$1"; }; f')
    assert '+version = "2.2"' in repository.git("diff", "HEAD~1", "HEAD", "--", LOCK)
    repository.git("merge", "--no-edit", "topic", code=1)
    assert LOCK in repository.unmerged()


@pytest.mark.slow
def test_the_merge_depends_on_no_order(repository: Repository) -> None:
    """Either side first: the same bytes."""
    for name, (base, ours, theirs, _) in list(CLEAN.items())[:3]:
        folder = repository.folder.parent / name.replace(" ", "-")
        texts = []
        for number, (mine, other) in enumerate(((ours, theirs), (theirs, ours))):
            clone = Repository(folder / str(number))
            install(git_repository(clone.folder), (sys.executable, "-m", "envspec"))
            clone.branches(base, mine(base), other(base))
            clone.run("git", "merge", "--no-edit", "topic")
            texts.append(clone.lock_path.read_bytes())
        assert texts[0] == texts[1]
