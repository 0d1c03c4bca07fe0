"""The text of a lock that couldn't be merged: git's conflict markers keep it from being read as a lock."""

from __future__ import annotations

from pathlib import Path

from envspec.review.git.program import git_output


def conflicted(base: Path, ours: Path, theirs: Path, folder: Path) -> str:
    """Return both sides' texts with conflict markers where they differ. Raises ToolError."""
    text, conflicts = by_line(base, ours, theirs, folder)
    if conflicts:
        return text
    # line by line there was no conflict: what was found by package must still be seen
    mine, other = (path.read_text(encoding="utf-8", errors="surrogateescape") for path in (ours, theirs))
    return f"<<<<<<< one side\n{mine}=======\n{other}>>>>>>> the other side\n"


def by_line(base: Path, ours: Path, theirs: Path, folder: Path) -> tuple[str, bool]:
    """Return git's own merge, and whether it has conflicts. Raises ToolError."""
    labels = ["-L", "one side", "-L", "base", "-L", "the other side"]
    sides = [str(path.absolute()) for path in (ours, base, theirs)]
    # its status is the number of conflicts, 127 at most
    text = git_output(["merge-file", "-p", *labels, *sides], folder, allowed=range(128)) + "\n"
    return text, "\n<<<<<<< one side\n" in f"\n{text}"
