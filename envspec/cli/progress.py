"""Progress on stderr, if it's a terminal: a line per running solve and a bar for metadata, or one bar."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from envspec.cli.console import json_is_asked, say

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn

    from envspec.resolve.progress import SilentResolution


@contextmanager
def _every(seconds: float, look: Callable[[], None]) -> Iterator[None]:
    """Call `look` now and then, as long as the block lasts."""
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(seconds):
            look()

    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


_LONG = 2
"""Seconds after which a step is drawn: dozens of files are read at a time, most of them in a moment."""


class OnTerminal:
    """Progress of a resolution, drawn by rich."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._reading: int | None = None

    @contextmanager
    def telling(self) -> Iterator[OnTerminal]:
        """Draw what takes long as long as the block lasts."""
        with _every(1, self._show_long):
            yield self

    def _show_long(self) -> None:
        for task in self._bars.tasks:
            if not task.visible and (task.elapsed or 0) >= _LONG:
                self._bars.update(task.id, visible=True)

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        return self._step(f"resolving {', '.join(targets)}", visible=True)

    def doing(self, what: str) -> AbstractContextManager[None]:
        return self._step(what, visible=False)

    @contextmanager
    def _step(self, what: str, *, visible: bool) -> Iterator[None]:
        from rich.markup import escape

        task = self._bars.add_task(escape(what), total=None, visible=visible)
        try:
            yield
        finally:
            self._bars.remove_task(task)

    def reading(self, done: int, total: int) -> None:
        if self._reading is None:
            self._reading = self._bars.add_task("reading metadata", total=total)
        self._bars.update(self._reading, completed=done, total=total)  # type: ignore[arg-type]


class InLines:
    """Progress of a resolution where nothing can be drawn: a line now and then, from the first moment to the last."""

    def __init__(self, every: float = 10) -> None:
        self._every = every
        self._read = (0, 0)
        self._steps: dict[object, tuple[str, float]] = {}
        self._started = time.monotonic()

    @contextmanager
    def telling(self) -> Iterator[InLines]:
        """Write the lines as long as the block lasts."""
        with _every(self._every, self._tell):
            yield self

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        return self.doing(f"resolving {', '.join(targets)}")

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        key = object()
        self._steps[key] = (what, time.monotonic())
        try:
            yield
        finally:
            del self._steps[key]

    def _tell(self) -> None:
        now = time.monotonic()
        # what has lasted longest holds up the rest
        steps = [(what, since) for what, since in list(self._steps.values()) if now - since >= self._every / 2]
        told = "; ".join(f"{what} ({now - since:.0f} s)" for what, since in steps[:3]) or "resolving"
        more = f"; and {len(steps) - 3} more" if steps[3:] else ""
        done, total = self._read
        read = f"; METADATA of {done} of {total} packages read" if total else ""
        say(f"still at work after {now - self._started:.0f} s: {told}{more}{read}")

    def reading(self, done: int, total: int) -> None:
        self._read = (done, total)


@contextmanager
def bars(columns: Callable[[], tuple[ProgressColumn, ...]], *, quiet: bool = False) -> Iterator[Bars | None]:
    """Show bars on stderr until the end of the block; None where they are unwanted or stderr isn't a terminal.

    Calls `columns` only for bars that are drawn: importing rich takes time.
    """
    if quiet or json_is_asked() or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    from envspec.cli.console import drawing, drawn_alone

    drawn = Progress(*columns(), console=drawing(), transient=True)
    with drawn_alone(drawn):
        yield drawn


@contextmanager
def resolution() -> Iterator[OnTerminal | InLines | SilentResolution]:
    """Show progress of one resolution: drawn on a terminal, else in lines if it takes long; none with --json."""
    with bars(_of_resolution) as drawn:
        if drawn is not None:
            with OnTerminal(drawn).telling() as on_terminal:
                yield on_terminal
        elif json_is_asked():
            from envspec.resolve.progress import SilentResolution

            yield SilentResolution()
        else:
            with InLines().telling() as lines:
                yield lines


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


def of_downloads() -> tuple[ProgressColumn, ...]:
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn

    return TextColumn("fetching"), BarColumn(bar_width=30), DownloadColumn(), TransferSpeedColumn()
