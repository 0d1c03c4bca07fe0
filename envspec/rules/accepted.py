"""Findings that a spec takes knowingly: `[pip] accept = { code = "reason" }`, or `{ code = { package = "reason" } }`.

Only what a rule *expects to be wrong* for most, and a person may know to be safe in their case, can be accepted. What
says that the target can't work at all, that the CPU build would run where CUDA was asked for, or that the lock isn't
what its indexes serve, can't: no reason changes that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from envspec.base.codes import meanings
from envspec.base.errors import Place, SpecError
from envspec.base.finding import Finding
from envspec.base.texts import nearest
from envspec.spec.model import of_one


def apply_acceptances(findings: Iterable[Finding], accept: Mapping[str, str]) -> tuple[Finding, ...]:
    """Turn the findings that the spec accepts into notes with its reason; the others stay as they are."""
    return tuple(
        replace(one, severity="info", message=f"{one.message}; accepted [{one.code}]: {reason}", remedy=None)
        if one.severity != "info" and (reason := reason_for(one.code, one.package, accept)) is not None
        else one
        for one in findings
    )


def reason_for(code: str, package: str | None, accept: Mapping[str, str]) -> str | None:
    """Give the reason for which a finding is accepted: of this package, or whatever it is about. None if it isn't."""
    own = accept.get(of_one(code, package)) if package else None
    return accept.get(code) if own is None else own


def hint_to_accept(finding: Finding) -> str | None:
    """Give a finding's remedy, and for one that can be accepted, how."""
    how = hint_to_keep(finding)
    if finding.severity != "error" or how is None:
        return finding.remedy
    return f"{finding.remedy}; {how}" if finding.remedy else how


def hint_to_keep(finding: Finding) -> str | None:
    """Say how to accept a finding; None for one that can't be."""
    meaning = meanings().get(finding.code)
    if meaning is None or meaning.refused:
        return None
    what = f'{{ {finding.package} = "why" }}' if finding.package else '"why"'
    return f"if you know that it is safe here, add to [pip]: accept = {{ {finding.code} = {what} }}"


def refuse_unacceptable(code: str, place: Place | None) -> None:
    """Raise SpecError for a code that can't be accepted, or that doesn't exist."""
    code = code.partition(":")[0]
    known = meanings()
    one = known.get(code)
    if one is None:
        names = [name for name, other in known.items() if not other.refused]
        meant = nearest(code, names)
        hint = f'did you mean "{meant}"?' if meant else f"these can be accepted: {', '.join(sorted(names))}"
        raise SpecError(f'accept: there is no finding "{code}"', hint=hint, place=place)
    if one.refused:
        raise SpecError(f'accept: "{code}" can\'t be accepted: {one.refused}', hint=one.do, place=place)
