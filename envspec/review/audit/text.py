"""An audit for people: one paragraph per finding, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import fill

from envspec.base.texts import clean_text, few, printable
from envspec.review.audit.model import subject
from envspec.review.audit.report import AuditReport

_WIDTH = 80


def lines(report: AuditReport, width: int | None, coloured: Callable[[str], str]) -> Iterator[str]:
    """Render the report in so many columns, 80 for None. `coloured` colours a level for a terminal."""

    def wrap(text: str, indent: str = "") -> str:
        return fill(
            clean_text(text),
            width or _WIDTH,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_on_hyphens=False,
            break_long_words=False,
        )

    read = f", as of {report.database.oldest[:10]}" if report.database.oldest else ""
    targets = ", ".join(report.targets)
    yield wrap(f"{report.spec}: {len(report.names)} packages of {targets} ({report.database.name}{read})")
    for one in report.findings:
        level = "ignored" if one.accepted is not None else one.severity
        where = "" if one.targets in ((), report.targets) else f" [{', '.join(one.targets)}]"
        sources = one.evidence.package.builds if one.package else ()
        builds = f" (builds {', '.join(sources)})" if sources else ""
        yield ""
        yield f"{coloured(level)}: {printable(f'{subject(one)}{builds}{where}')}  [{one.code}]"
        yield wrap(one.message, "  ")
        if one.accepted is not None:
            yield wrap(f"ignored: {one.accepted}", "  ")
        elif one.remedy:
            yield wrap(f"remedy: {one.remedy.replace('SPEC', report.spec)}", "  ")
    if report.not_asked or not report.findings:
        yield ""
    for one_reason in report.not_asked:
        # a target's conda packages are hundreds
        yield wrap(f"not checked for {', '.join(one_reason.codes)}: {one_reason.reason}: {few(one_reason.packages)}")
    if not report.findings and not report.unread:
        yield "nothing found"
