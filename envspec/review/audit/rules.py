"""The judgement of a lock's packages: a pure function of the packages, the facts, the spec's `[audit]` and the day."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.codes import meanings
from envspec.base.finding import LEVELS, Finding, Severity
from envspec.packages.licences import is_acceptable
from envspec.packages.requirement import canonical_name
from envspec.review.audit.model import Advisory, AuditedPackage, Facts, FileFacts, NotAsked, Risk, subject
from envspec.spec.model import Audit, Waiver
from envspec.spec.newer import moment_of

# A spec's waivers, applied to an audit's findings: the finding that each silences, where, and until when.


ENDED, UNUSED = "waiver-ended", "waiver-unused"


class _Named(Struct, frozen=True):
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


def apply_waivers(findings: Iterable[Finding], accepted: Audit, now: datetime) -> tuple[Finding, ...]:
    """Mark the findings that the spec accepts. A finding that the spec accepts in some targets only becomes two."""
    waivers = [named for named in _waivers(accepted) if not named.has_ended(now)]
    return tuple(part for finding in findings for part in _apply(finding, waivers))


def about_waivers(findings: Sequence[Finding], accepted: Audit, facts: Facts, now: datetime) -> Iterator[Finding]:
    """Yield a finding for each waiver that has ended, and for each that no finding of a whole audit needs: such a
    waiver would silence a later finding that the user never saw. `findings` are the findings of all the lock's targets.

    A waiver for findings that couldn't be looked for isn't reported.
    """
    for named in _waivers(accepted):
        if named.has_ended(now):
            message = f"{named.title} ended on {named.waiver.until}: {named.waiver.reason}"
            yield Finding(
                "warning", ENDED, message, remedy="look at it again: remove it, or move `until`", evidence=Risk()
            )
        elif _is_covered(named, facts) and not any(
            named.is_of(finding) and _where(finding, named.waiver)[0] for finding in findings
        ):
            where = f" in {', '.join(named.waiver.targets)}" if named.waiver.targets else ""
            message = f"{named.title} is for nothing that was found{where}"
            yield Finding("warning", UNUSED, message, remedy="remove it from the spec", evidence=Risk())


def _waivers(accepted: Audit) -> Iterator[_Named]:
    for name, waiver in accepted.ignore.items():
        yield _Named(f"[audit.ignore] {name}", waiver, advisory=name)
    for (package, code), waiver in accepted.accept.items():
        yield _Named(f"[audit.accept.{package}] {code}", waiver, code, package)


def _is_covered(named: _Named, facts: Facts) -> bool:
    if named.code is None:
        return not facts.unread
    if named.code == "yanked":
        return facts.files is not None and not facts.unread and not facts.unread_files
    return True


def _apply(finding: Finding, waivers: Iterable[_Named]) -> Iterator[Finding]:
    rest = finding
    for named in waivers:
        if not named.is_of(rest):
            continue
        inside, outside = _where(rest, named.waiver)
        if inside:
            yield replace(rest, targets=inside, accepted=named.waiver.reason)
        if not outside:
            return
        rest = replace(rest, targets=outside)
    yield rest


def _where(finding: Finding, waiver: Waiver) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a finding's targets into those of a waiver and the others."""
    inside = tuple(name for name in finding.targets if not waiver.targets or name in waiver.targets)
    return inside, tuple(name for name in finding.targets if name not in inside)


_SUBJECT = "An audit"

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def audit_codes() -> Mapping[str, str]:
    """Give the meaning of each code that an audit may find, in the table's order."""
    return {meaning.code: meaning.means for meaning in meanings().values() if meaning.subject == _SUBJECT}


def findings(packages: Iterable[AuditedPackage], facts: Facts, accepted: Audit, now: datetime) -> tuple[Finding, ...]:
    """Return all findings, the worst first, then by package; ignored ones last."""
    unwaived = [finding for package in packages for finding in _of(package, facts, accepted)]
    return in_order(apply_waivers(unwaived, accepted, now))


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings: the worst first, then by package; ignored ones last."""
    order, levels = list(audit_codes()), list(LEVELS)
    return tuple(
        sorted(
            findings,
            key=lambda finding: (
                finding.accepted is not None,
                -levels.index(finding.severity),
                order.index(finding.code),
                subject(finding),
                advisory.id if (advisory := finding.evidence.advisory) else "",
            ),
        )
    )


def unchecked_packages(packages: Iterable[AuditedPackage], facts: Facts) -> tuple[NotAsked, ...]:
    """Return the packages that couldn't be checked, by the findings concerned and the reason."""
    order = list(audit_codes())
    asked_in_vain = not any(answer.known for answer in facts.answers.values())
    names: dict[tuple[str, tuple[str, ...]], dict[str, None]] = {}
    for package in packages:
        reasons = {"vulnerability": package.unknown} if package.release is None else {}
        if package.release and not asked_in_vain and not getattr(facts.answers.get(package.release), "known", True):
            reasons["vulnerability"] = "releases that PyPI doesn't have"
        if reason := _reason_for_files(package, facts):
            reasons["yanked"] = reason
        for reason in dict.fromkeys(reasons.values()):
            codes = tuple(code for code in order if reasons.get(code) == reason)
            names.setdefault((reason, codes), {})[package.name] = None
    ordered = sorted(names, key=lambda key: (order.index(key[1][0]), key[0]))
    return tuple(NotAsked(codes, reason, tuple(names[reason, codes])) for reason, codes in ordered)


def _reason_for_files(package: AuditedPackage, facts: Facts) -> str:
    """Give why it can't be known whether a package was yanked; empty where it is."""
    if facts.files is None:
        return "any files (--skip-files)"
    if package.kind == "conda":
        return "conda packages"
    if not package.indexed_files:
        return package.unknown or "packages whose files aren't known"
    known = [fact for artifact in package.indexed_files if (fact := facts.files.get((package.index, artifact.file)))]
    if any(not fact.yanks for fact in known):
        return "builds of the PyTorch index, about which envspec knows only its own facts"
    return ""


def oldest(packages: Iterable[AuditedPackage], facts: Facts) -> str | None:
    """Return the time of the oldest answer about the packages (RFC 3339, UTC); None without answers."""
    answers = (facts.answers.get(package.release) for package in packages if package.release is not None)
    return min((answer.fetched for answer in answers if answer is not None and answer.known), default=None)


def _of(package: AuditedPackage, facts: Facts, accepted: Audit) -> Iterator[Finding]:
    answer = facts.answers.get(package.release) if package.release else None
    for advisory in merge_aliases(answer.advisories if answer else ()):
        yield _malicious(package, advisory) if is_malicious(advisory) else _vulnerability(package, advisory)
    yield from _licence(package, accepted)
    yield from _judge_yank(package, facts)


def _finding(
    code: str, severity: Severity, package: AuditedPackage, message: str, remedy: str, advisory: Advisory | None = None
) -> Finding:
    about = Risk(package, advisory)
    return Finding(
        severity, code, message, remedy=remedy, targets=package.targets, package=package.name, evidence=about
    )


def merge_aliases(advisories: Sequence[Advisory]) -> tuple[Advisory, ...]:
    """Yield each vulnerability once: OSV's sources describe many twice, and name the others in the aliases."""
    out: list[Advisory] = []
    for advisory in sorted(advisories, key=lambda advisory: advisory.id):
        same = next((known for known in out if known.names & advisory.names), None)
        if same is None:
            out.append(advisory)
            continue
        names = (same.names | advisory.names) - {same.id}
        out[out.index(same)] = replace(
            same,
            aliases=tuple(sorted(names)),
            summary=same.summary or advisory.summary,
            fixed_in=same.fixed_in or advisory.fixed_in,
            link=same.link or advisory.link,
            severity=same.severity or advisory.severity,
        )
    return tuple(out)


def is_malicious(advisory: Advisory) -> bool:
    """Return whether an advisory is a report that the release itself is malicious, by its identifier
    (github.com/ossf/malicious-packages)."""
    return any(name.startswith("MAL-") for name in advisory.names)


def _malicious(package: AuditedPackage, advisory: Advisory) -> Finding:
    also = f" ({', '.join(advisory.aliases)})" if advisory.aliases else ""
    summary = f": {advisory.summary}" if advisory.summary else ""
    remedy = "don't install it; where it was installed, its code ran: change what that machine can reach"
    return _finding("malicious", "error", package, f"{advisory.id}{also}{summary}", remedy, advisory)


def _vulnerability(package: AuditedPackage, advisory: Advisory) -> Finding:
    also = f" ({', '.join(advisory.aliases)})" if advisory.aliases else ""
    severity = f", {advisory.severity}" if advisory.severity else ""
    summary = f": {advisory.summary}" if advisory.summary else ""
    remedy = (
        f"fixed in {', '.join(advisory.fixed_in)}: {_upgrade(package)}"
        if advisory.fixed_in
        else "no release fixes it yet"
    )
    message = f"{advisory.id}{also}{severity}{summary}"
    return _finding("vulnerability", "error", package, message, remedy, advisory)


def _upgrade(package: AuditedPackage) -> str:
    """Return the command that takes a newer release. A build environment moves with its source."""
    names = package.builds or (package.name,)
    return f"envspec lock SPEC {' '.join(f'--upgrade-package {name}' for name in names)}"


def _licence(package: AuditedPackage, accepted: Audit) -> Iterator[Finding]:
    if package.builds:
        # it is in no environment that anybody gets, and a lock has no licence of it
        return
    licence = accepted.licence_of(package.name, package.licence)
    if licence is None:
        if accepted.allow_licences:
            key = package.name if _BARE_KEY.fullmatch(package.name) else f'"{package.name}"'
            remedy = f'say what it is: [audit] licences = {{ {key} = "…" }}'
            yield _finding("licence-unknown", "error", package, "its metadata names no licence", remedy)
        return
    if (accepted.allow_licences or accepted.deny_licences) and not is_acceptable(
        licence, accepted.allow_licences, accepted.deny_licences
    ):
        denied = not is_acceptable(licence, (), accepted.deny_licences)
        verdict = "[audit] deny-licences names it" if denied else "[audit] allow-licences doesn't name it"
        remedy = "remove the package, or change the list"
        yield _finding("licence", "error", package, f'its licence is "{licence}", and {verdict}', remedy)


def _judge_yank(package: AuditedPackage, facts: Facts) -> Iterator[Finding]:
    files = facts.files or {}
    known = (files.get((package.index, artifact.file)) for artifact in package.files)
    yanked = next((fact.yanked for fact in known if fact is not None and fact.yanked is not None), None)
    if yanked is not None:
        reason = f": {yanked}" if yanked else ", without a reason given"
        yield _finding("yanked", "warning", package, f"its publisher yanked it{reason}", _upgrade(package))


def newest_upload_day(packages: Iterable[AuditedPackage], facts: Facts) -> str | None:
    """Return the day on which the newest of the packages' files was uploaded (2026-11-21); None where no index says."""
    files = facts.files or {}
    known = (files.get((package.index, artifact.file)) for package in packages for artifact in package.files)
    newest = _newest(fact for fact in known if fact is not None)
    return None if newest is None else f"{newest:%Y-%m-%d}"


def _newest(files: Iterable[FileFacts]) -> datetime | None:
    return max((time for facts in files if (time := moment_of(facts.uploaded)) is not None), default=None)
