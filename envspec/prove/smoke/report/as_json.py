"""Results as plain data for JSON, complete and unshortened. Their schema is `envspec/cli/schemas/smoke.json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from envspec.prove.smoke.report.read import KIND, SCHEMA
from envspec.prove.smoke.report.result import Figure, Results, Run, SmokeReport


def as_json(results: Results) -> dict[str, Any]:
    """Make the document of `envspec smoke --json` without its `schema` key."""
    return {"runs": [_run(run) for run in results.runs], "summary": asdict(results.summary)}


def report_json(report: SmokeReport) -> dict[str, Any]:
    """Write a report as the check does (`check.schema.json`); `read.report_of` reads it back."""
    return {
        "schema": SCHEMA,
        "kind": KIND,
        **asdict(report),
        "figures": [_figure(figure) for figure in report.figures],
        "summary": {
            "passed": report.passed,
            "failed": report.failed,
            "skipped": report.skipped,
            "gpu_skipped": report.gpu_skipped,
            "gpu_total": report.gpu_total,
            "verdict": report.verdict,
            "headline": report.headline,
            "slow": list(report.slow),
        },
    }


def _run(run: Run) -> dict[str, Any]:
    return {**vars(run), "report": report_json(run.report) if run.report else None}


def _figure(figure: Figure) -> dict[str, Any]:
    document = asdict(figure)
    if figure.reference:
        del document["reference"]["gpus"]  # the check has judged already for which GPUs it is
    return {**document, "verdict": figure.verdict}
