"""The observer of the command line: messages on stderr, and bars where that is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from envspec.app.observer import Observer
from envspec.cli.console import say

if TYPE_CHECKING:
    from envspec.image.build import ImageProgress
    from envspec.resolve.progress import ResolutionProgress


class Terminal(Observer):
    """Shows all that is told; what draws is loaded when something is drawn."""

    def say(self, text: str, *, style: str | None = None) -> None:
        say(text, style=style)

    def resolution(self) -> AbstractContextManager[ResolutionProgress]:
        from envspec.cli.progress import resolution

        return resolution()

    def image(self, *, quiet: bool) -> AbstractContextManager[ImageProgress]:
        from envspec.cli.image.progress import image_progress

        return image_progress(quiet=quiet)

    def counting(self, description: str) -> AbstractContextManager[Callable[[int, int], None]]:
        from envspec.cli.progress import counting

        return counting(description)

    @contextmanager
    def fetching(self, total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
        from envspec.cli.progress import bars, of_downloads

        with bars(of_downloads, quiet=quiet) as drawn:
            if drawn is None:
                yield lambda count: None
            else:
                task = drawn.add_task("", total=total or None)
                yield lambda count: drawn.update(task, advance=count)
