"""What a report is evidence of: whether its GPU was one, and the weights that it ended with."""

from __future__ import annotations

from envspec.prove.smoke.report.result import SmokeReport

PRETENDED = "pretended"
"""What a report without a GPU behind it is marked with."""


def is_pretended(report: SmokeReport) -> bool:
    """Say whether its GPU is a stand-in of the tests, by any of the marks that such a run leaves."""
    told = [report.evidence, report.torch.version if report.torch else "", *(gpu.name for gpu in report.machine.gpus)]
    return any(PRETENDED in text.lower() for text in told)


def weights_of(report: SmokeReport) -> str | None:
    """Give the digest of the weights that the deterministic training ended with; None where that didn't pass."""
    repeated = next((one for one in report.checks if one.name == "determinism.repeat"), None)
    found = repeated.details.get("weights") if repeated and repeated.status == "pass" else None
    return found if isinstance(found, str) else None
