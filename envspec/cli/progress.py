"""Progress on stderr: of a resolution one line a solve that runs and one bar for metadata, else one bar. Nothing when
stderr is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn

    from envspec.resolve.progress import SilentResolution


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
def bars(columns: Callable[[], tuple[ProgressColumn, ...]], *, quiet: bool = False) -> Iterator[Bars | None]:
    """Bars on stderr, taken off the screen at the end; None where they are unwanted or stderr is no terminal.

    `columns` is only called for bars that are drawn: importing rich takes time.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    from envspec.cli.console import drawing

    with Progress(*columns(), console=drawing(), transient=True) as drawn:
        yield drawn


@contextmanager
def resolution(*, quiet: bool = False) -> Iterator[OnTerminal | SilentResolution]:
    """Progress for one resolution."""
    with bars(_of_resolution, quiet=quiet) as drawn:
        if drawn is None:
            from envspec.resolve.progress import SilentResolution

            yield SilentResolution()
        else:
            yield OnTerminal(drawn)


def _of_resolution() -> tuple[ProgressColumn, ...]:
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

    return (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )


@contextmanager
def counting(description: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is told how many of all are done."""
    with bars(_of_counting) as drawn:
        if drawn is None:
            yield lambda done, total: None
        else:
            task = drawn.add_task(description, total=None)
            yield lambda done, total: drawn.update(task, completed=done, total=total)


def _of_counting() -> tuple[ProgressColumn, ...]:
    from rich.progress import Progress

    return tuple(column for column in Progress.get_default_columns() if not isinstance(column, str))


class ReadBar:
    """A bar of bytes that are read; it shows itself from `large` bytes on."""

    def __init__(self, drawn: Bars, large: int) -> None:
        self._drawn, self._large = drawn, large
        self._task = drawn.add_task("reading", visible=False, total=None)

    def start(self, total: int) -> None:
        self._drawn.update(self._task, total=total, visible=total > self._large)

    def advance(self, size: int) -> None:
        self._drawn.advance(self._task, size)


@contextmanager
def reading(large: int, *, quiet: bool = False) -> Iterator[ReadBar | None]:
    """A bar for reading more than `large` bytes."""
    with bars(_of_reading, quiet=quiet) as drawn:
        yield ReadBar(drawn, large) if drawn else None


def _of_reading() -> tuple[ProgressColumn, ...]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

    return TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
