"""Reports of any shape, for property tests. Their texts are foreign ones: control codes, markup, colours."""

from hypothesis import strategies as st

from envspec.prove.smoke.report.result import (
    GROUPS,
    CheckResult,
    Figure,
    ReportedGpu,
    ReportedMachine,
    Results,
    Run,
    SmokeReport,
    Torch,
)
from envspec.spec.model import Reference

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</style></pre></details></table>",
    "<!--",
    "]]>",
    "&amp;&#0;&#xD800;",
    "javascript:alert(1)",
    "\x1b[31mred\x1b[0m\x07\x00\ufffe",
    "\u202egnp.exe",
    "a\r\nb\rc\td\u2028e",
    "x" * 300,
]

numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(HOSTILE)
said = texts.filter(lambda text: bool(text.strip()))
names = said.map(lambda text: text.replace("\n", " ")).filter(lambda text: bool(text.strip()))
counts = st.integers(0, 2**50)
durations = st.floats(0, 1e6)


def maybe(of: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | of


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
references = st.builds(Reference, numbers, maybe(st.floats(-1, 0)), maybe(st.floats(0, 5)), st.sampled_from(["", "s"]))
machines = st.builds(
    ReportedMachine,
    names,
    names,
    maybe(texts),
    maybe(counts),
    maybe(counts),
    maybe(counts),
    maybe(texts),
    st.lists(st.builds(ReportedGpu, texts, st.sampled_from(["9.0", "12.0"]), counts), max_size=2).map(tuple),
)
torches = st.builds(Torch, texts, maybe(texts), maybe(texts), maybe(texts), st.lists(texts, max_size=3).map(tuple))
checks = st.builds(
    CheckResult,
    names,
    st.sampled_from(GROUPS),
    st.sampled_from(["pass", "fail", "skip"]),
    st.booleans(),
    durations,
    said,
    maybe(texts),
    st.dictionaries(texts, plain, max_size=3),
    maybe(texts),
)
figures = st.builds(Figure, names, maybe(numbers), st.sampled_from(["", "s", "<b>"]), maybe(references))
curves = st.dictionaries(texts, st.lists(maybe(numbers), max_size=12).map(tuple), max_size=4)


def reports() -> st.SearchStrategy[SmokeReport]:
    return st.builds(
        SmokeReport,
        spec=names,
        target=names,
        lock_digest=texts,
        fingerprint=texts,
        workload=names,
        steps=counts,
        device=st.sampled_from(["cpu", "cuda"]),
        quick=st.booleans(),
        seed=st.integers(-(2**40), 2**40),
        started=st.just("2026-11-20T08:30:00Z"),
        seconds=durations,
        machine=machines,
        torch=maybe(torches),
        checks=st.lists(checks, max_size=5, unique_by=lambda check: check.name).map(tuple),
        figures=st.lists(figures, max_size=3, unique_by=lambda figure: figure.name).map(tuple),
        curves=curves,
        complete=st.just(True),
        cuda=maybe(texts),
    )


def _finished(report: SmokeReport, runner: str, where: str | None, log: str | None) -> Run:
    return Run.from_report(report.spec, report.target, runner, report, where=where, log=log)


runs = st.builds(_finished, reports(), names, maybe(texts), maybe(texts)) | st.builds(
    Run, names, names, names, st.sampled_from(["error", "skip"]), maybe(texts), said
)


def results() -> st.SearchStrategy[Results]:
    return st.builds(Results, st.lists(runs, max_size=3).map(tuple))
