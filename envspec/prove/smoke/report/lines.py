"""Smoke runs as lines of text: a paragraph per run, failures with their remedies, and the headline last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from textwrap import wrap

from envspec.prove.smoke.report import words
from envspec.prove.smoke.report.result import CheckResult, Results, Run

WIDTH = 80
"""Columns without a terminal."""
LAST_WORDS = 6
"""The number of lines of a failed process's output that are shown; the log and the reports have more."""


def lines(results: Results, width: int = WIDTH, marked: Callable[[str, int], str] = str.ljust) -> list[str]:
    """Render the lines in so many columns. `marked` pads a status to a width, and colours it for a terminal."""
    return list(_Lines(width, marked).of(results))


@dataclass(frozen=True)
class _Lines:
    width: int
    marked: Callable[[str, int], str]

    def of(self, results: Results) -> Iterator[str]:
        for run in results.runs:
            yield from self._run(run)
            yield ""
        yield from self._wrap(words.clean(results.headline), "", "")

    def _run(self, run: Run) -> Iterator[str]:
        took = f", {words.seconds(run.report.seconds)}" if run.report else ""
        first, *more = self._wrap(f"{words.clean(run.name)} ({words.place(run)}{took})", " " * 6)
        yield f"{self.marked(run.status, 5)} {first.lstrip()}"
        yield from more
        yield from self._wrap(words.clean(run.headline), " " * 6)
        if run.status in ("error", "skip") and run.reason:
            yield from self._quote(run.reason.strip().partition("\n")[2])
        for check in run.checks:
            if check.status == "fail":
                yield from self._failure(check)
        for reason, names in _group_skips(run).items():
            yield from self._label("skip", f"{', '.join(names)}: {reason}")
        for figure in run.report.off if run.report else ():
            told = f"{figure.name} is {figure.verdict}: {words.measurement(figure)}, {words.reference_words(figure)}"
            yield from self._label("warning", told)
        for told in run.report.slow if run.report else ():
            yield from self._label("slow", told)
        if run.log and run.status in ("fail", "error"):
            # not wrapped: a path is there to be copied
            yield f"      log: {words.clean(run.log)}"

    def _failure(self, check: CheckResult) -> Iterator[str]:
        yield from self._label("fail", f"{check.name}: {check.reason or 'no reason given'}")
        if check.remedy:
            yield from self._wrap(words.clean(f"remedy: {check.remedy}"), " " * 8)
        yield from self._quote(check.output or "")

    def _label(self, word: str, text: str) -> Iterator[str]:
        first, *more = self._wrap(words.clean(text), " " * (9 + len(word)), " " * 8)
        yield f"      {self.marked(word, 0)}: {first.lstrip()}"
        yield from more

    def _quote(self, text: str) -> Iterator[str]:
        """Show the end of a process's output."""
        for line in words.clean_lines(text).split("\n")[-LAST_WORDS:]:
            if line.strip():
                yield from wrap(line, self.width, initial_indent="        | ", subsequent_indent="        |   ")

    def _wrap(self, text: str, indent: str, more: str | None = None) -> list[str]:
        # a word longer than a line is broken: it is a foreign text, and the table keeps its width
        below = indent + "  " if more is None else more
        found = wrap(text, self.width, initial_indent=indent, subsequent_indent=below)
        return found or [indent.rstrip()]


def _group_skips(run: Run) -> dict[str, list[str]]:
    """Group the names of the skipped checks by their reason."""
    found: dict[str, list[str]] = {}
    for check in run.checks:
        if check.status == "skip":
            found.setdefault(check.reason or "no reason given", []).append(check.name)
    return found
