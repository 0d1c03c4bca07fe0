"""What the functions of `app` tell while they work: messages, and how far they are.

One observer of the process hears them. The command line's writes on stderr and draws bars (`envspec.cli.terminal`);
without one, as in a notebook, nothing is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from envspec.base.progress import Progress


class Observer:
    """An observer that shows nothing."""

    def say(self, text: str, *, style: str | None = None) -> None:
        """Take a line for people; the word before its first colon has the style, a colour."""

    def choose(self, question: str, answers: Mapping[str, str]) -> str | None:
        """Let the user choose one of the described answers; None without a user at a terminal."""
        return None

    def resolution(self) -> AbstractContextManager[Progress]:
        """Follow a resolution until the block ends."""
        return nullcontext(Progress())

    def progress(self, text: str = "", total: int | None = None) -> AbstractContextManager[Progress]:
        """Follow other long work until the block ends; with a text, its first phase begins."""
        return nullcontext(Progress())


_observers = [Observer()]


def observe(observer: Observer) -> None:
    """Have an observer hear what follows in this process."""
    _observers[:] = [observer]


def observer() -> Observer:
    """Give the observer of this process."""
    return _observers[0]


def say(text: str, *, style: str | None = None) -> None:
    """Tell the observer a line."""
    observer().say(text, style=style)


def warn(text: str | Exception) -> None:
    """Tell the observer a warning: what is wrong, and what envspec does all the same."""
    say(f"warning: {text}", style="yellow")
