"""Drafts of specs from other tools' files."""

from pathlib import Path

from envspec.draft.claims import Agreement, settle
from envspec.draft.model import Draft
from envspec.draft.repository import read_draft


def draft(name: str, text: str) -> Draft:
    """Write a file into the current folder, and begin with it."""
    Path(name).write_text(text, encoding="utf-8")
    return read_draft(Path(name))


def settled(found: Draft) -> Agreement:
    """What its bounds on Python and CUDA allow together."""
    return settle(found.claims)


def notes(found: Draft) -> str:
    """What is told of it, a line each."""
    return "\n".join(map(str, (*found.notes, *settled(found).notes)))
