"""Progress on stderr: drawn on a terminal, else in lines where something takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import click

from envspec.app.observer import Observer, RunDisplay
from envspec.base.finding import Finding
from envspec.base.progress import Progress
from envspec.base.texts import byte_size, printable
from envspec.cli.console import (
    draw_alone,
    has_terminal,
    print_diagnostics,
    say,
    terminal_console,
    wants_json,
    wants_verbose,
)

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress as Bars, ProgressColumn, TaskID

    from envspec.prove.smoke.report.result import Run


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


@contextmanager
def _count_download(file: str, show: Callable[[int, int], None]) -> Iterator[Callable[[int], None]]:
    """Count the bytes of a download: `show` takes those that came now, and all. With `--verbose`, say it at the end."""
    began, done = time.monotonic(), 0

    def came(count: int) -> None:
        nonlocal done
        done += count
        show(count, done)

    yield came
    if done and wants_verbose():
        say(f"fetched {printable(file)[:80]}: {byte_size(done)} in {time.monotonic() - began:.1f} s")


_LONG = 2
"""Seconds after which a step is drawn: dozens of files are read at a time, most of them in a moment."""


class OnTerminal(Progress):
    """Progress drawn by rich: a line of the phase, and one for each of the steps that run beside each other."""

    def __init__(self, bars: Bars, text: str, total: int | None) -> None:
        self._bars, self._text, self._total = bars, text, total
        self._task: TaskID | None = None

    @contextmanager
    def telling(self) -> Iterator[OnTerminal]:
        """Draw what takes long as long as the block lasts."""
        with _every(1, self._show_long):
            yield self

    def _show_long(self) -> None:
        for task in self._bars.tasks:
            if not task.visible and (task.elapsed or 0) >= _LONG:
                self._bars.update(task.id, visible=True)

    def solving(self, names: Sequence[str]) -> AbstractContextManager[None]:
        return self._step(f"resolving {', '.join(names)}", visible=True)

    def doing(self, what: str) -> AbstractContextManager[None]:
        return self._step(what, visible=False)

    @contextmanager
    def _step(self, what: str, *, visible: bool) -> Iterator[None]:
        task = self._bars.add_task(what, total=None, visible=visible)
        try:
            yield
        finally:
            self._bars.remove_task(task)

    @contextmanager
    def fetching(self, file: str, total: int | None) -> Iterator[Callable[[int], None]]:
        task = self._bars.add_task(f"fetching {printable(file)[:80]}", total=total, visible=False)
        try:
            with _count_download(file, lambda count, _: self._bars.update(task, advance=count, bytes=True)) as came:
                yield came
        finally:
            self._bars.remove_task(task)

    def phase(self, text: str, total: int | None = None) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
        self._text, self._total = text, total
        self._task = self._bars.add_task(text, total=total)

    def advance(self, done: int | None = None, detail: str = "") -> None:
        if self._task is None:
            self.phase(self._text, self._total)
        counted = "" if done is None or self._total is None else f" {done}/{self._total}"
        text = f"{self._text}{counted}{': ' if detail else ''}{printable(detail)}"
        self._bars.update(self._task, description=text[:100], completed=done, total=self._total)  # type: ignore[arg-type]

    def count(self, done: int, total: int) -> None:
        self._total = total
        self.advance(done)

    def came(self, count: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, advance=count, bytes=True)


class InLines(Progress):
    """Progress where nothing can be drawn: a line now and then, from the first moment to the last."""

    def __init__(self, every: float = 10, text: str = "resolving") -> None:
        self._every = every
        self.phase(text)
        self._read = (0, 0)
        self._steps: dict[object, tuple[str, float]] = {}
        self._started = time.monotonic()

    @contextmanager
    def telling(self) -> Iterator[InLines]:
        """Write the lines as long as the block lasts."""
        with _every(self._every, self._tell):
            yield self

    def phase(self, text: str, total: int | None = None) -> None:
        self._phase, self._since, self._detail = text, time.monotonic(), ""
        self._bytes, self._total = 0, total

    def advance(self, done: int | None = None, detail: str = "") -> None:
        self._detail = detail

    def came(self, count: int) -> None:
        self._bytes += count

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        key = object()
        self._steps[key] = (what, time.monotonic())
        try:
            yield
        finally:
            del self._steps[key]

    @contextmanager
    def fetching(self, file: str, total: int | None) -> Iterator[Callable[[int], None]]:
        key, since, of = object(), time.monotonic(), f" of {byte_size(total)}" if total else ""

        def show(_: int, done: int) -> None:
            bytes_so_far = f": {byte_size(done)}{of}" if done else ""
            self._steps[key] = (f"fetching {printable(file)[:80]}{bytes_so_far}", since)

        show(0, 0)

        try:
            with _count_download(file, show) as came:
                yield came
        finally:
            self._steps.pop(key, None)

    def _tell(self) -> None:
        now = time.monotonic()
        # what has lasted longest holds up the rest
        steps = [(what, since) for what, since in list(self._steps.values()) if now - since >= self._every / 2]
        summary = "; ".join(f"{what} ({now - since:.0f} s)" for what, since in steps[:3]) or self._line(now)
        more = f"; and {len(steps) - 3} more" if steps[3:] else ""
        done, total = self._read
        read = f"; METADATA of {done} of {total} packages read" if total else ""
        say(f"still at work after {now - self._started:.0f} s: {summary}{more}{read}")

    def _line(self, now: float) -> str:
        of = f" of {byte_size(self._total)}" if self._total else ""
        detail = f"{byte_size(self._bytes)}{of}" if self._bytes else self._detail
        lasted = f" ({now - self._since:.0f} s)" if self._since - self._started >= 1 else ""
        return f"{self._phase}{': ' if detail else ''}{printable(detail)[:100]}{lasted}"

    def count(self, done: int, total: int) -> None:
        self._read = (done, total)


@contextmanager
def progress(text: str = "", total: int | None = None) -> Iterator[Progress]:
    """Show progress on stderr until the block ends: drawn on a terminal, else in lines if it takes long. With a text,
    its first phase begins."""
    with _bars() as drawn:
        if drawn is not None:
            shown = OnTerminal(drawn, text, total)
            if text:
                shown.phase(text, total)
            yield shown
        elif wants_json():
            yield Progress()
        else:
            with InLines(text=text or "working").telling() as lines:
                yield lines


@contextmanager
def resolution() -> Iterator[Progress]:
    """Show progress of one resolution: drawn on a terminal, else in lines if it takes long."""
    with _bars() as drawn:
        if drawn is not None:
            with OnTerminal(drawn, "reading metadata", None).telling() as on_terminal:
                yield on_terminal
        elif wants_json():
            yield Progress()
        else:
            with InLines().telling() as lines:
                yield lines


@contextmanager
def _bars() -> Iterator[Bars | None]:
    if wants_json() or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress as Bars

    drawn = Bars(*_columns(), console=terminal_console(), transient=True)
    with draw_alone(drawn):
        yield drawn


def _columns() -> tuple[ProgressColumn, ...]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        FileSizeColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Bytes(DownloadColumn):
        """The bytes so far, and of how many where that is known."""

        def render(self, task: Task) -> Text:
            if not task.fields.get("bytes"):
                return Text()
            return FileSizeColumn().render(task) if task.total is None else super().render(task)

    class Rate(TransferSpeedColumn):
        """The bytes a second, once there are some."""

        def render(self, task: Task) -> Text:
            return super().render(task) if task.fields.get("bytes") and task.speed else Text()

    description = TextColumn("{task.description}", markup=False)
    return SpinnerColumn(), description, BarColumn(bar_width=20), Bytes(), Rate(), TimeElapsedColumn()


_COLOURS = {"pass": "green", "fail": "red", "error": "red", "skip": "yellow"}


class RunTable(RunDisplay):
    """A table on the terminal, a row for each run: those in progress and the last that ended, with a count below."""

    def __init__(self, live: Live, titles: Sequence[str]) -> None:
        self._live, self._titles = live, titles
        self._texts = ["waiting"] * len(titles)
        self._ended: dict[int, Run] = {}
        self._draw()

    def update(self, index: int, text: str) -> None:
        if self._texts[index] != text:
            self._texts[index] = text
            self._draw()

    def end_run(self, index: int, run: Run) -> None:
        self._ended[index] = run
        self._draw()

    def _draw(self) -> None:
        from rich.table import Table
        from rich.text import Text

        from envspec.prove.smoke.report.words import clean

        table = Table(box=None, show_header=False, pad_edge=False)
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
def runs(titles: Sequence[str]) -> Iterator[RunDisplay]:
    """Show a table of smoke runs on stderr until the block ends, if it's a terminal."""
    if wants_json() or not sys.stderr.isatty():
        yield RunDisplay()
        return
    from rich.live import Live

    live = Live(console=terminal_console(), transient=True, refresh_per_second=8)
    with draw_alone(live):
        yield RunTable(live, titles)


class Terminal(Observer):
    """The observer of the command line: messages on stderr, and bars where that is a terminal."""

    def say(self, text: str) -> None:
        say(text)

    def report(self, findings: Iterable[Finding]) -> None:
        print_diagnostics(findings)

    def choose(self, question: str, answers: Mapping[str, str]) -> str | None:
        if not has_terminal():
            return None
        say(question, always=True)
        for number, (name, description) in enumerate(answers.items(), start=1):
            say(f"  {number}  {name}: {description}", always=True)
        names, numbers = list(answers), [str(number) for number in range(1, len(answers) + 1)]
        given: str = click.prompt("choose", type=click.Choice([*numbers, *names]), show_choices=False, err=True)
        return names[numbers.index(given)] if given in numbers else given

    def resolution(self) -> AbstractContextManager[Progress]:
        return resolution()

    def progress(self, text: str = "", total: int | None = None) -> AbstractContextManager[Progress]:
        return progress(text, total)

    def runs(self, titles: Sequence[str]) -> AbstractContextManager[RunDisplay]:
        return runs(titles)
