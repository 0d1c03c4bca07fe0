"""What stands committed beside the lock: files that need no envspec to use, a pure function of the lock."""

from __future__ import annotations

from envspec.lock.model import Lock
from envspec.lock.requirements import MARK, requirements_txt

RENDERED_NAMES = ("requirements.txt",)
"""The names, in a target's folder, of every file that envspec renders."""


def rendered_files(lock: Lock) -> dict[str, str]:
    """Text by path, relative to the lock's folder, with `/`. A target without pip packages has no requirements.txt."""
    files: dict[str, str] = {}
    for target in lock:
        if any(pin.kind == "pip" for pin in target.pins):
            files[f"{target.name}/requirements.txt"] = requirements_txt(lock, target)
    return files


def is_rendered(text: str) -> bool:
    """Whether a file's text is envspec's to replace and to remove, and not the user's own."""
    return text.startswith(MARK)
