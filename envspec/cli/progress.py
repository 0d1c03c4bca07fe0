"""Progress on stderr: of a resolution one line a solve that runs and one bar for metadata, else one bar. Nothing when
stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from envspec.resolve.pip import Silent


class OnTerminal:
    """Progress drawn by rich."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._reading: int | None = None

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        return self._solving(targets)

    @contextmanager
    def _solving(self, targets: Sequence[str]) -> Iterator[None]:
        task = self._bars.add_task(f"resolving {', '.join(targets)}", total=None)
        try:
            yield
        finally:
            self._bars.remove_task(task)

    def reading(self, done: int, total: int) -> None:
        if self._reading is None:
            self._reading = self._bars.add_task("reading metadata", total=total)
        self._bars.update(self._reading, completed=done, total=total)  # type: ignore[arg-type]


@contextmanager
def resolution(*, quiet: bool = False) -> Iterator[OnTerminal | Silent]:
    """Progress for one resolution, taken off the screen at its end."""
    if quiet or not sys.stderr.isatty():
        from envspec.resolve.pip import Silent

        yield Silent()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from envspec.cli.console import drawing

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=drawing(), transient=True) as bars:
        yield OnTerminal(bars)


@contextmanager
def counting(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told how many of all are done, taken off the screen at its end."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.progress import Progress

    from envspec.cli.console import drawing

    with Progress(console=drawing(), transient=True) as bars:
        task = bars.add_task(description, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)
