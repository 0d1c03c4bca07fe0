"""The results of smoke runs: the report of one run's checks, the run, all runs together, and their summary.

A report is the check's JSON as values; `read` reads it, `as_json` writes it. envspec ignores a report's own summary and
verdicts and computes them from its checks: a skip never counts as a pass, and a figure never decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from envspec.base.errors import InternalError
from envspec.spec.model import Reference

CheckStatus = Literal["pass", "fail", "skip"]
RunStatus = Literal["pass", "fail", "error", "skip"]
Verdict = Literal["ok", "low", "high", "slow"]
Title = Annotated[str, Meta(pattern=r"\A[^\n]*\S[^\n]*\Z")]
"""A text of one line that isn't blank."""
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Seconds = Annotated[float, Meta(ge=0)]

GROUPS = (
    "static", "device", "operators", "training", "determinism", "compile", "dataloader", "collectives",
    "stack", "jax", "tensorflow", "onnxruntime", "cupy", "rapids", "together", "figures",
)  # fmt: skip
"""The groups of checks in the order they run."""


class CheckResult(Struct, frozen=True):
    """One check. `reason` says why it failed or was skipped, `output` is the end of a failed process's output, `slow`
    what it found to be slow, which decides nothing.
    """

    name: Title
    group: Title
    status: CheckStatus
    needs_gpu: bool
    seconds: Seconds
    reason: str | None = None
    remedy: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    output: str | None = None
    slow: tuple[str, ...] = ()


class CardPeak(Struct, frozen=True):
    """A figure's value as the card is sold, and the share of it below which the figure is slow; None: not known."""

    value: float
    least: float | None = None


class Figure(Struct, frozen=True):
    """One measured number. `value` is None for a NaN or an infinity."""

    name: Title
    value: float | None
    unit: str
    reference: Reference | None = None
    peak: CardPeak | None = None

    @property
    def share(self) -> float | None:
        """The share of the card's peak."""
        return self.value / self.peak.value if self.value is not None and self.peak and self.peak.value else None

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The least and the greatest value that the reference allows; None for an open side."""
        if self.reference is None:
            return None, None
        value, low, high = self.reference.value, self.reference.low, self.reference.high
        # a share of the size, so that a negative value's lower bound lies below it too
        size = abs(value)
        return None if low is None else value + size * low, None if high is None else value + size * high

    @property
    def comparable(self) -> bool:
        """Return whether the figure has a number, and a reference in the same unit or without one."""
        reference = self.reference
        return reference is not None and self.value is not None and reference.unit in ("", self.unit)

    @property
    def verdict(self) -> Verdict | None:
        """The reference's verdict on the value; without a reference "slow" for too small a share of the card's peak,
        and None where there is nothing to compare.
        """
        if self.value is None or not self.comparable:
            least = self.peak and self.peak.least
            return "slow" if self.share is not None and least and self.share < least else None
        least, greatest = self.bounds
        if least is not None and self.value < least:
            return "low"
        return "high" if greatest is not None and self.value > greatest else "ok"

    @property
    def slow(self) -> str | None:
        """The message on a slow figure. None for another."""
        slow = self.verdict == "slow"
        return f"{self.name} is {100 * (self.share or 0):.0f} % of the card's peak" if slow else None


class ReportedGpu(Struct, frozen=True):
    name: str
    capability: str
    memory_bytes: Count


class ReportedMachine(Struct, frozen=True):
    """The machine that the checks ran on. Sizes are in bytes, None where unknown."""

    python: str
    system: str
    glibc: str | None = None
    cpus: Count | None = None
    memory_bytes: Count | None = None
    shm_bytes: Count | None = None
    driver: str | None = None
    gpus: tuple[ReportedGpu, ...] = ()


class Torch(Struct, frozen=True):
    """The torch that was checked; its `architectures` have torch's names (`sm_90`)."""

    version: str
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    architectures: tuple[str, ...] = ()


class SmokeReport(Struct, frozen=True):
    """The check's results in one environment. `curves` has the loss of each step by name; None is no number.

    `complete` is False for a run that was cut short, which proves nothing. `cuda` is the target's CUDA, None for CPUs.
    `evidence` says what ran: an environment made from the "lock", or else what proves nothing of it. `check_digest` is
    of the check's own files, None where an older check didn't say it. `frameworks` are those that the target locks,
    each with its version; none where an older check didn't say them.
    """

    spec: Title
    target: Title
    lock_digest: str
    fingerprint: str
    workload: str
    steps: Count
    device: str
    quick: bool
    seed: int
    started: str
    seconds: Seconds
    machine: ReportedMachine
    checks: tuple[CheckResult, ...]
    figures: tuple[Figure, ...]
    curves: Mapping[str, tuple[float | None, ...]]
    complete: bool
    torch: Torch | None = None
    cuda: str | None = None
    evidence: str = "lock"
    check_digest: str | None = None
    frameworks: Mapping[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> int:
        return self._count("pass")

    @property
    def failed(self) -> int:
        return self._count("fail")

    @property
    def skipped(self) -> int:
        return self._count("skip")

    @property
    def gpu_total(self) -> int:
        """The number of checks that need a GPU; others use one where there is one."""
        return sum(check.needs_gpu for check in self.checks)

    @property
    def gpu_skipped(self) -> int:
        """The number of these checks that didn't run."""
        return sum(check.needs_gpu and check.status == "skip" for check in self.checks)

    @property
    def without_gpu(self) -> bool:
        """Return whether the report proves nothing about a GPU: the target is for GPUs and the checks ran on the CPU,
        or all checks that need a GPU were skipped.
        """
        on_cpu = bool(self.checks and self.cuda) and self.device != "cuda"
        return on_cpu or 0 < self.gpu_total == self.gpu_skipped

    @property
    def verdict(self) -> CheckStatus:
        """fail when a check failed; pass when all ran, one passed and none failed; else skip: nothing was proved."""
        if self.failed:
            return "fail"
        return "pass" if self.passed and self.complete else "skip"

    @property
    def headline(self) -> str:
        """ "24 passed, 0 failed, 3 skipped"; says so when no GPU check ran, something is slow or it was cut short."""
        text = f"{self._counts}; slow: {len(self.slow)}" if self.slow else self._counts
        return text if self.complete else f"interrupted: {text}"

    @property
    def slow(self) -> tuple[str, ...]:
        """The slow checks and figures: reported apart from the result, which they don't decide."""
        by_checks = [words for check in self.checks for words in check.slow]
        return (*by_checks, *filter(None, (figure.slow for figure in self.figures)))

    @property
    def _counts(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"
        if not self.checks:
            return "no check ran"
        if self.without_gpu:
            need = "need" if self.gpu_skipped > 1 else "needs"
            without = f" ({self.gpu_skipped} of them {need} a GPU)" if self.gpu_skipped else ""
            return f"no GPU check ran: {counts}{without}"
        return counts

    @property
    def off(self) -> tuple[Figure, ...]:
        """The figures outside their references."""
        return tuple(figure for figure in self.figures if figure.verdict in ("low", "high"))

    def _count(self, status: CheckStatus) -> int:
        return sum(check.status == status for check in self.checks)


class Run(Struct, frozen=True):
    """One spec × target on one machine or partition.

    pass   the checks ran, and none failed
    fail   a check failed
    error  no answer: the environment couldn't be made, the runner failed, or the report can't be used
    skip   it didn't run, or every check in it was skipped

    `reason` says why it isn't a pass; `where` names the node or the partition; `log` is the path of the output.
    Raises InternalError when the status claims more than the report holds.
    """

    spec: str
    target: str
    runner: str
    status: RunStatus
    where: str | None = None
    reason: str | None = None
    report: SmokeReport | None = None
    log: str | None = None

    def __post_init__(self) -> None:
        verdict = self.report.verdict if self.report else None
        if self.status in ("pass", "fail") and self.status != verdict:
            raise InternalError(
                f"a run of {self.name} can't be {self.status!r}: its report says {verdict or 'nothing'!r}"
            )
        if self.status in ("error", "skip") and not self.reason:
            raise InternalError(f"a run of {self.name} that is {self.status!r} needs a reason")

    @classmethod
    def from_report(
        cls,
        spec: str,
        target: str,
        runner: str,
        report: SmokeReport,
        *,
        where: str | None = None,
        log: str | None = None,
    ) -> Run:
        """Make the run of a report: its status is the report's verdict; a run that was cut short gives no answer unless
        a check had already failed.
        """
        if not report.complete and report.verdict != "fail":
            return cls(spec, target, runner, "error", where, report.headline, report, log)
        reason = report.headline if report.verdict == "skip" else None
        return cls(spec, target, runner, report.verdict, where, reason, report, log)

    @property
    def name(self) -> str:
        return f"{self.spec} × {self.target}"

    @property
    def headline(self) -> str:
        """The result in one line."""
        if self.status in ("error", "skip") and self.reason:
            first = self.reason.strip().partition("\n")[0]
            return f"{'no answer' if self.status == 'error' else 'skipped'}: {first}"
        return self.report.headline if self.report else ""

    @property
    def checks(self) -> tuple[CheckResult, ...]:
        return self.report.checks if self.report else ()


class Summary(Struct, frozen=True):
    """The number of runs by status; `without_gpu` of them ran, and prove nothing about a GPU."""

    runs: int
    passed: int
    failed: int
    errors: int
    skipped: int
    without_gpu: int
    figures_off: int
    slow: int
    verdict: RunStatus
    headline: str


class Results(Struct, frozen=True, dict=True):
    """All runs of one command, in its order."""

    runs: tuple[Run, ...]

    @cached_property
    def summary(self) -> Summary:
        count = {status: sum(run.status == status for run in self.runs) for status in ("pass", "fail", "error", "skip")}
        ran = [run.report for run in self.runs if run.status in ("pass", "fail") and run.report]
        return Summary(
            runs=len(self.runs),
            passed=count["pass"],
            failed=count["fail"],
            errors=count["error"],
            skipped=count["skip"],
            without_gpu=sum(report.without_gpu for report in ran),
            figures_off=sum(len(report.off) for report in ran),
            slow=sum(len(report.slow) for report in ran),
            verdict=self.verdict,
            headline=self.headline,
        )

    @property
    def verdict(self) -> RunStatus:
        """fail when a run failed, else error when one gave no answer, else pass when one passed, else skip.

        Only `pass` is a yes: runs that were all skipped proved nothing.
        """
        statuses = {run.status for run in self.runs}
        return next((status for status in ("fail", "error", "pass") if status in statuses), "skip")

    @property
    def headline(self) -> str:
        """One run's own headline, or the count of several runs by status, with those that ran no GPU check."""
        if not self.runs:
            return "nothing ran"
        if len(self.runs) == 1:
            return self.runs[0].headline
        ran = [run for run in self.runs if run.status in ("pass", "fail")]
        blind = sum(run.report is not None and run.report.without_gpu for run in ran)
        words = {"pass": "passed", "fail": "failed", "error": "gave no answer", "skip": "skipped"}
        counts = {status: sum(run.status == status for run in self.runs) for status in words}
        parts = [f"{counts[s]} {word}" for s, word in words.items() if counts[s] or s in ("pass", "fail")]
        line = f"{len(self.runs)} runs: {', '.join(parts)}"
        if blind and blind == len(ran):
            return f"no GPU check ran: {line}"
        return f"{line}; no GPU check ran in {blind} of them" if blind else line

    @property
    def check_names(self) -> tuple[str, ...]:
        """Every check of any run, in the order of the groups, then of the reports."""
        checks = (check for run in self.runs for check in run.checks)
        return tuple(dict.fromkeys(check.name for check in sorted(checks, key=group_order)))


def group_order(check: CheckResult) -> int:
    """Give the place of a check's group; unknown ones come last."""
    return GROUPS.index(check.group) if check.group in GROUPS else len(GROUPS)


def findings(checks: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """List the checks to explain: the failed, then the skipped."""
    listed = list(checks)
    return tuple([c for c in listed if c.status == "fail"] + [c for c in listed if c.status == "skip"])


PRETENDED = "pretended"
"""What a report without a GPU behind it is marked with."""


def is_pretended(report: SmokeReport) -> bool:
    """Return whether a report's GPU is a stub of the tests, by any of the marks that such a run leaves."""
    marks = [report.evidence, report.torch.version if report.torch else "", *(gpu.name for gpu in report.machine.gpus)]
    return any(PRETENDED in text.lower() for text in marks)


def weights_of(report: SmokeReport) -> str | None:
    """Give the digest of the weights that the deterministic training ended with; None where that didn't pass."""
    repeated = next((check for check in report.checks if check.name == "determinism.repeat"), None)
    digest = repeated.details.get("weights") if repeated and repeated.status == "pass" else None
    return digest if isinstance(digest, str) else None
