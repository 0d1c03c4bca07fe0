"""The phrases and numbers that the page, the table and the JUnit file share."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envspec.base.texts import byte_size, clean_text, plural as plural
from envspec.prove.smoke.report.result import Figure, Run, SmokeReport

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
    told = f" (allowed: {' to '.join(allowed)})" if allowed else ""
    if figure.value is None:
        return f"expected {expected}"
    if not figure.comparable:
        return f"expected {expected}: another unit, not compared"
    if not reference.value:
        return f"expected {expected}{told}"
    off = (figure.value - reference.value) / abs(reference.value)
    where = "as expected," if abs(off) < 5e-4 else f"{abs(off) * 100:.2g} % {'above' if off > 0 else 'below'}"
    return f"{where} {expected}{told}"


def peak_words(figure: Figure) -> str:
    """Say which share of the card's peak a figure is: "71 % of the card's peak, 989 TFLOP/s". Empty without a peak."""
    if figure.share is None or figure.peak is None:
        return ""
    return f"{100 * figure.share:.0f} % of the card's peak, {number(figure.peak.value)} {clean(figure.unit)}"


def place(run: Run) -> str:
    """Name a run's runner and place: "slurm, gpu-h100"."""
    return ", ".join(clean(part) for part in (run.runner, run.where) if part)


def facts(report: SmokeReport) -> Iterator[tuple[str, str]]:
    """List what was checked and on what machine, as pairs of a word and its value, without unknown facts."""
    machine, torch = report.machine, report.torch
    how = f"{report.workload}, {plural(report.steps, 'step')}, seed {report.seed}{', quick' if report.quick else ''}"
    yield "Workload", clean(how)
    yield "Device", clean(report.device)
    for gpu in machine.gpus:
        yield "GPU", f"{clean(gpu.name)}, compute capability {clean(gpu.capability)}, {byte_size(gpu.memory_bytes)}"
    if machine.driver:
        yield "Driver", clean(machine.driver)
    yield "torch", _torch(report)
    if torch and torch.architectures:
        yield "Compiled for", clean(" ".join(torch.architectures))
    yield "Python", clean(machine.python)
    yield "System", clean(machine.system + (f", glibc {machine.glibc}" if machine.glibc else ""))
    memory = [
        plural(machine.cpus, "CPU") if machine.cpus is not None else "",
        f"{byte_size(machine.memory_bytes)} memory" if machine.memory_bytes is not None else "",
        f"{byte_size(machine.shm_bytes)} /dev/shm" if machine.shm_bytes is not None else "",
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
