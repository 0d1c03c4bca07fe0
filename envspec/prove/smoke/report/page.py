"""Smoke runs as one self-contained page: no script, no network, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby
from pathlib import Path

from envspec.base.html_page import frame
from envspec.prove.smoke.report import chart, words
from envspec.prove.smoke.report.result import CheckResult, Figure, Results, Run, SmokeReport, findings, group_order

_OPEN = 4
"""The number of runs up to which all are shown unfolded; with more, only those that didn't pass."""


def page(results: Results) -> str:
    """Render the page. All foreign text is escaped; the page's own policy forbids scripts and any loading."""
    summary = results.summary
    title = _text(summary.headline)
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    body = (
        "<main>",
        f'<header class="banner {summary.verdict}">',
        f"<p>Smoke runs: {words.STATUS[summary.verdict]}</p>",
        f"<h1>{title}</h1>",
        "</header>",
        *_alarms(results),
        *_matrix(results),
        *(line for number, run in enumerate(results.runs, 1) for line in _run(run, number, len(results.runs))),
        "</main>",
    )
    return frame(f"Smoke runs: {title}", f"\n{style}", body)


def _alarms(results: Results) -> Iterator[str]:
    summary = results.summary
    if summary.without_gpu and summary.runs > 1:
        which = [
            run.name for run in results.runs if run.status in ("pass", "fail") and run.report and run.report.without_gpu
        ]
        yield f'<p class="alarm">No GPU check ran in {_text(", ".join(which))}: these prove nothing about a GPU.</p>'
    if summary.figures_off:
        are = "is" if summary.figures_off == 1 else "are"
        message = f"{words.plural(summary.figures_off, 'figure')} {are} outside the reference. Figures don't decide."
        yield f'<p class="alarm">{message}</p>'
    for run in results.runs:
        for slow in run.report.slow if run.report else ():
            yield f'<p class="alarm">Slow: {_text(slow)} ({_text(run.name)}).</p>'


def _matrix(results: Results) -> Iterator[str]:
    names = results.check_names
    group_of = {check.name: check.group for run in results.runs for check in run.checks}
    yield '<div class="scroll" role="region" aria-label="Runs and checks" tabindex="0"><table class="matrix">'
    marks = ", ".join(f"{mark} {words.STATUS[status]}" for status, mark in words.MARK.items())
    yield f"<caption>{marks}</caption>"
    yield '<thead><tr><th scope="col" rowspan="2">Run</th><th scope="col" rowspan="2">Result</th>'
    for group, members in groupby(names, key=lambda name: group_of[name]):
        yield f'<th scope="colgroup" class="group" colspan="{len(list(members))}">{_text(group)}</th>'
    yield "</tr><tr>"
    for name in names:
        short = name.removeprefix(f"{group_of[name]}.")
        yield f'<th scope="col" class="check"><span>{_text(short)}</span></th>'
    yield "</tr></thead><tbody>"
    for number, run in enumerate(results.runs, 1):
        where = f'<br><span class="quiet">{_text(words.place(run))}</span>'
        yield f'<tr><th scope="row"><a href="#run{number}">{_text(run.name)}</a>{where}</th>'
        yield f'<td class="{run.status}">{words.MARK[run.status]} {words.STATUS[run.status]}</td>'
        places = {check.name: index for index, check in enumerate(run.checks)}
        yield "".join(_mark(run, number, places.get(name)) for name in names)
        yield "</tr>"
    yield "</tbody></table></div>"


def _mark(run: Run, number: int, place: int | None) -> str:
    if place is None:
        return '<td><span class="said">not run</span></td>'
    check = run.checks[place]
    mark = f'<span aria-hidden="true">{words.MARK[check.status]}</span>'
    mark += f'<span class="said">{words.STATUS[check.status]}</span>'
    if check.status != "pass":
        reason = f' title="{_text(check.reason)}"' if check.reason else ""
        mark = f'<a href="#run{number}c{place}"{reason}>{mark}</a>'
    return f'<td class="{check.status}">{mark}</td>'


def _run(run: Run, number: int, count: int) -> Iterator[str]:
    opened = " open" if count <= _OPEN or run.status != "pass" else ""
    yield f'<details class="run" id="run{number}"{opened}>'
    status = f'<span class="{run.status}">{words.MARK[run.status]} {words.STATUS[run.status]}</span>'
    yield f"<summary><h2>{_text(run.name)}: {status}</h2></summary>"
    yield f'<p>{_text(run.headline)} <span class="quiet">({_text(words.place(run))})</span></p>'
    if run.status in ("error", "skip") and run.reason and "\n" in run.reason.strip():
        yield _preformat(run.reason, f"The whole reason of {run.name}, run {number}")
    if run.report:
        yield from _findings(run, number)
        yield from _figures(run.report)
        yield from _curves(run.report)
        yield from _all_checks(run.report)
        yield "<h3>Where it ran</h3>"
        pairs = (f"<dt>{word}</dt><dd>{_text(value)}</dd>" for word, value in words.facts(run.report))
        yield f"<dl>{''.join(pairs)}</dl>"
    if run.log:
        yield f'<p class="quiet">Log: {_text(run.log)}</p>'
    yield "</details>"


def _findings(run: Run, number: int) -> Iterator[str]:
    explained = findings(run.checks)
    if not explained:
        return
    yield "<h3>Findings</h3>"
    places = {check.name: index for index, check in enumerate(run.checks)}
    for check in explained:
        where = f"{check.name} in {run.name}, run {number}"
        yield f'<div class="finding {check.status}" id="run{number}c{places[check.name]}">'
        yield (
            f'<h4>{_text(check.name)} <span class="{check.status}">{words.STATUS[check.status]}</span>'
            f"{' (needs a GPU)' if check.needs_gpu and check.status == 'skip' else ''}</h4>"
        )
        yield f"<p>{_text(check.reason or 'no reason given')}</p>"
        if check.remedy:
            yield f"<p><strong>Remedy:</strong> {_text(check.remedy)}</p>"
        if check.output:
            yield f"<p>The end of its output:</p>{_preformat(check.output, f'End of the output of {where}')}"
        if check.details and check.status == "fail":
            details = _preformat(json.dumps(dict(check.details), indent=2, ensure_ascii=False), f"Details of {where}")
            yield f"<details><summary>Details</summary>{details}</details>"
        yield "</div>"


def _figures(report: SmokeReport) -> Iterator[str]:
    if not report.figures:
        return
    yield "<h3>Figures</h3>"
    yield '<table class="full stack"><thead><tr><th scope="col">figure</th><th scope="col">measured</th>'
    yield '<th scope="col">against its reference</th></tr></thead><tbody>'
    yield from map(_figure, report.figures)
    yield "</tbody></table>"


def _figure(figure: Figure) -> str:
    off = figure.verdict in ("low", "high", "slow")
    known = "; ".join(filter(None, (words.reference_words(figure), words.peak_words(figure))))
    reference = _text(known) or '<span class="quiet">no reference</span>'
    if off:
        reference = f'<strong class="error">{figure.verdict}</strong>: {reference}'
    measured = f'<td class="number">{_text(words.measurement(figure))}</td>'
    return f'<tr><th scope="row">{_text(figure.name)}</th>{measured}<td>{reference}{chart.bar(figure)}</td></tr>'


def _curves(report: SmokeReport) -> Iterator[str]:
    charts: dict[str, dict[str, chart.Curve]] = {}
    for name, curve in report.curves.items():
        group, _, own = name.partition(".")
        charts.setdefault(group if own else "loss", {})[own or group] = curve
    if not charts:
        return
    yield '<h3>Loss</h3><div class="charts">'
    for group, of in charts.items():
        yield from _chart(group, of)
    yield "</div>"


def _chart(group: str, of: Mapping[str, chart.Curve]) -> Iterator[str]:
    legend = "".join(
        f"<li>{chart.legend_line(index)} {_text(line)}</li>" for index, line in enumerate(chart.curve_sentences(of))
    )
    caption = f"<figcaption><strong>{_text(group)}</strong><ul>{legend}</ul></figcaption>"
    yield f"<figure>{chart.curves(of)}{caption}</figure>"


def _all_checks(report: SmokeReport) -> Iterator[str]:
    if not report.checks:
        return
    yield f"<details><summary>All {words.plural(len(report.checks), 'check')}</summary>"
    yield '<table class="full stack"><thead><tr>'
    yield (
        "".join(f'<th scope="col">{head}</th>' for head in ("check", "result", "took", "why")) + "</tr></thead><tbody>"
    )
    yield from map(_check, sorted(report.checks, key=group_order))
    yield "</tbody></table></details>"


def _check(check: CheckResult) -> str:
    status = f'<td class="{check.status}">{words.MARK[check.status]} {words.STATUS[check.status]}</td>'
    took = f'<td class="number">{words.seconds(check.seconds)}</td>'
    return f'<tr><th scope="row">{_text(check.name)}</th>{status}{took}<td>{_text(check.reason or "")}</td></tr>'


def _preformat(text: str, label: str) -> str:
    """Render a text of several lines. It may scroll, so the keyboard reaches it."""
    return f'<pre tabindex="0" role="region" aria-label="{_text(label)}">{escape(words.clean_lines(text))}</pre>'


def _text(text: str) -> str:
    return escape(words.clean(text))
