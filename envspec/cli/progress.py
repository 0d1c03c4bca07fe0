"""Progress on stderr, if it's a terminal: a line per running solve and a bar for metadata, or one bar."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from envspec.cli.console import say

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn

    from envspec.resolve.progress import SilentResolution


class OnTerminal:
    """Progress of a resolution, drawn by rich."""

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


class InLines:
    """Progress of a resolution where nothing can be drawn: a line now and then, once it takes long."""

    def __init__(self, every: float = 20) -> None:
        self._every = every
        self._read = (0, 0)

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        return self._solving(", ".join(targets))

    @contextmanager
    def _solving(self, targets: str) -> Iterator[None]:
        ended = threading.Event()
        thread = threading.Thread(target=self._tell, args=(targets, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _tell(self, targets: str, ended: threading.Event) -> None:
        started = time.monotonic()
        while not ended.wait(self._every):
            done, total = self._read
            read = f", METADATA of {done} of {total} packages read" if total else ""
            say(f"still resolving {targets}: {time.monotonic() - started:.0f} s{read}")

    def reading(self, done: int, total: int) -> None:
        self._read = (done, total)


@contextmanager
def bars(columns: Callable[[], tuple[ProgressColumn, ...]], *, quiet: bool = False) -> Iterator[Bars | None]:
    """Show bars on stderr until the end of the block; None where they are unwanted or stderr isn't a terminal.

    Calls `columns` only for bars that are drawn: importing rich takes time.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    from envspec.cli.console import drawing

    with Progress(*columns(), console=drawing(), transient=True) as drawn:
        yield drawn


@contextmanager
def resolution(*, quiet: bool = False) -> Iterator[OnTerminal | InLines | SilentResolution]:
    """Show progress of one resolution: drawn on a terminal, else in lines if it takes long."""
    with bars(_of_resolution, quiet=quiet) as drawn:
        if drawn is None:
            from envspec.resolve.progress import SilentResolution

            yield SilentResolution() if quiet else InLines()
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
    """Show a bar; gives the callback that takes the done and the total count."""
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
    """A bar of bytes read; it appears from `large` bytes on."""

    def __init__(self, drawn: Bars, large: int) -> None:
        self._drawn, self._large = drawn, large
        self._task = drawn.add_task("reading", visible=False, total=None)

    def start(self, total: int) -> None:
        self._drawn.update(self._task, total=total, visible=total > self._large)

    def advance(self, size: int) -> None:
        self._drawn.advance(self._task, size)


@contextmanager
def reading(large: int, *, quiet: bool = False) -> Iterator[ReadBar | None]:
    """Show a bar while reading more than `large` bytes."""
    with bars(_of_reading, quiet=quiet) as drawn:
        yield ReadBar(drawn, large) if drawn else None


def _of_reading() -> tuple[ProgressColumn, ...]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

    return TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
