"""Progress of an installation on stderr: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envspec.base.texts import printable
from envspec.cli.console import say, warn
from envspec.cli.progress import bars

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn

    from envspec.install.model import InstallOutcome, InstallProgress


class _OnTerminal:
    """Progress drawn by rich: one line, that of the phase."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._text = ""
        self._total: int | None = None
        self._task = bars.add_task("reading the installed packages", total=None)

    def phase(self, text: str, total: int | None = None) -> None:
        self._text, self._total = text, total
        self._bars.reset(self._task, description=text, total=total)

    def advance(self, done: int | None = None, detail: str = "") -> None:
        counted = "" if done is None or self._total is None else f" {done}/{self._total}"
        text = f"{self._text}{counted}{': ' if detail else ''}{printable(detail)}"
        self._bars.update(self._task, description=text[:100], completed=done)


@contextmanager
def shown(*, quiet: bool) -> Iterator[InstallProgress]:
    """Show progress on stderr, if it's a terminal."""
    from envspec.install.model import SilentInstall

    with bars(_columns, quiet=quiet) as drawn:
        yield SilentInstall() if drawn is None else _OnTerminal(drawn)


def tell_outcome(outcome: InstallOutcome) -> None:
    """Print the notes and warnings of an installation."""
    for note in outcome.notes:
        say(f"note: {printable(note)}", style="cyan")
    for warning in outcome.warnings:
        warn(f"{printable(warning)}")


def _columns() -> tuple[ProgressColumn, ...]:
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

    description = TextColumn("{task.description}", markup=False)
    return SpinnerColumn(), description, BarColumn(bar_width=20), TimeElapsedColumn()
