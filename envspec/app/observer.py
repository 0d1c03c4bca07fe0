"""What the functions of `app` tell while they work: messages, and how far they are.

One observer of the process hears them. The command line's writes on stderr and draws bars (`envspec.cli.terminal`);
without one, as in a notebook, nothing is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envspec.image.build import ImageProgress
    from envspec.resolve.progress import ResolutionProgress


class _Silent:
    """Progress that is shown nowhere."""

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def doing(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()

    def reading(self, done: int, total: int) -> None:
        """Show nothing."""

    def phase(self, text: str, total: int | None = None) -> None:
        """Show nothing."""

    def came(self, count: int) -> None:
        """Show nothing."""


class Observer:
    """An observer that shows nothing. `quiet` asks for messages without bars, where stdout gets JSON."""

    def say(self, text: str, *, style: str | None = None) -> None:
        """Take a line for people; the word before its first colon has the style, a colour."""

    def resolution(self) -> AbstractContextManager[ResolutionProgress]:
        """Follow a resolution until the block ends."""
        return nullcontext(_Silent())

    def image(self, *, quiet: bool) -> AbstractContextManager[ImageProgress]:
        """Follow the making or reading of an image until the block ends."""
        return nullcontext(_Silent())

    def fetching(self, total: int, *, quiet: bool) -> AbstractContextManager[Callable[[int], None]]:
        """Follow downloads of so many bytes (0: unknown) until the block ends; takes the bytes that came."""
        return nullcontext(lambda count: None)

    def counting(self, description: str) -> AbstractContextManager[Callable[[int, int], None]]:
        """Follow a count until the block ends; takes what is done and how much there is."""
        return nullcontext(lambda done, total: None)


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
