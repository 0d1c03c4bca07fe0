"""Modules imported while uv works: with warm caches, uv takes no longer than Python does to import what comes after
it."""

from __future__ import annotations

from importlib import import_module

AHEAD = (
    "envspec.workflow.accept",
    "envspec.workflow.builds",
    "envspec.workflow.images",
    "envspec.workflow.inspection",
    "envspec.workflow.publishers",
    "envspec.lock.write",
    "envspec.lock.reading.v2",
)
"""Modules of the steps that follow a solution, which every lock takes."""


def import_ahead() -> None:
    """Import them."""
    for name in AHEAD:
        import_module(name)
