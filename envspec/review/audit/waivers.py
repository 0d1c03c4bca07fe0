"""A spec's waivers, applied to an audit's findings: the finding that each silences, where, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from envspec.base.finding import Finding
from envspec.packages.requirement import canonical_name
from envspec.review.audit.model import Facts, Risk
from envspec.spec.model import Audit, Waiver

ENDED, UNUSED = "waiver-ended", "waiver-unused"


@dataclass(frozen=True)
class _Named:
    """A waiver under its place in the spec. `code` is that of the findings it is for, None for an advisory's."""

    title: str
    waiver: Waiver
    code: str | None = None
    package: str | None = None
    advisory: str | None = None

    def is_of(self, finding: Finding) -> bool:
        if self.code is None:
            return bool((advisory := finding.evidence.advisory) and self.advisory in advisory.names)
        return finding.code == self.code and canonical_name(finding.package or "") == self.package

    def has_ended(self, now: datetime) -> bool:
        return self.waiver.until is not None and f"{now:%Y-%m-%d}" > self.waiver.until


def apply_waivers(found: Iterable[Finding], accepted: Audit, now: datetime) -> tuple[Finding, ...]:
    """Mark what the spec takes knowingly. A finding that it takes in some targets only becomes two."""
    waivers = [one for one in _waivers(accepted) if not one.has_ended(now)]
    return tuple(part for finding in found for part in _apply(finding, waivers))


def about_waivers(found: Sequence[Finding], accepted: Audit, facts: Facts, now: datetime) -> Iterator[Finding]:
    """Yield a finding for each waiver that has ended, and for each that no finding of a whole audit needs: it would
    silence a later one that the user never looked at. `found` are the findings of all the lock's targets.

    What couldn't be looked for isn't known to be unneeded.
    """
    for one in _waivers(accepted):
        if one.has_ended(now):
            message = f"{one.title} ended on {one.waiver.until}: {one.waiver.reason}"
            yield Finding(
                "warning", ENDED, message, remedy="look at it again: remove it, or move `until`", evidence=Risk()
            )
        elif _is_covered(one, facts) and not any(
            one.is_of(finding) and _where(finding, one.waiver)[0] for finding in found
        ):
            where = f" in {', '.join(one.waiver.targets)}" if one.waiver.targets else ""
            message = f"{one.title} is for nothing that was found{where}"
            yield Finding("warning", UNUSED, message, remedy="remove it from the spec", evidence=Risk())


def _waivers(accepted: Audit) -> Iterator[_Named]:
    for name, waiver in accepted.ignore.items():
        yield _Named(f"[audit.ignore] {name}", waiver, advisory=name)
    for (package, code), waiver in accepted.accept.items():
        yield _Named(f"[audit.accept.{package}] {code}", waiver, code, package)


def _is_covered(one: _Named, facts: Facts) -> bool:
    if one.code is None:
        return not facts.unread
    if one.code in ("yanked", "young"):
        return facts.files is not None and not facts.unread and not facts.unread_files
    return True


def _apply(finding: Finding, waivers: Iterable[_Named]) -> Iterator[Finding]:
    rest = finding
    for one in waivers:
        if not one.is_of(rest):
            continue
        inside, outside = _where(rest, one.waiver)
        if inside:
            yield replace(rest, targets=inside, accepted=one.waiver.reason)
        if not outside:
            return
        rest = replace(rest, targets=outside)
    yield rest


def _where(finding: Finding, waiver: Waiver) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a finding's targets into those of a waiver and the others."""
    inside = tuple(name for name in finding.targets if not waiver.targets or name in waiver.targets)
    return inside, tuple(name for name in finding.targets if name not in inside)
