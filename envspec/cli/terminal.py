"""The observer of the command line: messages on stderr, and bars where that is a terminal."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from envspec.app.observer import Observer
from envspec.cli.console import say

if TYPE_CHECKING:
    from envspec.base.progress import Progress


class Terminal(Observer):
    """Shows all that is told; what draws is loaded when something is drawn."""

    def say(self, text: str, *, style: str | None = None) -> None:
        say(text, style=style)

    def resolution(self) -> AbstractContextManager[Progress]:
        from envspec.cli.progress import resolution

        return resolution()

    def progress(self, text: str = "", total: int | None = None) -> AbstractContextManager[Progress]:
        from envspec.cli.progress import progress

        return progress(text, total)
