"""Progress of a resolution on stderr: one line a solve that runs, one bar for metadata. Nothing when stderr is
no terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from envspec.resolve.pip import Silent

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


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
        yield Silent()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield OnTerminal(bars)
