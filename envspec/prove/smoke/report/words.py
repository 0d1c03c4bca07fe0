"""The phrases and numbers that the page, the table and the JUnit file share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from textwrap import wrap

from msgspec import Struct

from envspec.base.texts import clean_text, memory_size, plural as plural
from envspec.prove.smoke.report.result import CheckResult, Figure, Results, Run, SmokeReport

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")

STATUS = {"pass": "passed", "fail": "failed", "error": "no answer", "skip": "skipped"}
"""The words for a run's or a check's status."""

MARK = {"pass": "✓", "fail": "✗", "error": "!", "skip": "–"}
"""A status as one character, for tables, always with the word beside it."""


def clean(text: str) -> str:
    """Clean a foreign text: one line, without the characters that control a terminal or turn a line around."""
    return clean_text(_COLOUR.sub("", text))


def clean_lines(text: str) -> str:
    """Clean a foreign text of several lines, such as the end of a process's output. Tabs become spaces."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").expandtabs(8).split("\n")
    return "\n".join(clean(line) for line in lines).strip("\n")


def number(value: float) -> str:
    """Format a number at the precision of a measurement: "12,345", "41.2", "0.00312", "1.2e-07"."""
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-3:
        return f"{value:.3g}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}" if size >= 100 else f"{value:.3g}"


def seconds(value: float) -> str:
    """ "0.2 s", "41 s", "3 min 20 s"."""
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02} s"


def share(value: float) -> str:
    """Format a share as a difference in per cent: "-5 %", "+10 %"."""
    return f"{value * 100:+.3g} %"


def measurement(figure: Figure) -> str:
    """ "123 samples/s"; says so where there is no number."""
    if figure.value is None:
        return "no number"
    return f"{number(figure.value)} {clean(figure.unit)}".rstrip()


def reference_words(figure: Figure) -> str:
    """Compare a figure with its reference: "8 % below 130 samples/s (allowed: -5 %)". Empty without a reference."""
    reference = figure.reference
    if reference is None:
        return ""
    expected = f"{number(reference.value)} {clean(reference.unit or figure.unit)}".rstrip()
    allowed = [share(bound) for bound in (reference.low, reference.high) if bound is not None]
    bounds = f" (allowed: {' to '.join(allowed)})" if allowed else ""
    if figure.value is None:
        return f"expected {expected}"
    if not figure.comparable:
        return f"expected {expected}: another unit, not compared"
    if not reference.value:
        return f"expected {expected}{bounds}"
    off = (figure.value - reference.value) / abs(reference.value)
    where = "as expected," if abs(off) < 5e-4 else f"{abs(off) * 100:.2g} % {'above' if off > 0 else 'below'}"
    return f"{where} {expected}{bounds}"


def peak_words(figure: Figure) -> str:
    """Return a figure's share of the card's peak: "71 % of the card's peak, 989 TFLOP/s". Empty without a peak."""
    if figure.share is None or figure.peak is None:
        return ""
    return f"{100 * figure.share:.0f} % of the card's peak, {number(figure.peak.value)} {clean(figure.unit)}"


def place(run: Run) -> str:
    """Name a run's runner and place: "slurm, gpu-h100"."""
    return ", ".join(clean(part) for part in (run.runner, run.where) if part)


def facts(report: SmokeReport) -> Iterator[tuple[str, str]]:
    """List the subject and the machine of a report, as pairs of a word and its value, without unknown facts."""
    machine, torch = report.machine, report.torch
    how = f"{report.workload}, {plural(report.steps, 'step')}, seed {report.seed}{', quick' if report.quick else ''}"
    yield "Workload", clean(how)
    yield "Device", clean(report.device)
    for gpu in machine.gpus:
        yield "GPU", f"{clean(gpu.name)}, compute capability {clean(gpu.capability)}, {memory_size(gpu.memory_bytes)}"
    if machine.driver:
        yield "Driver", clean(machine.driver)
    if torch or "torch" in report.frameworks or not report.frameworks:
        yield "torch", _torch(report)
    for name, version in report.frameworks.items():
        if name != "torch":
            yield clean(name), clean(version)
    if torch and torch.architectures:
        yield "Compiled for", clean(" ".join(torch.architectures))
    yield "Python", clean(machine.python)
    yield "System", clean(machine.system + (f", glibc {machine.glibc}" if machine.glibc else ""))
    memory = [
        plural(machine.cpus, "CPU") if machine.cpus is not None else "",
        f"{memory_size(machine.memory_bytes)} memory" if machine.memory_bytes is not None else "",
        f"{memory_size(machine.shm_bytes)} /dev/shm" if machine.shm_bytes is not None else "",
    ]
    if any(memory):
        yield "Machine", ", ".join(part for part in memory if part)
    yield "Lock", clean(report.lock_digest)
    yield "Started", f"{clean(report.started)}, took {seconds(report.seconds)}"


def _torch(report: SmokeReport) -> str:
    torch = report.torch
    if torch is None:
        return "couldn't be imported"
    parts = [
        torch.version,
        f"CUDA {torch.cuda}" if torch.cuda else "",
        f"cuDNN {torch.cudnn}" if torch.cudnn else "",
        f"NCCL {torch.nccl}" if torch.nccl else "",
    ]
    return clean(", ".join(part for part in parts if part))


# Smoke runs as lines of text: a paragraph per run, failures with their remedies, and the headline last.


WIDTH = 80
"""Columns without a terminal."""
LAST_WORDS = 6
"""The number of lines of a failed process's output that are shown; the log and the reports have more."""


def lines(results: Results, width: int = WIDTH, marked: Callable[[str, int], str] = str.ljust) -> list[str]:
    """Render the lines in so many columns. `marked` pads a status to a width, and colours it for a terminal."""
    return list(_Lines(width, marked).of(results))


class _Lines(Struct, frozen=True):
    width: int
    marked: Callable[[str, int], str]

    def of(self, results: Results) -> Iterator[str]:
        for run in results.runs:
            yield from self._run(run)
            yield ""
        yield from self._wrap(clean(results.headline), "", "")

    def _run(self, run: Run) -> Iterator[str]:
        took = f", {seconds(run.report.seconds)}" if run.report else ""
        first, *more = self._wrap(f"{clean(run.name)} ({place(run)}{took})", " " * 6)
        yield f"{self.marked(run.status, 5)} {first.lstrip()}"
        yield from more
        yield from self._wrap(clean(run.headline), " " * 6)
        if run.status in ("error", "skip") and run.reason:
            yield from self._quote(run.reason.strip().partition("\n")[2])
        for check in run.checks:
            if check.status == "fail":
                yield from self._failure(check)
        for reason, names in _group_skips(run).items():
            yield from self._label("skip", f"{', '.join(names)}: {reason}")
        for figure in run.report.off if run.report else ():
            message = f"{figure.name} is {figure.verdict}: {measurement(figure)}, {reference_words(figure)}"
            yield from self._label("warning", message)
        for slow in run.report.slow if run.report else ():
            yield from self._label("slow", slow)
        if run.log and run.status in ("fail", "error"):
            # not wrapped: a path is there to be copied
            yield f"      log: {clean(run.log)}"

    def _failure(self, check: CheckResult) -> Iterator[str]:
        yield from self._label("fail", f"{check.name}: {check.reason or 'no reason given'}")
        if check.remedy:
            yield from self._wrap(clean(f"remedy: {check.remedy}"), " " * 8)
        yield from self._quote(check.output or "")

    def _label(self, word: str, text: str) -> Iterator[str]:
        first, *more = self._wrap(clean(text), " " * (9 + len(word)), " " * 8)
        yield f"      {self.marked(word, 0)}: {first.lstrip()}"
        yield from more

    def _quote(self, text: str) -> Iterator[str]:
        """Show the end of a process's output."""
        for line in clean_lines(text).split("\n")[-LAST_WORDS:]:
            if line.strip():
                yield from wrap(line, self.width, initial_indent="        | ", subsequent_indent="        |   ")

    def _wrap(self, text: str, indent: str, more: str | None = None) -> list[str]:
        # a word longer than a line is broken: it is a foreign text, and the table keeps its width
        below = indent + "  " if more is None else more
        lines = wrap(text, self.width, initial_indent=indent, subsequent_indent=below)
        return lines or [indent.rstrip()]


def _group_skips(run: Run) -> dict[str, list[str]]:
    """Group the names of the skipped checks by their reason."""
    by_reason: dict[str, list[str]] = {}
    for check in run.checks:
        if check.status == "skip":
            by_reason.setdefault(check.reason or "no reason given", []).append(check.name)
    return by_reason
