"""Two reports beside each other: is it the same environment, and did it compute the same?

Weights are compared bit by bit where that can be asked: the same lock, check, workload, seed, steps and precision on
one architecture. There a difference is an answer of no; elsewhere none is expected, and none is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.base.plain_files import read_operand
from envspec.base.reader.document import decode, parse_toml
from envspec.base.reader.nodes import Names, Table, table_of
from envspec.base.reader.structure import Checked
from envspec.prove.smoke.report.result import SmokeReport, weights_of
from envspec.prove.smoke.report.words import measurement
from envspec.spec.document import MAX_BYTES
from envspec.spec.forms import TARGET_NAME
from envspec.spec.model import REFERENCES, Reference

# A site's references: the figures that its machines should reach, in one file for many specs.
#
# [references]
# "training.samples_per_s" = { value = 900, low = -0.1, unit = "samples/s" }
#
# [targets.cu128-hopper.references]          # a target's own come first
# "training.samples_per_s" = { value = 2400, low = -0.1, unit = "samples/s" }


# a reference for some GPUs alone is a spec's: the check judges it
_REFERENCE = table_of(Reference)
_KEYS = {key: node for key, node in _REFERENCE.keys.items() if key != "gpus"}
_FIGURES = replace(REFERENCES, values=replace(_REFERENCE, keys=_KEYS))
_OF_TARGET = Table(doc="What is expected of one target.", keys={"references": _FIGURES})
FORMAT = Table(
    doc="The figures that a site's machines should reach.",
    keys={
        "references": _FIGURES,
        "targets": Names(doc="What is expected by target.", names=TARGET_NAME, values=_OF_TARGET),
    },
)


class References:
    """The references of a file, by target."""

    def __init__(self, common: Mapping[str, Reference], own: Mapping[str, Mapping[str, Reference]]) -> None:
        self._common, self._own = common, own

    def of(self, target: str) -> dict[str, Reference]:
        """Give the references of a target's figures, by the figure's name."""
        return {**self._common, **self._own.get(target, {})}


def load_references(path: Path) -> References:
    """Read a file of references. Raises InputError."""
    try:
        content = read_operand(path, MAX_BYTES)
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    checked = Checked(parse_toml(decode(content, str(path)), str(path)), FORMAT)
    checked.raise_problems()
    targets = {name: checked.read(_FIGURES, "targets", name, "references") or {} for name in checked.table("targets")}
    return References(checked.read(_FIGURES, "references") or {}, targets)


Same = Literal["same", "differs", "not compared"]


class Comparison(Struct, frozen=True):
    """weights  whether both ended with the same weights
    reason   why they weren't compared
    facts    what differs of the two runs: a name, and what each says
    checks   the checks that came out otherwise: a name, and the status of each, None where it isn't there
    figures  the figures that both have: a name, what each says, and the second's share of the first
    """

    weights: Same
    reason: str | None
    facts: tuple[tuple[str, str, str], ...]
    checks: tuple[tuple[str, str | None, str | None], ...]
    figures: tuple[tuple[str, str, str, float | None], ...]

    @property
    def ok(self) -> bool:
        """Return whether nothing differs that has to be the same."""
        return self.weights != "differs" and all("fail" not in (first, second) for _, first, second in self.checks)


def compare(left: SmokeReport, right: SmokeReport) -> Comparison:
    """Compare two reports."""
    facts = tuple((name, a, b) for name, (a, b) in _facts(left, right).items() if a != b)
    weights, reason = _weights(left, right, dict.fromkeys(name for name, _, _ in facts))
    first, second = ({check.name: check.status for check in report.checks} for report in (left, right))
    checks = tuple(
        (name, first.get(name), second.get(name))
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    )
    values = {figure.name: figure for figure in right.figures}
    figures = []
    for figure in left.figures:
        beside = values.get(figure.name)
        if beside is not None:
            known = figure.value and beside.value is not None and figure.unit == beside.unit
            share = beside.value / figure.value if known and beside.value is not None and figure.value else None
            figures.append((figure.name, measurement(figure), measurement(beside), share))
    return Comparison(weights, reason, facts, checks, tuple(figures))


_DECIDING = (
    *("spec", "target", "lock", "check", "evidence", "workload", "seed", "steps", "precision"),
    *("torch", "device", "architecture"),
)
"""What has to be equal for weights to be, in the order in which it's told."""


def _facts(left: SmokeReport, right: SmokeReport) -> dict[str, tuple[str, str]]:
    return {name: (a, b) for (name, a), (_, b) in zip(_of(left), _of(right), strict=True)}


def _of(report: SmokeReport) -> tuple[tuple[str, str], ...]:
    repeated = next((check for check in report.checks if check.name == "determinism.repeat"), None)
    details = repeated.details if repeated else {}
    return (
        ("spec", report.spec),
        ("target", report.target),
        ("lock", report.lock_digest),
        ("check", report.check_digest or "not said"),
        ("evidence", report.evidence),
        ("workload", report.workload),
        ("seed", str(report.seed)),
        ("steps", str(details.get("steps", report.steps))),
        ("precision", str(details.get("precision", "not said"))),
        ("torch", report.torch.version if report.torch else "none"),
        ("device", report.device),
        ("architecture", _architecture(report)),
        ("driver", report.machine.driver or "none"),
        ("Python", report.machine.python),
        ("system", report.machine.system),
    )


def _architecture(report: SmokeReport) -> str:
    """Return a GPU's capability, else the system's machine: CPUs of one machine may differ in their instructions."""
    if report.device == "cuda":
        return ", ".join(sorted({gpu.capability for gpu in report.machine.gpus})) or "none"
    return next((word for word in ("x86_64", "aarch64", "arm64") if word in report.machine.system), "unknown")


def _weights(left: SmokeReport, right: SmokeReport, differing: dict[str, None]) -> tuple[Same, str | None]:
    if weights_of(left) is None or weights_of(right) is None:
        lacking = "neither has" if weights_of(left) is weights_of(right) else "one of them has no"
        return "not compared", f"{lacking} a digest of weights: determinism.repeat didn't pass"
    apart = [name for name in _DECIDING if name in differing]
    if weights_of(left) == weights_of(right):
        return "same", None
    if apart:
        return "not compared", f"they differ in: {', '.join(apart)}{_beside_float64(left, right)}"
    if left.device != "cuda":
        return "not compared", "CPUs choose their kernels by what they can, and the reports don't say that"
    return "differs", None


def _beside_float64(left: SmokeReport, right: SmokeReport) -> str:
    """Compare both runs' distances from float64, where both have one: unlike GPUs agree in these alone."""
    checks = [check for report in (left, right) for check in report.checks if check.name == "training.reference"]
    if [check.status for check in checks] != ["pass", "pass"] or left.workload != right.workload:
        return ""
    worst = [max(numbers_in(check.details.get("errors")), default=math.nan) for check in checks]
    return f"; from float64 the one is {worst[0]:.2g} away, the other {worst[1]:.2g} (training.reference)"


def numbers_in(value: object) -> Iterator[float]:
    """Yield the numbers in a report's nested tables."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from numbers_in(part)
    elif isinstance(value, int | float):
        yield value
