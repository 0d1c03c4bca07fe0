"""Locks in git: a merge, a text for its diffs, and the sides that git keeps of a conflict."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from envspec.app import inputs
from envspec.app.evidence import FOLDER as EVIDENCE
from envspec.app.outputs import shown_path
from envspec.app.sign import ALLOWED_SIGNERS
from envspec.base.errors import EnvspecError, LockError, StorageError
from envspec.base.plain_files import read_plain
from envspec.base.texts import printable
from envspec.lock.model import Lock
from envspec.lock.read import LockConflict, LockLayout, load_text, loads, read_for_display, text_of
from envspec.lock.write import dumps
from envspec.review.diff.revision import sides_of_conflict
from envspec.review.git import setup
from envspec.review.git.merge import Merged, by_line, merge
from envspec.review.git.program import git_output, work_tree
from envspec.review.git.textconv import readable
from envspec.spec.document import project_root, read_bytes
from envspec.spec.model import Spec


def merge_lock(base: Path, ours: Path, theirs: Path) -> tuple[str, ...]:
    """Merge a lock into OURS: by lines as git does, or by package where that leaves a conflict or no lock, and where a
    side has other targets: the lines of a new target lack the other side's changes of all targets. Return the
    obstacles; with any, OURS gets conflict markers. Raises StorageError, ToolError."""
    text, conflicts = by_line(base, ours, theirs, Path.cwd())
    problems: tuple[str, ...] = ()
    clean = not conflicts and _is_lock(text)
    if not clean or len({_targets_in(path) for path in (base, ours, theirs)}) > 1:
        try:
            before, mine, other = map(load_text, (base, ours, theirs))
            # git gives an empty file where the branches have no common lock
            result = merge(_read(before, "the common ancestor") if before.strip() else None,
                           _read(mine, "one side"), _read(other, "the other side"))  # fmt: skip
            problems = () if clean else tuple(map(str, result.conflicts))
            text = text if result.conflicts else dumps(result.lock)
        except LockError as error:
            problems = () if clean else (f"a lock can't be read: {error.message}",)
        if problems and not conflicts:
            sides = [read_plain(path).decode("utf-8", "surrogateescape") for path in (ours, theirs)]
            text = f"<<<<<<< one side\n{sides[0]}=======\n{sides[1]}>>>>>>> the other side\n"
    try:
        ours.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")
    except OSError as error:
        raise StorageError(f"the merged lock can't be written: {error.strerror}") from None
    return problems


def merge_of_conflict(path: Path, conflict: LockConflict) -> Merged:
    """Merge by package the two sides of a lock that git left in conflict. Raises `conflict`, with another hint, where
    git doesn't keep both, and LockError for a side that can't be used."""
    try:
        sides = sides_of_conflict(path)
    except EnvspecError:
        sides = None  # not git's, or no git
    if sides is None:
        conflict.hint = (
            f"git doesn't keep the sides any more: bring the conflict back (git checkout -m -- {path}), or take a"
            f" commit's lock (git checkout COMMIT -- {path}), then run `envspec lock`"
        )
        raise conflict
    base, ours, theirs = (side and text_of(side, path) for side in sides)
    return merge(
        _read(base, f"{path} (the common ancestor)") if base else None,
        _read(ours or "", f"{path} (one side)"),
        _read(theirs or "", f"{path} (the other side)"),
    )


def spec_of(folder: PurePosixPath) -> str:
    """Find the spec of a lock's folder: in specs/ beside locks/, by its file's name or the one that it gives."""
    usual = Path(folder.parent.parent, "specs", f"{folder.name}.toml")
    named = re.compile(rf"^name *= *[\"']{re.escape(folder.name)}[\"']", re.MULTILINE)
    given = (candidate for candidate in sorted(usual.parent.glob("*.toml")) if named.search(_text_of(candidate)))
    return printable(str(usual if usual.is_file() else next(given, usual)))


def _text_of(path: Path) -> str:
    """Read a file that may be a spec. What can't be one, such as a link out of the repository or a device, has no
    text."""
    try:
        return read_bytes(str(path)).decode("utf-8", "replace")
    except EnvspecError:
        return ""


def _targets_in(path: Path) -> frozenset[bytes]:
    return frozenset(line for line in read_plain(path).splitlines() if line.startswith(b"[targets."))


def _read(text: str, name: str) -> Lock:
    try:
        return loads(text, name)
    except LockLayout as error:
        return error.lock


def _is_lock(text: str) -> bool:
    try:
        read_for_display(text, "")
    except LockError:
        return False
    return True


def text_for_git(file: Path) -> str:
    """Give a lock in short lines, one per package; a file that isn't a lock this envspec can read as it is."""
    content = read_plain(file)
    try:
        return readable(loads(content.decode(), str(file)))
    except (LockError, UnicodeDecodeError):
        return content.decode(errors="replace")


def set_up(program: Sequence[str] | None, *, for_user: bool) -> Path:
    """Have git show and merge locks by a program: in the repository around the current folder, or in all of a user's.
    None takes that out again. Gives the file of attributes. Raises InputError, ToolError, StorageError."""
    here = Path.cwd()
    scope = setup.user(here, os.environ) if for_user else setup.repository(here)
    if program is None:
        setup.undo(scope)
    else:
        setup.install(scope, program)
    return shown_path(scope.attributes)


def unreviewed_locks(base: str, specs: Collection[str], reviewed: Collection[str]) -> Iterator[tuple[str, str]]:
    """List a repository's locks that differ in HEAD from a commit and are shown by no review of a spec: their paths
    from its top, and what happened to each. A lock that was removed with its spec counts, and so does a lock that stays
    without its spec: pip goes on reading it.

    `specs` are those of this job, `reviewed` the locks that it has shown; a lock whose spec is another's job is left to
    that. Raises ToolError.
    """
    top = work_tree(Path.cwd()) or Path.cwd()
    shown, own = ({os.path.relpath(place, top) for place in paths} for paths in (reviewed, specs))
    commit = _commit(base, top)
    was = set(git_output(["ls-tree", "-r", "-z", "--name-only", commit], top).split("\0"))
    reported: set[str] = set()
    for path in _changed_files(commit, top, ":(glob)**/locks/*/**"):
        parts = path.split("/")
        at = max(at for at in range(len(parts) - 2) if parts[at] == "locks")
        lock = "/".join([*parts[: at + 2], "envspec.lock"])
        other_specs = {"/".join([*parts[:at], *folder, f"{parts[at + 1]}.toml"]) for folder in (("specs",), ())} - own
        # one that moved here along with the change is read by no other job
        other_specs = {other_spec for other_spec in other_specs if other_spec in was or lock not in was}
        if not os.path.lexists(top / lock):
            what = "was removed" if path == lock else ""
        elif lock in shown or any(os.path.lexists(top / other_spec) for other_spec in other_specs):
            what = ""
        else:
            what = "changed, itself or a file beside it, and no review of a spec shows it"
        if what and lock not in reported:
            reported.add(lock)
            yield lock, what


def changed_places(base: str, specs: Collection[str]) -> Iterator[tuple[str, int]]:
    """List the files and folders that specs have envspec read beside their locks and that HEAD changed since a commit:
    paths from the repository's top, each with the number of changed files. A spec that can't be read counts alone:
    `check` says why. Raises ToolError.
    """
    top = work_tree(Path.cwd()) or Path.cwd()
    places = {top / ALLOWED_SIGNERS, *map(Path, specs)}
    for path in specs:
        with suppress(EnvspecError):
            places |= set(_places_of(inputs.read_edit(path, read_bytes(path).decode("utf-8", "replace"))))
    changed = _changed_files(_commit(base, top), top)
    for place in sorted({os.path.relpath(file, top) for file in places}):
        if count := sum(f"{path}/".startswith(f"{place}/") for path in changed):
            yield place, count


def _commit(revision: str, top: Path) -> str:
    return git_output(["rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}"], top)


def _changed_files(commit: str, top: Path, *paths: str) -> tuple[str, ...]:
    """List the files, of some paths, that differ in HEAD from a commit."""
    # two trees: of the working tree git asks filters, which a repository's configuration names
    compare = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", commit, "HEAD", "--", *paths]
    return tuple(filter(None, git_output(compare, top).split("\0")))


def _places_of(spec: Spec) -> Iterator[Path]:
    """Give the files and folders of a repository that a spec has envspec read beside its lock."""
    recipes = inputs.recipes_of(spec, None)
    root, folder = project_root(spec.path), Path(spec.path).parent
    yield from (recipes, recipes.with_name("_shared"), root / ".devcontainer", root / EVIDENCE)
    if spec.asked_project is not None:
        yield folder / spec.asked_project.path / "pyproject.toml"
    if spec.base is not None and spec.base.kind == "sif":
        yield folder / spec.base.place
    yield from (folder / place for _, place in (*spec.pip.indexes.items(), *spec.flat_places) if place.startswith("."))
