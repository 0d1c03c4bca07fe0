"""A lock at a revision, from real git repositories: shallow ones, worktrees, and revisions that want to be options."""

import os
import subprocess
from pathlib import Path

import pytest

from envspec.base.errors import InputError, ToolError
from envspec.review.diff.revision import text_at

IDENTITY = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "protocol.file.allow=always", *arguments]
    env = {**os.environ, **IDENTITY}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three commits: without the lock, with its first text, with its second; and a branch at the first text."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "repository"
    (folder / "locks" / "x").mkdir(parents=True)
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    git(folder, "commit", "-q", "--allow-empty", "-m", "empty")
    for text in ("first", "second"):
        (folder / "locks" / "x" / "envspec.lock").write_text(text, encoding="utf-8")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", text)
    git(folder, "branch", "feature/one", "HEAD~1")
    git(folder, "tag", "v1", "HEAD~1")
    return folder


def lock(folder: Path) -> Path:
    return folder / "locks" / "x" / "envspec.lock"


@pytest.mark.parametrize(
    ("revision", "text"),
    [("HEAD", "second"), ("HEAD~1", "first"), ("feature/one", "first"), ("v1", "first"), ("main", "second"),
     ("HEAD~2", None), ("HEAD^{/first}", "first")],
)  # fmt: skip
def test_revisions(repository: Path, revision: str, text: str | None) -> None:
    assert text_at(lock(repository), revision) == text


def test_commits_by_hash(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD~1")
    assert text_at(lock(repository), commit) == text_at(lock(repository), commit[:8]) == "first"


@pytest.mark.parametrize(
    "revision",
    ["--output=stolen", "-p", "--upload-pack=touch stolen", "", "HEAD:locks", "HEAD..main", "none", "HEAD\n--all",
     "@{-1}", "HEAD^{tree}", "*", "$(touch stolen)", "\x00", ":/first --output=stolen", "^HEAD"],
)  # fmt: skip
def test_hostile_revisions(repository: Path, revision: str) -> None:
    before = sorted(repository.rglob("*"))
    with pytest.raises(InputError):
        text_at(lock(repository), revision)
    assert sorted(repository.rglob("*")) == before


def test_a_lock_that_is_gone_with_its_folder(repository: Path) -> None:
    lock(repository).unlink()
    lock(repository).parent.rmdir()
    assert text_at(lock(repository), "HEAD") == "second"


def test_worktrees(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"), "feature/one")
    assert text_at(lock(tmp_path / "tree"), "HEAD") == "first"
    assert text_at(lock(tmp_path / "tree"), "main") == "second"


def test_inside_a_hook_of_another_repository(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-q", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / "index"))
    assert text_at(lock(repository), "HEAD") == "second"


def test_from_anywhere(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert text_at(Path("repository/locks/x/envspec.lock"), "HEAD") == "second"
    monkeypatch.chdir(repository / "locks")
    assert text_at(Path("x/envspec.lock"), "HEAD~1") == "first"


def test_odd_names(repository: Path) -> None:
    for name in ("-x", "a b", "*.lock", "ü", ":(top)x"):
        odd = repository / name / "envspec.lock"
        odd.parent.mkdir()
        odd.write_text(name, encoding="utf-8")
        git(repository, "--literal-pathspecs", "add", "--", name)
    git(repository, "commit", "-q", "-m", "odd")
    for name in ("-x", "a b", "*.lock", "ü", ":(top)x"):
        assert text_at(repository / name / "envspec.lock", "HEAD") == name
        assert text_at(repository / name / "none.lock", "HEAD") is None


def test_no_program_of_the_repository_runs(repository: Path) -> None:
    """A textconv driver could be set up by whoever prepared the clone."""
    git(repository, "config", "diff.evil.textconv", "touch stolen; cat")
    (repository / ".gitattributes").write_text("*.lock diff=evil\n", encoding="utf-8")
    assert text_at(lock(repository), "HEAD") == "second"
    assert not list(repository.rglob("stolen"))


@pytest.fixture
def shallow(repository: Path, tmp_path: Path) -> Path:
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", "shallow")
    return tmp_path / "shallow"


def test_a_shallow_clone_gives_what_it_has(shallow: Path) -> None:
    assert text_at(lock(shallow), "HEAD") == "second"
    assert text_at(lock(shallow), "origin/main") == "second"


@pytest.mark.parametrize("revision", ["HEAD~1", "origin/feature/one", "v1", "feature/one"])
def test_a_shallow_clone_says_what_to_fetch(shallow: Path, revision: str) -> None:
    """And what it says works, as it stands."""
    with pytest.raises(InputError) as caught:
        text_at(lock(shallow), revision)
    hint = caught.value.hint or ""
    assert hint.startswith("this clone is shallow: git fetch ")
    command, _, then = hint.removeprefix("this clone is shallow: ").partition("; then compare with ")
    git(shallow, *command.split()[1:])
    assert text_at(lock(shallow), then or revision) == "first"


def test_a_clone_says_what_to_fetch(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", "--single-branch", f"file://{repository}", "clone")
    with pytest.raises(InputError) as caught:
        text_at(lock(tmp_path / "clone"), "origin/feature/one")
    hint = caught.value.hint or ""
    assert hint == "git fetch origin feature/one:refs/remotes/origin/feature/one"
    git(tmp_path / "clone", *hint.split()[1:])
    assert text_at(lock(tmp_path / "clone"), "origin/feature/one") == "first"


def test_hints_are_quoted_for_a_shell(shallow: Path) -> None:
    with pytest.raises(InputError) as caught:
        text_at(lock(shallow), "x;rm${IFS}y")
    assert "'x;rm${IFS}y'" in (caught.value.hint or "")


def test_a_partial_clone(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", f"file://{repository}", "partial")
    assert text_at(lock(tmp_path / "partial"), "HEAD") == "second"
    with pytest.raises(ToolError, match="this clone lacks its content") as caught:
        text_at(lock(tmp_path / "partial"), "HEAD~1")
    command = (caught.value.hint or "").partition(": ")[2]
    subprocess.run(["sh", "-c", command], cwd=lock(tmp_path / "partial").parent, capture_output=True, check=True)
    assert text_at(lock(tmp_path / "partial"), "HEAD~1") == "first"


def test_no_repository_no_commit_no_git(tmp_path: Path, repository: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with pytest.raises(InputError, match="isn't in a git repository"):
        text_at(outside / "envspec.lock", "HEAD")
    git(tmp_path, "init", "-q", str(outside))
    with pytest.raises(InputError, match="no commit to compare with yet"):
        text_at(outside / "envspec.lock", "HEAD")
    with pytest.raises(ToolError, match="git isn't installed") as caught:
        text_at(lock(repository), "HEAD", {"PATH": str(tmp_path)})
    assert caught.value.exit_code == 3


def test_a_damaged_repository(repository: Path) -> None:
    blob = git(repository, "rev-parse", "HEAD:locks/x/envspec.lock")
    path = repository / ".git" / "objects" / blob[:2] / blob[2:]
    path.unlink()
    with pytest.raises(ToolError, match=r"git can't read"):
        text_at(lock(repository), "HEAD")
