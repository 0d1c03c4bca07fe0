"""A lock at a git revision, as git itself reads it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from envspec.base.errors import InputError, Place, ToolError
from envspec.review.git.program import git_error, run_git, work_tree

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_RELATIVE = re.compile(r"[~^]")


def text_at(path: Path, revision: str, env: Mapping[str, str] | None = None) -> str | None:
    """Read a file's text at a revision (`HEAD`, `origin/main`, a commit); None where that revision doesn't have the
    file.

    The work tree that the file's folder is in decides which repository git reads, so linked work trees and files
    elsewhere work. Nothing in the work tree changes, and git fetches nothing.

    Raises InputError for what isn't a single revision, for one that a shallow clone doesn't have (with what to fetch),
    and outside a work tree; ToolError without git, when git fails, and for a file that a partial clone lacks (with
    what fetches it).
    """
    if not revision or revision.startswith("-") or not revision.isprintable():
        raise InputError(f"{revision!r} isn't a git revision", hint="give a branch, a tag or a commit, such as HEAD~1")
    git, relative = _locate(path, env)
    commit = _commit(git, revision)
    name = f"{commit}:{relative}"
    if git("cat-file", "-e", name).returncode:
        # a file that isn't there and one that can't be had fail alike; listing its folder tells them apart
        listed = git("ls-tree", "--name-only", commit, "--", relative)
        if listed.returncode == 0 and not listed.stdout.strip():
            return None
        if listed.returncode == 0:
            raise ToolError(
                f"git can't read {relative} at {revision}: this clone lacks its content, and envspec fetches nothing",
                hint=f"in a partial clone, fetch it first: git show {quote(f'{revision}:./{path.name}')}",
            )
        raise ToolError(f"git can't read {relative} at {revision}: {git_error(listed)}", hint=_fetch(git, revision))
    # `cat-file`, because `show` would run a configured textconv program
    shown = git("cat-file", "blob", name)
    if shown.returncode:
        raise ToolError(f"git can't read {relative} at {revision}: {git_error(shown)}", hint=_fetch(git, revision))
    try:
        return shown.stdout.decode()
    except UnicodeDecodeError:
        raise InputError("this is not UTF-8", place=Place(f"{revision}:{relative}")) from None


def sides_of_conflict(path: Path) -> tuple[bytes | None, bytes, bytes] | None:
    """Read the common ancestor and the two sides of a file that git is merging, as it keeps them until the file is
    added: in a merge, a rebase, a cherry-pick or a revert alike. None where it doesn't keep both sides.

    Raises InputError outside a work tree, ToolError without git.
    """
    git, relative = _locate(path, None)
    base, ours, theirs = (git("cat-file", "blob", f":{stage}:{relative}") for stage in (1, 2, 3))
    if ours.returncode or theirs.returncode:
        return None
    return None if base.returncode else base.stdout, ours.stdout, theirs.stdout


def merged_revisions(path: Path) -> tuple[str, tuple[str, str]] | None:
    """Return the common ancestor and the two sides of the merge that git is in, or that the last commit is. None where
    it isn't one. Raises InputError outside a work tree, ToolError without git."""
    git, _ = _locate(path, None)
    for sides in (("HEAD", "MERGE_HEAD"), ("HEAD^1", "HEAD^2")):
        base = git("merge-base", *sides)
        if base.returncode == 0:
            return base.stdout.decode().strip(), sides
    return None


def _locate(path: Path, env: Mapping[str, str] | None) -> tuple[_Git, str]:
    """Find the work tree of a file, which may not be there, and its path in it. Raises InputError."""
    folder = path.absolute().parent
    while not folder.is_dir():
        folder = folder.parent
    top = work_tree(folder)
    if top is None:
        raise InputError(f"{folder} isn't in a git repository", hint="name two files to compare: envspec diff OLD NEW")
    return _Git(top, env), (folder.resolve() / path.absolute().relative_to(folder)).relative_to(top).as_posix()


class _Git:
    """git, called in one work tree."""

    def __init__(self, top: Path, env: Mapping[str, str] | None) -> None:
        self.top = top
        self.env = env

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return run_git(["--no-replace-objects", *arguments], self.top, self.env)


def _commit(git: _Git, revision: str) -> str:
    answer = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    commit = answer.stdout.decode(errors="replace").strip()
    # `^HEAD` passes for one, too: everything but what HEAD has
    if answer.returncode == 0 and _COMMIT.fullmatch(commit):
        return commit
    where = git("rev-parse", "--is-inside-work-tree", "--is-shallow-repository")
    if where.returncode:
        raise ToolError(f"git can't read the repository of {git.top}: {git_error(where)}")
    if revision == "HEAD":
        raise InputError("there is no commit to compare with yet", hint="name two files: envspec diff OLD NEW")
    raise InputError(f"{revision!r} doesn't name a commit of this repository", hint=_fetch(git, revision))


def _fetch(git: _Git, revision: str) -> str:
    """Return the command that would fetch a missing revision."""
    shallow = git("rev-parse", "--is-shallow-repository").stdout.decode().strip() == "true"
    if _RELATIVE.search(revision) or revision.startswith("HEAD"):
        return "this clone is shallow: git fetch --unshallow" if shallow else "`git log` lists the commits"
    remote, slash, branch = revision.partition("/")
    remotes = git("remote").stdout.decode().split()
    source, ref = (remote, branch) if slash and remote in remotes else ((remotes or ["origin"])[0], revision)
    source, ref = quote(source), quote(ref)
    depth = "--depth=1 " if shallow else ""
    # a shallow clone often knows no branch but its own, so the fetched one needs a place
    target = f"{ref}:refs/remotes/{source}/{ref}" if slash and remote in remotes else ref
    note = "this clone is shallow: " if shallow else ""
    after = "" if slash and remote in remotes else "; then compare with FETCH_HEAD"
    return f"{note}git fetch {depth}{source} {target}{after}"
