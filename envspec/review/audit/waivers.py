"""What a spec takes knowingly, applied to what an audit found: who is silenced, where, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from envspec.packages.requirement import canonical_name
from envspec.review.audit.model import AuditFinding, Facts
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

    def is_of(self, finding: AuditFinding) -> bool:
        if self.code is None:
            return finding.advisory is not None and self.advisory in finding.advisory.names
        return finding.code == self.code and canonical_name(finding.subject) == self.package

    def has_ended(self, now: datetime) -> bool:
        return self.waiver.until is not None and f"{now:%Y-%m-%d}" > self.waiver.until


def applied(found: Iterable[AuditFinding], accepted: Audit, now: datetime) -> tuple[AuditFinding, ...]:
    """Mark what the spec takes knowingly. A finding that it takes in some targets only becomes two."""
    waivers = [one for one in _named(accepted) if not one.has_ended(now)]
    return tuple(part for finding in found for part in _applied(finding, waivers))


def about_waivers(
    found: Sequence[AuditFinding], accepted: Audit, facts: Facts, now: datetime
) -> Iterator[AuditFinding]:
    """Yield a finding for each waiver that has ended, and for each that no finding of a whole audit needs: it would
    silence a later one that the user never looked at. `found` are the findings of all the lock's targets.

    What couldn't be looked for isn't known to be unneeded.
    """
    for one in _named(accepted):
        if one.has_ended(now):
            yield AuditFinding(
                ENDED,
                "warning",
                None,
                f"{one.title} ended on {one.waiver.until}: {one.waiver.reason}",
                "look at it again: remove it, or move `until`",
            )
        elif _was_looked_for(one, facts) and not any(
            one.is_of(finding) and _where(finding, one.waiver)[0] for finding in found
        ):
            where = f" in {', '.join(one.waiver.targets)}" if one.waiver.targets else ""
            yield AuditFinding(
                UNUSED, "warning", None, f"{one.title} is for nothing that was found{where}", "remove it from the spec"
            )


def _named(accepted: Audit) -> Iterator[_Named]:
    for name, waiver in accepted.ignore.items():
        yield _Named(f"[audit.ignore] {name}", waiver, advisory=name)
    for (package, code), waiver in accepted.accept.items():
        yield _Named(f"[audit.accept.{package}] {code}", waiver, code, package)


def _was_looked_for(one: _Named, facts: Facts) -> bool:
    if one.code is None:
        return not facts.unread
    if one.code in ("yanked", "young"):
        return facts.files is not None and not facts.unread and not facts.unread_files
    return True


def _applied(finding: AuditFinding, waivers: Iterable[_Named]) -> Iterator[AuditFinding]:
    rest = finding
    for one in waivers:
        if rest.package is None or not one.is_of(rest):
            continue
        inside, outside = _where(rest, one.waiver)
        if inside:
            yield replace(rest, package=replace(rest.package, targets=inside), ignored=one.waiver.reason)
        if not outside:
            return
        rest = replace(rest, package=replace(rest.package, targets=outside))
    yield rest


def _where(finding: AuditFinding, waiver: Waiver) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a finding's targets into those of a waiver and the others."""
    held = finding.package.targets if finding.package else ()
    inside = tuple(name for name in held if not waiver.targets or name in waiver.targets)
    return inside, tuple(name for name in held if name not in inside)
