"""The observer of the command line: messages on stderr, and bars where that is a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click

from envspec.app.observer import Observer, RunDisplay
from envspec.cli.console import has_terminal, say

if TYPE_CHECKING:
    from envspec.base.progress import Progress


class Terminal(Observer):
    """Shows all that is told; what draws is loaded when something is drawn."""

    def say(self, text: str, *, style: str | None = None) -> None:
        say(text, style=style)

    def choose(self, question: str, answers: Mapping[str, str]) -> str | None:
        if not has_terminal():
            return None
        say(question, always=True)
        for number, (name, description) in enumerate(answers.items(), start=1):
            say(f"  {number}  {name}: {description}", always=True)
        names, numbers = list(answers), [str(number) for number in range(1, len(answers) + 1)]
        given: str = click.prompt("target", type=click.Choice([*numbers, *names]), show_choices=False, err=True)
        return names[numbers.index(given)] if given in numbers else given

    def resolution(self) -> AbstractContextManager[Progress]:
        from envspec.cli.progress import resolution

        return resolution()

    def progress(self, text: str = "", total: int | None = None) -> AbstractContextManager[Progress]:
        from envspec.cli.progress import progress

        return progress(text, total)

    def runs(self, titles: Sequence[str]) -> AbstractContextManager[RunDisplay]:
        from envspec.cli.progress import runs

        return runs(titles)
