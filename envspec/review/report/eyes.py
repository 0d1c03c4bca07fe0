"""The first screen: what a reviewer has to look at, the most serious first, each with a link to where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from envspec.base.texts import plural, shown
from envspec.review.diff import words
from envspec.review.report.model import Page

_SHOUTED = 3
"""How many of the loudest stand there by themselves."""


@dataclass(frozen=True)
class Eye:
    """One line: `section` is where it stands, `tone` is "high", "medium", "low" or "" for what isn't known."""

    section: str
    tone: str
    what: str
    names: str = ""


def needs_eyes(page: Page) -> tuple[Eye, ...]:
    """Give what needs eyes, the most serious first. Empty where nothing was found and nothing was left unasked."""
    order = {"high": 0, "medium": 1, "": 2}
    return tuple(sorted(_eyes(page), key=lambda one: order.get(one.tone, 3)))


def _eyes(page: Page) -> Iterator[Eye]:
    yield from _of_changes(page)
    yield from _of_audit(page)
    torches = {one.version.partition("+")[0] for row in page.packages if row.name == "torch" for one in row.variants}
    if len(torches) > 1:
        yield Eye("packages", "medium", "targets have different releases of torch", words.listed(sorted(torches)))
    for verdict, said in (("denied", "under a denied licence"), ("unlisted", "under a licence that isn't allowed")):
        names = [page.packages[n].name for one in page.licences if one.verdict == verdict for n in one.packages]
        if names:
            yield Eye("licences", "medium", f"{plural(len(names), 'package')} {said}", words.listed(names))


def _of_changes(page: Page) -> Iterator[Eye]:
    review = page.review
    if review is None:
        yield Eye("changes", "", f"not compared: {page.uncompared}")
        return
    shouted = review.shouted[:_SHOUTED]
    for row, fact in shouted:
        yield Eye("changes", "high", f"{row.name}: {words.fact(fact)}")
    if review.flaws:
        yield Eye(
            "changes", "high", f"{plural(len(review.flaws), 'fault')} of the lock itself", review.flaws[0].message
        )
    told = {row.name for row, _ in shouted}
    for risk in ("high", "medium"):
        names = [row.name for row in review.rows if row.risk == risk and not row.new and row.name not in told]
        if names:
            yield Eye("changes", risk, f"{plural(len(names), 'change')} at {risk} risk", words.listed(names))
    new = [row for row in review.rows if row.new]
    if new:
        tone = "high" if any(row.risk == "high" for row in new) else "medium"
        yield Eye("changes", tone, plural(len(new), "new package"), words.listed(row.name for row in new))
    wider = [fact for fact in (*review.settings, *review.gpu) if fact.risk != "low"]
    if wider:
        tone = "high" if any(fact.risk == "high" for fact in wider) else "medium"
        yield Eye("changes", tone, f"{plural(len(wider), 'change')} of spec, targets or GPUs", words.fact(wider[0]))


def _of_audit(page: Page) -> Iterator[Eye]:
    audit = page.audit
    if audit is None:
        yield Eye("vulnerabilities", "", "vulnerabilities not checked: no audit was given")
        return
    if audit.advisories:
        names = dict.fromkeys(page.packages[number].name for one in audit.advisories for number in one.packages)
        what = (
            "1 known vulnerability" if len(audit.advisories) == 1 else f"{len(audit.advisories)} known vulnerabilities"
        )
        yield Eye("vulnerabilities", "high", what, words.listed(names))
    if not audit.complete:
        yield Eye("vulnerabilities", "medium", "the audit is incomplete", shown("; ".join(audit.unread[:2])))
