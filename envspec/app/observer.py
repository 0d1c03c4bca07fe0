"""The observer of `app`'s functions: their messages while they work, and their progress.

One observer of the process hears them. The command line's writes on stderr and draws bars (`envspec.cli.progress`);
without one, as in a notebook, nothing is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from envspec.base import finding
from envspec.base.finding import Finding
from envspec.base.progress import Progress

if TYPE_CHECKING:
    from envspec.prove.smoke.report.result import Run


class RunDisplay:
    """The display of smoke runs, each by its index; this one shows nothing."""

    def update(self, index: int, text: str) -> None:
        """Take what the run does now."""

    def end_run(self, index: int, run: Run) -> None:
        """Take the result of a run that has ended."""


class Observer:
    """An observer that shows nothing."""

    def say(self, text: str) -> None:
        """Take a line for people."""

    def report(self, findings: Iterable[Finding]) -> None:
        """Take findings."""

    def choose(self, question: str, answers: Mapping[str, str]) -> str | None:
        """Let the user choose one of the described answers; None without a user at a terminal."""
        return None

    def resolution(self) -> AbstractContextManager[Progress]:
        """Follow a resolution until the block ends."""
        return nullcontext(Progress())

    def progress(self, text: str = "", total: int | None = None) -> AbstractContextManager[Progress]:
        """Follow other long work until the block ends; with a text, its first phase begins."""
        return nullcontext(Progress())

    def runs(self, titles: Sequence[str]) -> AbstractContextManager[RunDisplay]:
        """Follow smoke runs, which have these titles, until the block ends."""
        return nullcontext(RunDisplay())


_observers = [Observer()]


def observe(observer: Observer) -> None:
    """Have an observer hear what follows in this process."""
    _observers[:] = [observer]


def observer() -> Observer:
    """Give the observer of this process."""
    return _observers[0]


def say(text: str) -> None:
    """Send the observer a line."""
    observer().say(text)


def report(findings: Iterable[Finding]) -> None:
    """Send the observer findings."""
    observer().report(findings)


def note(text: str) -> None:
    """Send the observer a note."""
    report([finding.note(text)])


def warn(text: str | Exception) -> None:
    """Send the observer a warning: the fault, and envspec's action all the same."""
    report([finding.warning(str(text))])


@contextmanager
def interruption_says(message: str) -> Iterator[None]:
    """Have an interruption say what is done already, or how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(message) from None
