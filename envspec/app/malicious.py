"""The refusal by `lock`, `install`, `run`, `bundle` and `image` of releases that are reported as malicious."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from envspec.app.policy import ask as whom_to_ask, refuse_addresses
from envspec.app.site_policy import site_policy
from envspec.base.errors import AnswerNo, OutsideError, Place
from envspec.base.finding import Finding, note, warning
from envspec.base.texts import clean_text, printable
from envspec.configuration.settings import load_settings
from envspec.install.bundle import carried_facts
from envspec.lock.model import LockedTarget
from envspec.review.audit.malicious import look_for_malicious
from envspec.review.audit.model import packages, subject
from envspec.review.audit.osv import service_of
from envspec.review.audit.store import Stored, kept_files, load
from envspec.spec.model import Audit, Spec

if TYPE_CHECKING:
    from envspec.review.policy.model import Policy

_SERVICE = "osv"
"""Its name in a policy's `[indexes.at]`."""


class Malicious(AnswerNo):
    """A release is known to be malicious. `findings` has all of them."""

    def __init__(self, findings: tuple[Finding, ...], what: str) -> None:
        self.findings = findings
        lines = [f"{subject(finding)}: {clean_text(finding.message)}" for finding in findings]
        first = findings[0].evidence.advisory.id
        super().__init__(
            "\n  ".join(["known to be malicious, and so neither locked nor installed:", *map(printable, lines)]),
            hint=f"keep it out, for example with a constraint; if the report is wrong: [audit.ignore] {first} = why",
            place=Place(what),
        )


def refuse_malicious(
    spec: Spec,
    targets: Iterable[LockedTarget],
    path: str,
    *,
    offline: bool,
    quiet: bool = False,
    carried: Stored | None = None,
) -> list[Finding]:
    """Refuse releases that are reported as malicious, and report where the service that the user named couldn't be
    asked.

    A service without an answer is an error only where the site's policy demands one and none is stored. Raises
    Malicious, OutsideError.
    """
    policy, now, settings = site_policy(), datetime.now(timezone.utc), load_settings(os.environ)
    demanded = policy is not None and policy.advisories
    service = named_service(policy)
    if policy is not None and service and policy.places.get(_SERVICE):
        refuse_addresses(policy, {_SERVICE: service}, path)
    if service is None and not demanded and not kept_files(settings.cache()):
        # nobody to ask, nothing known, and nobody to tell
        return []
    audited = packages(targets)
    # where the site asks, a spec's waivers are the repository's word
    accepted = Audit() if demanded else spec.audit
    known = carried or Stored()
    for place in carried_facts(settings.find_links):
        with suppress(OutsideError):
            known = load(place).with_more(known)
    report: list[Finding] = []
    look = look_for_malicious(
        audited,
        accepted,
        os.environ,
        now,
        service=service,
        offline=offline,
        carried=known.answers,
        on_trouble=lambda trouble: report.append(warning(str(trouble))),
    )
    if look.findings:
        raise Malicious(look.findings, path)
    if look.unknown and policy is not None and demanded:
        names = printable(", ".join(f"{release.name} {release.version}" for release in look.unknown))
        raise OutsideError(
            f"{policy.path} wants releases looked up in OSV's reports ([releases] ask-advisories), and of {names} "
            f"nothing is known: {look.unasked}",
            hint=whom_to_ask(policy),
            place=Place(path),
        )
    if look.unasked and demanded:
        report.append(note(f"OSV's malware reports are those of {look.since}: {printable(look.unasked)}"))
    elif look.unasked and service and not quiet:
        unasked = f"not all releases were looked up in OSV's malware reports: {printable(look.unasked)}"
        report.append(note(unasked))
    return report


def named_service(policy: Policy | None) -> str | None:
    """Give the address of OSV's service: the user's, else the policy's; None where neither names one."""
    return service_of(os.environ) or (policy.places.get(_SERVICE) if policy is not None else None)
