"""Progress of `envspec smoke` on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from envspec.cli.console import drawing, drawn_alone, json_is_asked
from envspec.prove.smoke.report.words import clean

if TYPE_CHECKING:
    from rich.live import Live

    from envspec.prove.smoke.report.result import Run

_COLOURS = {"pass": "green", "fail": "red", "error": "red", "skip": "yellow"}


class RunDisplay(Protocol):
    """The callbacks for the progress of runs, each by its index."""

    def update(self, index: int, text: str) -> None:
        """Show what the run does now."""

    def ended(self, index: int, run: Run) -> None:
        """Show that the run has ended."""


class NoDisplay:
    def update(self, index: int, text: str) -> None:
        """Say nothing."""

    def ended(self, index: int, run: Run) -> None:
        """Say nothing."""


class LiveTable:
    """A table on the terminal, one row per run: those in progress and the last that ended, with a count below."""

    def __init__(self, live: Live, titles: Sequence[str]) -> None:
        self._live, self._titles = live, titles
        self._texts = ["waiting"] * len(titles)
        self._ended: dict[int, Run] = {}
        self._draw()

    def update(self, index: int, text: str) -> None:
        if self._texts[index] != text:
            self._texts[index] = text
            self._draw()

    def ended(self, index: int, run: Run) -> None:
        self._ended[index] = run
        self._draw()

    def _draw(self) -> None:
        from rich.table import Table as Drawn
        from rich.text import Text

        table = Drawn(box=None, show_header=False, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="ellipsis", no_wrap=True)
        going = [index for index, text in enumerate(self._texts) if index not in self._ended]
        room = max(4, self._live.console.size.height - 4)
        shown = sorted(
            [*going[:room], *list(self._ended)[-max(0, room - len(going)) :]] if room > len(going) else going[:room]
        )
        for index in shown:
            run = self._ended.get(index)
            word = Text(run.status, _COLOURS[run.status]) if run else Text("…")
            text = run.headline if run else self._texts[index]
            table.add_row(word, Text(self._titles[index]), Text(clean(text)))
        table.add_row(Text(""), Text(f"{len(self._ended)} of {len(self._titles)}"), Text(""))
        self._live.update(table)


@contextmanager
def progress(titles: Sequence[str]) -> Iterator[RunDisplay]:
    """Show a table on stderr until the end of the block, if stderr is a terminal."""
    if json_is_asked() or not sys.stderr.isatty():
        yield NoDisplay()
        return
    from rich.live import Live

    live = Live(console=drawing(), transient=True, refresh_per_second=8)
    with drawn_alone(live):
        yield LiveTable(live, titles)
