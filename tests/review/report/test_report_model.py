"""What the page shows, from a lock: golden for the whole, and one by one where the truth is easily missed."""

import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace
from support import report as sample
from support.golden import golden

from envspec.base.errors import InputError, Place
from envspec.lock.model import Lock
from envspec.review.audit.osv import OsvDatabase
from envspec.review.report.checked import from_database, from_json
from envspec.review.report.collect import page_of, verdict
from envspec.review.report.model import AuditSummary, Page
from envspec.spec.model import Audit as Rules

GOLDEN = Path(__file__).parent / "golden" / "sample.json"
PLACE = Place("audit.json")
DIGEST = "sha256:" + "0" * 64


def page(lock: Lock | None = None, audit: AuditSummary | None = None) -> Page:
    of = sample.spec()
    targets = (lock or sample.lock(of)).targets
    return page_of(of, targets, lock="l", digest=DIGEST, audit=audit, review="nothing")


def package(of: Page, name: str) -> Any:
    return next(one for one in of.packages if one.name == name)


def audit_document(**changes: Any) -> str:
    finding = {
        "code": "vulnerability",
        "level": "error",
        "kind": "pip",
        "package": "lib",
        "version": "2.6",
        "targets": ["cu126-volta", "cu128-hopper"],
        "message": "CVE-1: bad",
        "remedy": "fixed in 2.7: envspec lock SPEC --upgrade-package lib",
        "advisory": {
            "id": "CVE-1",
            "aliases": ["GHSA-1"],
            "summary": "bad",
            "fixed_in": ["2.7"],
            "link": "javascript:alert(1)",
            "severity": "high",
        },
        "ignored": None,
    }
    document = {
        "schema": "envspec/audit/1",
        "digest": DIGEST,
        "complete": True,
        "targets": ["cpu", "cu126-volta", "cu128-hopper"],
        "database": {"name": "db", "oldest": "2026-11-01T00:00:00Z"},
        "findings": [finding],
        "not_asked": [
            {"codes": ["vulnerability"], "reason": "packages from git", "packages": ["speedup"]},
            {"codes": ["yanked"], "reason": "conda packages", "packages": ["ffmpeg"]},
        ],
        "unread": [],
    }
    return json.dumps({**document, **changes})


def test_golden() -> None:
    found = json.dumps(to_builtins(page()), indent=1, ensure_ascii=False) + "\n"
    assert golden(GOLDEN, found) == found


def test_a_torch_that_the_facts_do_not_hold_is_unknown() -> None:
    lock = sample.lock()
    pins = tuple(replace(one, version="9.9.9") if one.name == "torch" else one for one in lock.targets[2].pins)
    row = page(replace(lock, targets=(replace(lock.targets[2], pins=pins),))).coverage.rows[0]
    assert row.why == "a build that the facts don't hold"
    assert {cell.state for cell in row.cells} == {"unknown"}


@pytest.mark.parametrize(
    ("licence", "allow", "deny", "found"),
    [
        ("MIT", (), (), "none"),
        (None, (), (), "none"),
        (None, (), ("GPL-*",), "none"),
        (None, ("MIT",), (), "unlisted"),
        ("MIT", ("MIT",), (), "accepted"),
        ("ISC", ("MIT",), (), "unlisted"),
        ("GPL-3.0-only", (), ("GPL-*",), "denied"),
        ("GPL-3.0-only", ("*",), ("GPL-*",), "denied"),
        ("MIT OR GPL-3.0-only", ("MIT",), ("GPL-*",), "accepted"),
    ],
)
def test_licences_by_the_spec(licence: str | None, allow: tuple[str, ...], deny: tuple[str, ...], found: str) -> None:
    assert verdict(licence, Rules(allow, deny)) == found


@pytest.mark.parametrize(("kind", "name"), [("pip", "speedup"), ("conda", "ffmpeg")])
def test_the_spec_says_the_licence_of_either_kind(kind: str, name: str) -> None:
    of = sample.spec()
    of = replace(of, audit=replace(of.audit, licences={name: "Told-1.0"}))
    made = page_of(of, sample.lock().targets, lock="l", digest=DIGEST, audit=None, review="")
    (row,) = (one for one in made.packages if (one.kind, one.name) == (kind, name))
    assert {made.licences[variant.licence].name for variant in row.variants} == {"Told-1.0"}


def test_the_wordings_of_a_licence_are_one_and_the_worst_verdict_counts() -> None:
    words = ("MIT", "MIT License", "mit license", "Acme's own")
    lock = sample.lock(extra=tuple(sample.pin(f"m{at}", "1", licence=one) for at, one in enumerate(words)))
    of = replace(sample.spec(), audit=Rules((), ("MIT License",)))
    made = page_of(of, lock.targets, lock="l", digest=DIGEST, audit=None, review="nothing")
    assert {one.name for one in made.licences} & {*words} == {"MIT", "Acme's own"}
    (mit,) = (one for one in made.licences if one.name == "MIT")
    assert mit.verdict == "denied" and {"m0", "m1", "m2"} <= {made.packages[number].name for number in mit.packages}


def test_a_licence_that_is_a_whole_text_is_cut() -> None:
    lock = sample.lock(extra=(sample.pin("wordy", "1", licence="Permission is\nhereby " * 50),))
    name = max((one.name or "" for one in page(lock).licences), key=len)
    assert len(name) == 121 and name.startswith("Permission is hereby ")


def test_what_builds_a_source_stands_with_the_source() -> None:
    finding = json.loads(audit_document())["findings"][0] | {"package": "tool", "version": "80", "builds": ["lib"]}
    (one,) = from_json(audit_document(findings=[finding]), PLACE, DIGEST, sample.lock().targets).troubles
    assert page().packages[one.package].name == "lib" and one.message == "tool 80, which builds it: bad"


def test_an_audit_is_of_this_very_lock() -> None:
    targets = sample.lock().targets
    audit = from_json(audit_document(), PLACE, DIGEST, targets)
    (one,) = audit.vulnerabilities
    assert (one.id, one.targets, one.link) == ("CVE-1", (1, 2), "javascript:alert(1)") and audit.complete
    assert [reason for reason, _ in audit.unknown] == ["packages from git"]
    for digest, told in (("sha256:" + "1" * 64, "of another lock"), (None, "doesn't name its lock's digest")):
        with pytest.raises(InputError, match=told):
            from_json(audit_document(digest=digest), PLACE, DIGEST, targets)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"schema": "envspec/audit/2"}', "[" * 100_000])
def test_what_is_no_audit_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="isn't what"):
        from_json(text, PLACE, DIGEST, sample.lock().targets)


def test_a_finding_of_no_package_of_the_lock_is_refused() -> None:
    finding = {**json.loads(audit_document())["findings"][0], "package": "other"}
    with pytest.raises(InputError, match="isn't what"):
        from_json(audit_document(findings=[finding]), PLACE, DIGEST, sample.lock().targets)


@pytest.mark.parametrize(
    "changes", [{"unread": ["no answer"], "complete": False}, {"complete": False}, {"targets": ["cpu"]}]
)
def test_an_incomplete_audit_is_no_pass(changes: dict[str, Any]) -> None:
    audit = from_json(audit_document(findings=[], **changes), PLACE, DIGEST, sample.lock().targets)
    assert not audit.vulnerabilities and not audit.complete


def test_what_the_spec_accepts_does_not_count() -> None:
    finding = {**json.loads(audit_document())["findings"][0], "ignored": "no input from outside"}
    audit = from_json(audit_document(findings=[finding]), PLACE, DIGEST, sample.lock().targets)
    assert audit.troubles[0].ignored and not audit.vulnerabilities


def test_a_database_is_asked_without_a_clock() -> None:
    record = {
        "id": "PYSEC-1",
        "modified": "2026-11-01T00:00:00Z",
        "summary": "bad",
        "affected": [{"package": {"ecosystem": "PyPI", "name": "lib"}, "versions": ["2.6"]}],
    }
    audit = from_database(OsvDatabase([record], "all.zip"), Rules(), sample.lock().targets)
    assert [(one.id, one.version, one.targets) for one in audit.vulnerabilities] == [("PYSEC-1", "2.6", (1, 2))]
    assert audit.as_of == "2026-11-01T00:00:00Z" and audit.complete
    assert {reason for reason, _ in audit.unknown} == {"conda packages that aren't on PyPI", "packages from git"}
    assert datetime.now(timezone.utc).strftime("%Y-%m-%d") not in str(audit)
