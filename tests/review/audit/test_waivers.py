"""What a spec takes knowingly: where, until when, and that nothing stays in it which no finding needs."""

from datetime import timedelta

from audit_cases import NOW, about
from msgspec.structs import replace
from support.audit import package

from envspec.base.finding import Finding
from envspec.review.audit.model import Advisory, AuditedPackage, Facts, FileFacts
from envspec.review.audit.rules import about_waivers, findings
from envspec.spec.model import Audit, Waiver

LIB = replace(package("lib"), targets=("cpu", "gpu"))
FLAW = about(LIB, Advisory("PYSEC-1", ("CVE-1",)))
ENDS = "2026-11-20"
"""NOW's own day."""


def found(accepted: Audit, facts: Facts = FLAW, *packages: AuditedPackage, days: int = 0) -> list[tuple[str, ...]]:
    now = NOW + timedelta(days=days)
    told = findings(packages or (LIB,), facts, accepted, now)
    return [_row(one) for one in (*told, *about_waivers(told, accepted, facts, now))]


def _row(one: Finding) -> tuple[str, ...]:
    return (one.code, *one.targets, *(("ignored",) if one.accepted is not None else ()))


def test_it_counts_through_its_last_day_and_then_is_told() -> None:
    accepted = Audit(ignore={"CVE-1": Waiver("not reached", ENDS)})
    assert found(accepted) == [("vulnerability", "cpu", "gpu", "ignored")]
    assert found(accepted, days=1) == [("vulnerability", "cpu", "gpu"), ("waiver-ended",)]


def test_in_other_targets_the_finding_counts() -> None:
    accepted = Audit(ignore={"PYSEC-1": Waiver("no server there", targets=("cpu",))})
    assert found(accepted) == [("vulnerability", "gpu"), ("vulnerability", "cpu", "ignored")]


def test_two_for_a_target_each() -> None:
    accepted = Audit(ignore={"PYSEC-1": Waiver("a", targets=("cpu",)), "CVE-1": Waiver("b", targets=("gpu",))})
    assert found(accepted) == [("vulnerability", "cpu", "ignored"), ("vulnerability", "gpu", "ignored")]


def test_what_no_finding_needs_is_one() -> None:
    unused = Audit(ignore={"CVE-2": Waiver("gone")}, accept={("lib", "yanked"): Waiver("gone")})
    assert found(unused, Facts()) == [("waiver-unused",), ("waiver-unused",)]
    elsewhere = Audit(ignore={"CVE-1": Waiver("x", targets=("other",))})
    assert found(elsewhere) == [("vulnerability", "cpu", "gpu"), ("waiver-unused",)]


def test_what_couldnt_be_looked_for_isnt_known_to_be_unneeded() -> None:
    accepted = Audit(ignore={"CVE-2": Waiver("x")}, accept={("lib", "yanked"): Waiver("x")})
    assert found(accepted, Facts(unread=("no answer",))) == []
    assert found(accepted, Facts(files=None)) == [("waiver-unused",)]


def test_other_findings_are_taken_by_package_and_code() -> None:
    facts = Facts(files={(LIB.index, LIB.files[0].file): FileFacts(LIB.files[0].sha256, "2026-11-19T00:00:00Z", "bad")})
    assert found(Audit(deny_licences=("MIT",)), facts) == [("licence", "cpu", "gpu"), ("yanked", "cpu", "gpu")]
    accepted = {("lib", code): Waiver("known") for code in ("licence", "yanked")}
    told = found(Audit(deny_licences=("MIT",), accept=accepted), facts)
    assert told == [("licence", "cpu", "gpu", "ignored"), ("yanked", "cpu", "gpu", "ignored")]


def test_a_malicious_release_is_its_own_finding() -> None:
    facts = about(LIB, Advisory("GHSA-1", ("MAL-2026-1",), "Steals keys."))
    (one,) = findings((LIB,), facts, Audit(), NOW)
    assert (one.code, one.severity, one.message) == ("malicious", "error", "GHSA-1 (MAL-2026-1): Steals keys.")
    assert found(Audit(ignore={"MAL-2026-1": Waiver("a false alarm")}), facts) == [
        ("malicious", "cpu", "gpu", "ignored")
    ]
