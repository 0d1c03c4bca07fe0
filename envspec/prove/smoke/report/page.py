"""Smoke runs as one self-contained page: no script, no network, light and dark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from itertools import groupby

from envspec.prove.smoke.report import chart, words
from envspec.prove.smoke.report.result import GROUPS, CheckResult, Figure, Results, Run, SmokeReport, findings

STYLE = """
:root {
  color-scheme: light dark; --line: #8886; --soft: #8882; --page: #fff; --text: #1b1b1b; --quiet: #595959;
  --fail: #b71c1c; --error: #7a4700; --pass: #1b6e25; --skip: #595959; --link: #0b57b0;
  --l0: #0b62c4; --l1: #b45309; --l2: #15803d; --l3: #a21caf; --l4: #4b5563; --l5: #be123c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16181b; --text: #e8e8e8; --quiet: #b0b0b0; --fail: #ff8a80; --error: #ffcc66; --pass: #81c784;
    --skip: #b0b0b0; --link: #8ab8ff;
    --l0: #6cb2ff; --l1: #ffb454; --l2: #7ddc8f; --l3: #e9a8ff; --l4: #c0c7d0; --l5: #ff9aa8;
  }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--page); color: var(--text); overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 0; display: inline; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } p { margin: .3rem 0; } a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.quiet { color: var(--quiet); }
.pass { color: var(--pass); } .fail { color: var(--fail); } .error { color: var(--error); }
.skip { color: var(--skip); }
.banner { border-left: .4rem solid currentColor; padding: .3rem 0 .3rem .8rem; margin: 0 0 1rem; }
.banner h1 { color: inherit; }
.alarm { border: 2px solid var(--error); border-radius: .4rem; padding: .5rem 1rem; }
.said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.scroll { overflow-x: auto; position: relative; }
table { border-collapse: collapse; } table.full { width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
table.full td, table.full th { overflow-wrap: normal; }
caption { text-align: left; color: var(--quiet); padding-bottom: .3rem; }
.matrix th, .matrix td { padding: .25rem .35rem; }
.matrix td { text-align: center; white-space: nowrap; border-left: 1px solid var(--soft); }
.matrix thead th { white-space: nowrap; }
.matrix tbody th { font-weight: 400; min-width: 9rem; max-width: 18rem; overflow-wrap: anywhere; }
.matrix .check { vertical-align: bottom; font-weight: 400; border-left: 1px solid var(--soft); }
.matrix .check span { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; max-height: 14rem; }
.matrix .group { font-size: .8rem; border-left: 1px solid var(--line); overflow-wrap: normal; }
.matrix td a { color: inherit; font-weight: 700; padding: .1rem .3rem; }
.run { border-top: 1px solid var(--line); padding: .6rem 0; }
summary { cursor: pointer; padding: .2rem 0; }
.finding { border-left: .25rem solid var(--line); padding: .1rem 0 .1rem .8rem; margin: .8rem 0; }
.finding.fail { border-color: var(--fail); color: inherit; } .finding.skip { color: inherit; }
.finding h4 { font-size: 1rem; margin: 0; }
pre { background: var(--soft); padding: .6rem; margin: .4rem 0; overflow: auto; max-height: 24rem; font-size: .85rem;
  white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1rem; margin: .4rem 0; }
dt { color: var(--quiet); } dd { margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption ul { list-style: none; padding: 0; margin: .2rem 0; }
.chart { width: 100%; max-width: 32rem; height: auto; display: block; }
.chart text { fill: var(--quiet); font: 13px system-ui, sans-serif; }
.grid { stroke: var(--line); stroke-width: .5; } .axis { stroke: var(--quiet); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .key { width: 28px; height: 10px; }
.l0 { stroke: var(--l0); } .l1 { stroke: var(--l1); stroke-dasharray: 7 3; }
.l2 { stroke: var(--l2); stroke-dasharray: 2 3; }
.l3 { stroke: var(--l3); stroke-dasharray: 10 3 2 3; } .l4 { stroke: var(--l4); stroke-dasharray: 14 4; }
.l5 { stroke: var(--l5); stroke-dasharray: 4 2; }
.dot { fill: var(--page); stroke-width: 2; stroke-dasharray: none; }
.bar { width: 160px; height: 16px; display: block; margin-top: .25rem; }
.allowed { fill: var(--line); } .value { fill: var(--l0); } .value.low, .value.high { fill: var(--error); }
.mark { stroke: var(--text); stroke-width: 2; }
td.number, .nobreak { white-space: nowrap; font-variant-numeric: tabular-nums; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; } dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: .3rem; }
  .stack thead { position: absolute; clip-path: inset(50%); } .stack tr { display: block; padding: .3rem 0;
  border-bottom: 1px solid var(--line); } .stack th, .stack td { display: block; border: 0; padding: 0; }
}
@media print {
  @page { size: landscape; margin: 12mm; }
  :root { color-scheme: light; }
  body { font-size: 9pt; max-width: none; margin: 0; padding: 0; }
  .scroll { overflow: visible; } pre { max-height: none; }
  .matrix th, .matrix td { padding: .1rem .2rem; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .finding, figure, tr { break-inside: avoid; } h2, h3, h4, summary { break-after: avoid; }
}
"""


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

_OPEN = 4
"""The number of runs up to which all are shown unfolded; with more, only those that didn't pass."""


def page(results: Results) -> str:
    """Render the page. All foreign text is escaped; the page's own policy forbids scripts and any loading."""
    summary = results.summary
    title = _text(summary.headline)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>Smoke runs: {title}</title>",
            f"<style>{STYLE}</style>",
            "</head>",
            "<body>",
            "<main>",
            f'<header class="banner {summary.verdict}">',
            f"<p>Smoke runs: {words.STATUS[summary.verdict]}</p>",
            f"<h1>{title}</h1>",
            "</header>",
            *_alarms(results),
            *_matrix(results),
            *(line for number, run in enumerate(results.runs, 1) for line in _run(run, number, len(results.runs))),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _alarms(results: Results) -> Iterator[str]:
    summary = results.summary
    if summary.without_gpu and summary.runs > 1:
        which = [
            run.name for run in results.runs if run.status in ("pass", "fail") and run.report and run.report.without_gpu
        ]
        yield f'<p class="alarm">No GPU check ran in {_text(", ".join(which))}: these prove nothing about a GPU.</p>'
    if summary.figures_off:
        are = "is" if summary.figures_off == 1 else "are"
        told = f"{words.plural(summary.figures_off, 'figure')} {are} outside the reference. Figures don't decide."
        yield f'<p class="alarm">{told}</p>'
    for run in results.runs:
        for told in run.report.slow if run.report else ():
            yield f'<p class="alarm">Slow: {_text(told)} ({_text(run.name)}).</p>'


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
    told = findings(run.checks)
    if not told:
        return
    yield "<h3>Findings</h3>"
    places = {check.name: index for index, check in enumerate(run.checks)}
    for check in told:
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
    told = _text(known) or '<span class="quiet">no reference</span>'
    if off:
        told = f'<strong class="error">{figure.verdict}</strong>: {told}'
    measured = f'<td class="number">{_text(words.measurement(figure))}</td>'
    return f'<tr><th scope="row">{_text(figure.name)}</th>{measured}<td>{told}{chart.bar(figure)}</td></tr>'


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
    yield from map(_check, sorted(report.checks, key=_group_order))
    yield "</tbody></table></details>"


def _check(check: CheckResult) -> str:
    status = f'<td class="{check.status}">{words.MARK[check.status]} {words.STATUS[check.status]}</td>'
    took = f'<td class="number">{words.seconds(check.seconds)}</td>'
    return f'<tr><th scope="row">{_text(check.name)}</th>{status}{took}<td>{_text(check.reason or "")}</td></tr>'


def _group_order(check: CheckResult) -> int:
    return GROUPS.index(check.group) if check.group in GROUPS else len(GROUPS)


def _preformat(text: str, label: str) -> str:
    """Render a text of several lines. It may scroll, so the keyboard reaches it."""
    return f'<pre tabindex="0" role="region" aria-label="{_text(label)}">{escape(words.clean_lines(text))}</pre>'


def _text(text: str) -> str:
    return escape(words.clean(text))
