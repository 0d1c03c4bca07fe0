"""Smoke runs as one self-contained page: no script, no network, light and dark."""

from __future__ import annotations

import json
from itertools import groupby

from envspec.base.html_page import render
from envspec.prove.smoke.report import chart, words
from envspec.prove.smoke.report.result import CheckResult, Results, Run, SmokeReport, findings, group_order


def page(results: Results) -> str:
    """Render the page. All foreign text is escaped; the page's own policy forbids scripts and any loading."""
    group_of = {check.name: check.group for run in results.runs for check in run.checks}
    summary = results.summary
    alarming = [
        run.name for run in results.runs if run.status in ("pass", "fail") and run.report and run.report.without_gpu
    ]
    return render(
        "prove/smoke/report/page.html.j2",
        clean=words.clean,
        chart=chart,
        words=words,
        summary=summary,
        runs=results.runs,
        without_gpu=alarming if summary.without_gpu and summary.runs > 1 else (),
        check_names=results.check_names,
        groups=[(group, list(names)) for group, names in groupby(results.check_names, key=lambda name: group_of[name])],
        findings=findings,
        places_of=_places_of,
        charts_of=_charts_of,
        details=_details,
        ordered=lambda checks: sorted(checks, key=group_order),
    )


def _places_of(run: Run) -> dict[str, int]:
    """Return the place of each check in a run."""
    return {check.name: index for index, check in enumerate(run.checks)}


def _details(check: CheckResult) -> str:
    return json.dumps(dict(check.details), indent=2, ensure_ascii=False)


def _charts_of(report: SmokeReport) -> dict[str, dict[str, chart.Curve]]:
    """Return the loss curves of each chart."""
    charts: dict[str, dict[str, chart.Curve]] = {}
    for name, curve in report.curves.items():
        group, _, own = name.partition(".")
        charts.setdefault(group if own else "loss", {})[own or group] = curve
    return charts
