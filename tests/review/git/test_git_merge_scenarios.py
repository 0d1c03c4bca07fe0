"""Locks merged by git itself, on real branches: what merges, what doesn't, and how each conflict ends."""

import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from git_project import BASE, CU126, LOCK, SPEC, Repository, State, conda, pin
from msgspec.structs import replace
from support.matrix import first_by_day

from envspec.export.plan import MARK
from envspec.lock.model import Lock
from envspec.lock.read import load
from envspec.lock.store import LockFolder
from envspec.review.git.setup import install, repository as git_repository

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


def add(name: str, version: str, *dependencies: str) -> Change:
    return lambda state: state.ask(name).bump(pin(name, version, *dependencies))


def remove(name: str) -> Change:
    return lambda state: state.unask(name).drop(name)


def add_target(state: State) -> State:
    return state.target("cu126", CU126, like="cpu")


def dated(day: str) -> Change:
    return lambda state: replace(state, exclude_newer=day)


WITH_DATE = replace(BASE, exclude_newer="2026-01-01")
WITH_CONDA = replace(
    BASE.bump(conda("ffmpeg", "7.0", "zlib"), conda("zlib", "1.2")), conda_requirements=("ffmpeg 7.*",)
)

ALONE: dict[str, tuple[State, Change, Change]] = {
    "different packages": (BASE, bump("numpy", "2.2"), bump("tqdm", "4.2")),
    "the same new version on both sides, and one more": (
        BASE,
        bump("numpy", "2.2"),
        both(bump("numpy", "2.2"), bump("tqdm", "4.2")),
    ),
    "each side adds a package of the spec, with what it needs": (
        BASE,
        both(add("einops", "0.8", "typing"), bump("typing", "4.0")),
        add("rich", "15.0"),
    ),
    "one side removes a package, the other bumps another": (BASE, remove("numpy"), bump("lib", "2.5")),
    "the same package in different targets": (
        BASE,
        bump("torch", "2.9.1", "fsspec", "tqdm", only="cu128"),
        lambda state: state.bump(pin("torch", "2.9.1+cpu", "fsspec", "tqdm", index="pytorch/cpu"), only="cpu"),
    ),
    "one side adds a target, the other bumps a package of the others": (BASE, add_target, bump("numpy", "2.2")),
    "one side removes a target, the other changes another": (
        BASE,
        lambda state: state.without_target("cu128"),
        bump("numpy", "2.2", only="cpu"),
    ),
    "one side moves a target to another CUDA, the other changes another target": (
        BASE,
        lambda state: state.target("cu128", CU126).bump(pin("torch", "2.9.0+cu126", "tqdm"), only="cu128"),
        bump("numpy", "2.2", only="cpu"),
    ),
    "one side asks for a package itself, the other bumps it": (
        BASE,
        lambda state: state.ask("lib"),
        bump("lib", "2.5"),
    ),
    "conda on one side, pip on the other": (
        WITH_CONDA,
        lambda state: state.bump(conda("ffmpeg", "7.1", "zlib")),
        bump("numpy", "2.2"),
    ),
    "the monthly upgrade here, another package there": (
        WITH_DATE,
        both(bump("numpy", "2.2"), bump("lib", "2.5"), dated("2026-02-01")),
        bump("tqdm", "4.2"),
    ),
    "an age that counts from another day on each side": (
        WITH_DATE,
        both(bump("numpy", "2.2"), dated("2026-02-01")),
        both(bump("tqdm", "4.2"), dated("2026-03-01")),
    ),
    "two packages that stand side by side": (BASE, add("aaa", "1.0"), add("bbb", "1.0")),
    "a target more on each side": (BASE, add_target, both(add_target, bump("numpy", "2.2"))),
}
"""The common ancestor and the two sides, whose changes are all in the merge."""

CLEAN = {name: (base, ours, theirs, both(ours, theirs)) for name, (base, ours, theirs) in ALONE.items()}
CLEAN["removed here, bumped there"] = (BASE, remove("numpy"), bump("numpy", "2.2"), remove("numpy"))

UNSOLVED: dict[str, tuple[State, Change, Change, str]] = {
    "what each side alone still needed": (BASE, bump("app", "1.1", "lib>=2"), bump("torch", "2.9.0", "tqdm"), "fsspec"),
    "versions that don't go together": (
        BASE,
        bump("lib", "3.0"),
        bump("app", "1.1", "lib>=2,<3", "fsspec"),
        "app requires lib>=2,<3, but lib is 3.0",
    ),
    "a dependency that the other side removed": (
        BASE.ask("tqdm"),
        both(remove("tqdm"), bump("torch", "2.9.0", "fsspec")),
        add("rich", "15.0", "tqdm"),
        "rich requires tqdm, but nothing provides it",
    ),
}
"""What merges as text, and a solver has to see: `check` says so, and `lock` solves it."""

CONFLICTS: dict[str, tuple[State, Change, Change, str, Change]] = {
    "two new versions": (
        BASE,
        both(bump("numpy", "2.2"), bump("tqdm", "4.2")),
        both(bump("numpy", "2.3"), bump("lib", "2.5")),
        "cpu, cu128: numpy is 2.2 on one side and 2.3 on the other",
        both(bump("numpy", "2.3"), bump("tqdm", "4.2"), bump("lib", "2.5")),
    ),
    "a different file of the same version": (
        BASE,
        lambda state: state.bump(pin("numpy", "2.2", content="a")),
        lambda state: state.bump(pin("numpy", "2.2", content="b")),
        "cpu, cu128: numpy is 2.2 on both sides, with different recorded metadata",
        lambda state: state.bump(pin("numpy", "2.2", content="a")),
    ),
    "a conda package": (
        WITH_CONDA,
        lambda state: state.bump(conda("ffmpeg", "7.1", "zlib")),
        lambda state: state.bump(conda("ffmpeg", "7.2", "zlib")),
        "cpu, cu128: ffmpeg is 7.1 on one side and 7.2 on the other",
        lambda state: state.bump(conda("ffmpeg", "7.2", "zlib")),
    ),
}


@pytest.mark.by_commit(3)
@pytest.mark.parametrize("name", first_by_day(1, CLEAN))
def test_it_merges(repository: Repository, name: str) -> None:
    base, ours, theirs, expected = CLEAN[name]
    repository.branches(base, ours(base), theirs(base))
    ran = repository.run("git", "merge", "--no-edit", "topic")
    assert f"hint: run `envspec lock {SPEC}` to verify {LOCK} and to update the files beside it" in ran.stderr
    assert ran.returncode == 0 or repository.unmerged() == {SPEC}, ran.stdout + ran.stderr
    (repository.folder / SPEC).write_text(expected(base).spec_text())
    assert as_solved(load(repository.lock_path)) == as_solved(expected(base).lock())
    assert repository.envspec("lock", "--offline", SPEC).returncode == 0, "what lies beside it is rendered anew"
    assert repository.envspec("check").stdout.startswith("specs/demo.toml: fresh")


def as_solved(lock: Lock) -> Lock:
    """A lock without the builds of Python, which `lock` adds."""
    return replace(lock, pythons=())


@pytest.mark.slow
@pytest.mark.parametrize("name", UNSOLVED)
def test_what_only_a_solver_can_judge_merges_and_check_says_what_to_run(repository: Repository, name: str) -> None:
    base, ours, theirs, reason = UNSOLVED[name]
    repository.branches(base, ours(base), theirs(base))
    repository.git("merge", "--no-edit", "topic")
    checked = repository.envspec("check")
    assert checked.returncode == 1 and reason in checked.stdout
    assert checked.stderr.count("hint: ") == 1 and f"envspec lock {SPEC}" in checked.stderr


@pytest.mark.parametrize("name", first_by_day(1, CONFLICTS))
def test_a_conflict_names_both_sides_and_the_hint_ends_it(repository: Repository, name: str) -> None:
    base, ours, theirs, reason, expected = CONFLICTS[name]
    repository.branches(base, ours(base), theirs(base))
    told = repository.git("merge", "--no-edit", "topic", code=1)
    assert f"\n  {reason}\n" in told and repository.unmerged() == {LOCK}
    assert_ended_by_what_is_said(repository, told, reason)
    assert as_solved(load(repository.lock_path)) == as_solved(expected(base).lock())
    repository.git("commit", "-q", "--no-edit")


@pytest.mark.slow
@pytest.mark.parametrize("conflict", [False, True], ids=["clean", "conflict"])
@pytest.mark.parametrize(("project", "spec"), [("ml", "demo.toml"), (".", "other.toml"), ("ml", "other.toml")])
def test_the_driver_names_the_spec_where_it_lies(
    repository: Repository, project: str, spec: str, conflict: bool
) -> None:
    """The project is a folder of the repository, or the spec's file has another name than its environment."""
    root = repository.folder / project
    states = {"main": BASE, "topic": THEIRS(BASE), "ours": (OURS if conflict else add("rich", "15.0"))(BASE)}
    for name, state in states.items():
        if name != "main":
            repository.git("switch", "-q", "-C", name, "main")
        (root / "specs").mkdir(parents=True, exist_ok=True)
        (root / "specs" / spec).write_text(state.spec_text())
        LockFolder(root / "locks", "demo").write(state.lock())
        repository.commit()
    told = repository.git("merge", "--no-edit", "topic", code=int(conflict))
    assert f"envspec lock {'' if project == '.' else 'ml/'}specs/{spec}" in told


def test_the_driver_reads_no_link_beside_the_spec(repository: Repository) -> None:
    """It looks for the spec by the name in it, and a link to a device has no end."""
    states = {"topic": THEIRS(BASE), "ours": OURS(BASE)}
    for name, state in {"main": BASE, **states}.items():
        if name in states:
            repository.git("switch", "-q", "-C", name, "main")
        specs = repository.folder / "specs"
        specs.mkdir(exist_ok=True)
        (specs / "other.toml").write_text(state.spec_text())
        LockFolder(repository.folder / "locks", "demo").write(state.lock())
        if name == "main":
            (specs / "a.toml").symlink_to("/dev/zero")
        repository.commit()
    assert "envspec lock specs/other.toml" in repository.git("merge", "--no-edit", "topic", code=1)


def assert_ended_by_what_is_said(repository: Repository, told: str, reason: str) -> None:
    """git's driver and `check` say the same, nobody takes the file for a lock, and the hint's commands end it."""
    hint = f"envspec lock {SPEC} && git add -A locks/demo"
    assert f"hint: after merging the spec: {hint}\n" in told
    checked = repository.envspec("check")
    assert (checked.returncode, checked.stderr) == (1, f"hint: {hint}\n") and reason in checked.stdout
    assert "the lock holds a merge conflict" in repository.envspec("tree", SPEC).stderr
    locked = repository.envspec("lock", "--offline", SPEC)
    assert locked.returncode == 0 and reason in locked.stderr and "hint: git add -A locks/demo\n" in locked.stderr
    repository.git("add", "-A", "locks/demo")
    assert repository.unmerged() == set()
    assert repository.envspec("check").stdout.startswith("specs/demo.toml: fresh")


OURS = both(bump("numpy", "2.3"), bump("tqdm", "4.2"))
THEIRS = both(bump("numpy", "2.2"), bump("lib", "2.5"))
BOTH = both(bump("numpy", "2.3"), bump("tqdm", "4.2"), bump("lib", "2.5"))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["merge", "merge the other way", "rebase", "cherry-pick", "revert"])
def test_the_way_out_keeps_both_sides_changes_whatever_git_does(repository: Repository, how: str) -> None:
    """`--ours` is the other side in a rebase; a revert's other side is the older one."""
    if how == "revert":
        repository.commit(both(THEIRS, bump("fsspec", "2026.1"))(BASE))
        repository.commit(both(bump("numpy", "2.1.1"), bump("fsspec", "2026.2"))(THEIRS(BASE)))
        repository.commit(both(THEIRS, OURS, bump("fsspec", "2026.2"))(BASE))
        told, expected = (
            repository.git("revert", "--no-edit", "HEAD~1", code=1),
            both(THEIRS, OURS, bump("fsspec", "2026.1")),
        )
    else:
        repository.branches(BASE, OURS(BASE), THEIRS(BASE))
        command = {"merge": ["merge", "--no-edit", "topic"], "cherry-pick": ["cherry-pick", "topic"]}.get(how)
        if command is None:
            repository.git("switch", "-q", "topic")
        told = repository.git(*(command or (["rebase", "main"] if how == "rebase" else ["merge", "main"])), code=1)
        expected = BOTH
    reason = "numpy is 2.3 on one side and 2.2 on the other"
    if how in ("merge the other way",):
        reason = "numpy is 2.2 on one side and 2.3 on the other"
    assert_ended_by_what_is_said(repository, told, reason)
    assert as_solved(load(repository.lock_path)) == as_solved(expected(BASE).lock())
    going_on = {"rebase": ["rebase", "--continue"], "cherry-pick": ["cherry-pick", "--continue"]}
    repository.git(*going_on.get(how, ["revert", "--continue"] if how == "revert" else ["commit", "-q", "--no-edit"]))
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.slow
def test_a_revert_takes_its_own_change_back(repository: Repository) -> None:
    repository.commit(BASE)
    repository.commit(bump("numpy", "2.2")(BASE))
    repository.commit(both(bump("numpy", "2.2"), bump("tqdm", "4.2"))(BASE))
    repository.git("revert", "--no-edit", "HEAD~1")
    assert load(repository.lock_path) == bump("tqdm", "4.2")(BASE).lock()


@pytest.mark.slow
def test_two_first_locks_conflict(repository: Repository) -> None:
    repository.branches(None, BASE, bump("numpy", "2.2")(BASE))
    told = repository.git("merge", "topic", code=1)
    repository.git("checkout", "--ours", "--", "specs", code=None)
    assert_ended_by_what_is_said(repository, told, "cpu, cu128: numpy is 2.1 on one side and 2.2 on the other")


@pytest.mark.slow
def test_without_git_setup_the_same_commands_end_a_conflict(repository: Repository) -> None:
    assert repository.envspec("git-setup", "--undo").returncode == 0
    repository.branches(BASE, OURS(BASE), THEIRS(BASE))
    repository.git("merge", "--no-edit", "topic", code=1)
    assert repository.envspec("lock", "--offline", SPEC).returncode == 0
    repository.git("add", "-A", "locks/demo")
    assert as_solved(load(repository.lock_path)) == as_solved(BOTH(BASE).lock())


@pytest.mark.slow
def test_markers_that_git_knows_nothing_of_any_more(repository: Repository) -> None:
    repository.branches(BASE, OURS(BASE), THEIRS(BASE))
    repository.git("merge", "--no-edit", "topic", code=1)
    repository.git("add", "-A")
    ran = repository.envspec("lock", "--offline", SPEC)
    assert ran.returncode == 2 and f"git checkout -m -- {LOCK}" in ran.stderr
    repository.git("checkout", "-m", "--", LOCK)
    assert repository.envspec("lock", "--offline", SPEC).returncode == 0


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
                lambda text: text.replace("lock-version = 5", "lock-version = 99"),
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
@pytest.mark.parametrize(
    "side",
    [b"", b"\xff\xfe", b"[" * 100_000, b"lock-version = 5\n" * 2, "/etc/hostname"],
    ids=["empty", "no UTF-8", "deep", "twice", "a link"],
)
def test_a_hostile_side_of_a_conflict_is_refused_by_lock(repository: Repository, side: bytes | str) -> None:
    repository.branches(BASE, OURS(BASE), THEIRS(BASE))
    repository.git("switch", "-q", "topic")
    repository.lock_path.unlink()
    if isinstance(side, bytes):
        repository.lock_path.write_bytes(side)
    else:
        repository.lock_path.symlink_to(side)
    repository.commit()
    repository.git("switch", "-q", "main")
    repository.git("merge", "topic", code=1)
    ran = repository.envspec("lock", "--offline", SPEC)
    assert ran.returncode == 2 and ran.stderr.startswith("error: ") and "Traceback" not in ran.stderr, ran.stderr


@pytest.mark.slow
def test_what_is_rendered_is_never_in_conflict(repository: Repository) -> None:
    """Not where both sides changed it, nor where one has dropped its target, which no driver is asked about."""
    recipe = repository.folder / "recipes" / "demo" / "cpu" / "Dockerfile"
    recipe.parent.mkdir(parents=True)
    own, picture = recipe.with_name("notes.txt"), recipe.with_name("picture.png")
    for text, state in (("base", BASE), ("ours", OURS(BASE)), ("theirs", THEIRS(BASE))):
        if text != "base":
            repository.git("switch", "-q", "-C", text, "main")
        recipe.write_text(f"# {MARK}\n{text}\n")
        own.write_text(f"{text}\n")
        picture.write_bytes(b"\0" + text.encode())
        repository.commit(state)
    repository.git("merge", "--no-edit", "ours", code=1)
    owned = {f"recipes/demo/cpu/{path.name}" for path in (own, picture)}
    assert repository.unmerged() == {LOCK, *owned}, "a file of one's own is in conflict"
    assert recipe.read_text() == f"# {MARK}\ntheirs\n"
    for path in repository.folder.glob("locks/demo/*/requirements.txt"):
        assert "<<<<<<<" not in path.read_text()


@pytest.mark.slow
def test_names_of_files_are_no_commands(repository: Repository) -> None:
    folder = repository.folder / "recipes" / "$(touch pwned)" / "`touch pwned`'\"; touch pwned"
    folder.mkdir(parents=True)
    for text in ("base", "ours", "theirs"):
        if text != "base":
            repository.git("switch", "-q", "-C", text, "main")
        (folder / "$(touch pwned) Dockerfile").write_text(f"# {MARK}\n$(touch pwned) {text}\n")
        repository.commit(BASE)
    repository.git("merge", "--no-edit", "ours")
    assert not (repository.folder / "pwned").exists()
    assert (folder / "$(touch pwned) Dockerfile").read_text() == f"# {MARK}\n$(touch pwned) theirs\n"


@pytest.mark.slow
def test_a_lost_program_stops_a_merge_and_no_diff(repository: Repository) -> None:
    repository.branches(BASE, bump("numpy", "2.2")(BASE), bump("tqdm", "4.2")(BASE))
    repository.git("config", "merge.envspec.driver", "/nowhere/envspec git-merge %O %A %B %P")
    repository.git("config", "diff.envspec.textconv", 'f() { /nowhere/envspec "$1" 2>/dev/null || cat "$1"; }; f')
    assert '+version = "2.2"' in repository.git("diff", "HEAD~1", "HEAD", "--", LOCK)
    repository.git("merge", "--no-edit", "topic", code=1)
    assert LOCK in repository.unmerged()


@pytest.mark.slow
@pytest.mark.parametrize("told_by", ["check", "lock"])
@pytest.mark.parametrize("how", ["merge", "rebase", "cherry-pick", "revert"])
def test_recipes_follow_whatever_git_left_of_them(repository: Repository, how: str, told_by: str) -> None:
    """One branch upgrades, another bumps and drops a target: git asks no driver about a file that one side deleted."""
    dropped = bump("tqdm", "4.2")(BASE).without_target("cu128")
    upgrade = bump("numpy", "2.2")
    commits = {"main": BASE, "topic": upgrade(BASE), "ours": dropped}
    if how == "revert":
        commits = {"main": dropped, "more": BASE, "ours": upgrade(BASE)}
    for name, state in commits.items():
        if name != "main":
            repository.git("switch", "-q", "-C", name, *(["main"] if how != "revert" else []))
        repository.write(state)
        exported(repository)
        repository.commit()
    command = {"rebase": ["rebase", "topic"], "revert": ["revert", "--no-edit", "HEAD~1"]}
    told = repository.git(*command.get(how, [how, "topic"]), code=1)
    assert "modify/delete" in told and LOCK not in repository.unmerged()
    assert not [path for path in repository.folder.rglob("*.txt") if "<<<<<<<" in path.read_text()]
    follow_the_hints(repository, told_by)
    assert repository.unmerged() == set()
    repository.git(*(["commit", "-q", "--no-edit"] if how == "merge" else [how, "--continue"]))
    assert repository.git("status", "--porcelain") == ""
    checked = repository.envspec("check")
    assert checked.stdout.startswith("specs/demo.toml: fresh") and checked.stderr == "", "nothing stays red"
    expected = upgrade(dropped)
    assert as_solved(load(repository.lock_path)) == as_solved(expected.lock())


def follow_the_hints(repository: Repository, first: str) -> None:
    """Run `check` or `lock`, and what the last line of each says, until one says nothing more."""
    ran = repository.envspec(first, *([SPEC, "--offline"] if first == "lock" else []))
    for _ in range(4):
        *_, last = ran.stderr.splitlines() or [""]
        commands = (
            last.rpartition("hint: ")[2].rpartition("the new lock: ")[2].split(" && ") if "hint: " in last else []
        )
        if not commands:
            return
        for command in commands:
            program, *words = shlex.split(command)
            ran = repository.envspec(*words) if program == "envspec" else repository.run(program, *words)
            assert ran.returncode == 0, f"{command}: {ran.stderr}"
    raise AssertionError(f"still hints: {ran.stderr}")


def exported(repository: Repository) -> None:
    assert repository.envspec("lock", "--offline", SPEC).returncode == 0
    assert repository.envspec("export", SPEC, "--format", "all", "-o", "recipes/demo").returncode == 0


@pytest.mark.slow
def test_what_is_rendered_is_merged_by_lines_where_they_merge(repository: Repository) -> None:
    repository.branches(BASE, bump("numpy", "2.2")(BASE), bump("tqdm", "4.2")(BASE))
    repository.git("merge", "--no-edit", "topic")
    assert repository.git("status", "--porcelain") == ""
    assert repository.envspec("check").stdout.startswith("specs/demo.toml: fresh")
