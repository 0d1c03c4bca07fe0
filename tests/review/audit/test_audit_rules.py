"""What is found, from facts alone; and how it looks as SARIF."""

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from audit_cases import LOCK, about, checked_sarif, found, report
from msgspec.structs import replace
from support.audit import package

from envspec.base.finding import Finding
from envspec.lock.model import Artifact, BuildPin, GitSource, LockedTarget, Pin, TargetInputs
from envspec.review.annotations import lines_of
from envspec.review.audit.model import (
    Advisory,
    AuditedPackage,
    DatabaseAnswer,
    Facts,
    FileFacts,
    NotAsked,
    PublishedRelease,
    packages,
)
from envspec.review.audit.rules import audit_codes, merge_aliases, oldest, unchecked_packages
from envspec.spec.model import Audit, Waiver
from envspec.spec.parse import parse_spec

SHA = "0" * 64


def of_file(subject: AuditedPackage, **facts: Any) -> Facts:
    return Facts(files={(subject.index, subject.files[0].file): FileFacts(**{"sha256": SHA, **facts})})


def test_nothing_is_wrong() -> None:
    assert found(package("numpy")) == ()


def test_a_vulnerability() -> None:
    lib = package("lib")
    (one,) = found(lib, facts=about(lib, Advisory("PYSEC-1", ("CVE-1",), "Bad.", ("1.1", "2.0"), severity="high")))
    assert (one.code, one.severity, one.message) == ("vulnerability", "error", "PYSEC-1 (CVE-1), high: Bad.")
    assert one.remedy == "fixed in 1.1, 2.0: envspec lock SPEC --upgrade-package lib"
    (one,) = found(lib, facts=about(lib, Advisory("PYSEC-1")))
    assert (one.message, one.remedy) == ("PYSEC-1", "no release fixes it yet")


def test_one_vulnerability_under_several_names_is_one() -> None:
    twice = (Advisory("PYSEC-1", ("CVE-1",), fixed_in=("2",)), Advisory("GHSA-1", ("CVE-1",), "Bad.", severity="low"))
    assert merge_aliases(twice) == (Advisory("GHSA-1", ("CVE-1", "PYSEC-1"), "Bad.", ("2",), None, "low"),)
    assert len(merge_aliases((*twice, Advisory("PYSEC-2", ("CVE-2",))))) == 2


@pytest.mark.parametrize("name", ["PYSEC-1", "CVE-1"])
def test_an_ignored_one_says_why(name: str) -> None:
    lib = package("lib")
    facts = about(lib, Advisory("PYSEC-1", ("CVE-1",)), Advisory("PYSEC-2"))
    first, second = found(lib, facts=facts, accepted=Audit(ignore={name: Waiver("not reached")}))
    assert (first.evidence.advisory.id, first.accepted) == ("PYSEC-2", None)
    assert (second.evidence.advisory.id, second.accepted) == ("PYSEC-1", "not reached")


@pytest.mark.parametrize(
    ("licence", "accepted", "code"),
    [
        ("MIT", Audit(allow_licences=("MIT",)), None),
        ("BSD", Audit(allow_licences=("MIT",)), "licence"),
        ("AGPL-3.0-only", Audit(deny_licences=("AGPL-*",)), "licence"),
        (None, Audit(deny_licences=("AGPL-*",)), None),
        (None, Audit(allow_licences=("MIT",)), "licence-unknown"),
        (None, Audit(allow_licences=("MIT",), licences={"lib": "MIT"}), None),
        ("AGPL", Audit(allow_licences=("MIT",), licences={"lib": "MIT"}), None),
        ("MIT", Audit(allow_licences=("MIT",), licences={"lib": "BSD"}), "licence"),
        ("anything", Audit(), None),
        (None, Audit(), None),
    ],
)
def test_licences(licence: str | None, accepted: Audit, code: str | None) -> None:
    assert [one.code for one in found(package("lib", licence=licence), accepted=accepted)] == ([code] if code else [])


def test_licences_of_conda_packages() -> None:
    accepted = Audit(allow_licences=("MIT",), licences={"ld-impl-linux-64": "MIT", "ruamel-yaml": "BSD"})
    loader = package("ld_impl_linux-64", kind="conda", licence=None)
    assert found(loader, accepted=accepted) == ()
    assert found(replace(loader, licence="GPL-3.0-only"), accepted=accepted) == ()
    (wrong,) = found(package("ruamel.yaml", kind="conda", licence=None), accepted=accepted)
    assert wrong.code == "licence" and '"BSD"' in wrong.message


@pytest.mark.parametrize(("kind", "name"), [("pip", "lib"), ("conda", "ruamel.yaml"), ("conda", "_libgcc_mutex")])
def test_the_advice_about_a_licence_can_be_taken(kind: str, name: str) -> None:
    subject = package(name, kind=kind, licence=None)
    (unknown,) = found(subject, accepted=Audit(allow_licences=("MIT",)))
    inline = str(unknown.remedy).partition("[audit] ")[2].replace("…", "MIT")
    spec = '[env]\npython = "3.12"\n[pip]\ndependencies = ["a"]\n[targets.cpu]\nplatform = "linux-64"\n'
    accepted = parse_spec(f'{spec}[audit]\nallow-licences = ["MIT"]\n{inline}\n', "x.toml").audit
    assert found(subject, accepted=accepted) == ()


def test_which_list_refuses_a_licence() -> None:
    lib = package("lib", licence="AGPL-3.0-only")
    (denied,) = found(lib, accepted=Audit(("MIT",), ("AGPL-*",)))
    (not_allowed,) = found(lib, accepted=Audit(("MIT",)))
    assert denied.message.endswith("deny-licences names it")
    assert not_allowed.message.endswith("allow-licences doesn't name it")


def test_yanked() -> None:
    lib = package("lib")
    (one,) = found(lib, facts=of_file(lib, yanked="broken"))
    assert (one.code, one.severity, one.message) == ("yanked", "warning", "its publisher yanked it: broken")
    (one,) = found(lib, facts=of_file(lib, yanked=""))
    assert one.message == "its publisher yanked it, without a reason given"
    assert found(lib, facts=of_file(lib)) == ()


def test_the_worst_first_and_the_ignored_last() -> None:
    lib = package("lib", licence="AGPL")
    facts = replace(of_file(lib, yanked=""), answers=about(lib, Advisory("A"), Advisory("B")).answers)
    made = found(lib, facts=facts, accepted=Audit(deny_licences=("AGPL",), ignore={"A": Waiver("so what")}))
    assert [one.code for one in made] == ["vulnerability", "licence", "yanked", "vulnerability"]
    assert made[-1].accepted == "so what"


def pin(kind: str, name: str, version: str, index: str, file: str | None, **more: Any) -> Pin:
    return Pin(kind, name, version, index, Artifact(file, SHA) if file else None, **more)


def test_whom_a_database_is_asked_about() -> None:
    pins = (
        pin("pip", "torch", "2.9.1+cu126", "pytorch/cu126", "torch-2.9.1.whl"),
        pin("pip", "own", "1.0", "internal", "own-1.0.whl"),
        pin("pip", "flash", "1.0", "git", None, git=GitSource("https://x", "a" * 40)),
        pin("pip", "tar", "1.0", "url", "tar-1.0.tar.gz", url="https://x/tar-1.0.tar.gz"),
        pin("pip", "deepspeed", "0.18.0", "pypi", "deepspeed-0.18.0.tar.gz"),
        pin("conda", "pytorch", "2.9.1", "conda-forge/linux-64", "x.conda", provides=("torch",)),
        pin("conda", "tzdata", "2026a", "conda-forge/linux-64", "y.conda"),
        pin("conda", "multi", "1", "conda-forge/linux-64", "z.conda", provides=("a", "b")),
    )
    found = packages([LockedTarget("cpu", TargetInputs("linux-64", "3.12", None), pins)])
    assert {one.name: one.release for one in found} == {
        "torch": PublishedRelease("torch", "2.9.1"),
        "own": None,
        "flash": None,
        "tar": None,
        "deepspeed": PublishedRelease("deepspeed", "0.18.0"),
        "pytorch": PublishedRelease("torch", "2.9.1"),
        "tzdata": None,
        "multi": None,
    }
    assert {(one.reason, one.codes): one.packages for one in unchecked_packages(found, Facts())} == {
        ("conda packages that aren't on PyPI", ("vulnerability",)): ("multi", "tzdata"),
        ('packages of the index "internal"', ("vulnerability",)): ("own",),
        ("packages from a URL", ("vulnerability", "yanked")): ("tar",),
        ("packages from git", ("vulnerability", "yanked")): ("flash",),
        ("conda packages", ("yanked",)): ("multi", "pytorch", "tzdata"),
    }
    (skipped,) = unchecked_packages([one for one in found if one.release], Facts(files=None))
    assert (skipped.codes, skipped.packages) == (("yanked",), ("pytorch", "deepspeed", "torch"))


def test_a_version_once_for_all_its_targets() -> None:
    def target(name: str, version: str, file: str) -> LockedTarget:
        pins = (pin("pip", "lib", version, "pypi", file),)
        return LockedTarget(name, TargetInputs("linux-64", "3.12", None), pins)

    one, other = packages([target("a", "1", "l-1-a.whl"), target("b", "1", "l-1-b.whl"), target("c", "2", "l-2.whl")])
    assert (one.targets, [file.file for file in one.files]) == (("a", "b"), ["l-1-a.whl", "l-1-b.whl"])
    assert (other.targets, other.version) == (("c",), "2")


def test_what_sources_are_built_with_is_audited_too() -> None:
    def source(name: str, *wheels: BuildPin) -> Pin:
        return pin("pip", name, "1.0", "pypi", f"{name}-1.0.tar.gz", built_with=wheels)

    tool, shared = BuildPin("tool", "2", "tool-2.whl", SHA), BuildPin("lib", "1", "l-1-a.whl", SHA)
    pins = (pin("pip", "lib", "1", "pypi", "l-1-a.whl", licence="MIT"), source("b", tool, shared), source("c", tool))
    audited = {one.name: one for one in packages([LockedTarget("cpu", TargetInputs("linux-64", "3.12", None), pins)])}
    assert set(audited) == {"b", "c", "lib", "tool"} and audited["tool"].builds == ("b", "c")
    assert audited["tool"].release == PublishedRelease("tool", "2") and audited["tool"].indexed_files
    assert audited["lib"].builds == () and len(audited["lib"].files) == 1, "it is installed as well"
    strict = Audit(allow_licences=("MIT",), licences={"b": "MIT", "c": "MIT"})
    (one,) = findings_of_level(audited.values(), strict, about(audited["tool"], Advisory("MAL-1")))
    assert (one.code, one.package, one.evidence.package.builds) == ("malicious", "tool", ("b", "c")), (
        "and it needs no licence"
    )
    (one,) = findings_of_level(audited.values(), strict, about(audited["tool"], Advisory("CVE-1", fixed_in=("3",))))
    assert str(one.remedy).endswith("--upgrade-package b --upgrade-package c")


def findings_of_level(audited: Iterable[AuditedPackage], accepted: Audit, facts: Facts) -> tuple[Finding, ...]:
    return tuple(one for one in found(*audited, facts=facts, accepted=accepted) if one.severity == "error")


def test_what_was_asked_in_vain_and_when() -> None:
    lib, other = package("lib"), package("other")
    assert lib.release and other.release
    facts = Facts({lib.release: DatabaseAnswer("2026-11-02"), other.release: DatabaseAnswer("2026-11-01", known=False)})
    assert unchecked_packages((lib, other), facts) == (
        NotAsked(("vulnerability",), "releases that PyPI doesn't have", ("other",)),
    )
    assert oldest((lib, other), facts) == "2026-11-02"
    assert oldest((), facts) is None


def test_lines() -> None:
    assert lines_of(LOCK) == {("conda", "lib", "1.0"): 3, ("pip", "lib", "1.0"): 8, ("pip", "lib", "2.0"): 13}


def test_levels_that_count() -> None:
    lib = package("lib")
    facts = replace(of_file(lib, yanked=""), answers=about(lib, Advisory("A")).answers)
    made = report(*found(lib, facts=facts))
    assert [len(made.at_least(level)) for level in ("note", "warning", "error")] == [2, 2, 1]
    ignored = report(*found(lib, facts=facts, accepted=Audit(ignore={"A": Waiver("no")})))
    assert [len(ignored.at_least(level)) for level in ("note", "warning", "error")] == [1, 1, 0]


def test_the_page_lists_every_finding_with_its_level(root: Path) -> None:
    page = (root / "docs" / "review.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", page, re.MULTILINE))
    assert list(listed) == list(audit_codes())
    rules = checked_sarif(report())["tool"]["driver"]["rules"]
    assert listed == {rule["id"]: rule["defaultConfiguration"]["level"] for rule in rules}
    (example,) = re.findall(r"```toml\n(\[audit\]\n.*?)```", page, re.DOTALL)
    spec = '[env]\npython = "3.12"\n[pip]\ndependencies = ["a"]\n[targets.cpu]\nplatform = "linux-64"\n'
    assert parse_spec(spec + example, "x.toml").audit.ignore


# The audit as SARIF, by SARIF's own words.


def test_sarif() -> None:
    lib = package("lib")
    told = about(
        lib, Advisory("A", ("CVE-1",), "Bad.", link="https://example.org/A", severity="moderate"), Advisory("B")
    )
    facts = replace(of_file(lib, yanked="bad"), answers=told.answers)
    run = checked_sarif(report(*found(lib, facts=facts, accepted=Audit(ignore={"B": Waiver("no")}))))
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert list(rules) == [*audit_codes(), "A", "B"]
    assert rules["A"]["properties"]["security-severity"] == "5.5", "GitHub reads it from the rule"
    assert (
        rules["A"]["helpUri"] == "https://example.org/A" and rules["A"]["shortDescription"]["text"] == "A (CVE-1): Bad."
    )
    assert rules["B"]["properties"] == {"tags": ["security", "vulnerability"]} and "helpUri" not in rules["B"]
    assert run["invocations"][0]["executionSuccessful"] is True
    first, second, third = run["results"]
    assert (first["ruleId"], first["level"]) == ("A", "error")
    assert first["message"]["text"] == "lib 1.0: A (CVE-1), moderate: Bad. No release fixes it yet"
    assert first["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "locks/s/envspec.lock", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 8},
    }
    assert first["properties"] == {"targets": ["cpu"], "code": "vulnerability"}
    assert first["partialFingerprints"] == {"envspec/1": "pip:lib:1.0:A"} and "suppressions" not in first
    assert second["ruleId"] == "yanked" and second["level"] == "warning"
    assert third["suppressions"] == [{"kind": "inSource", "justification": "no"}]


def test_sarif_of_one_advisory_in_two_packages() -> None:
    lib, other = package("lib"), package("other")
    facts = Facts({**about(lib, Advisory("A")).answers, **about(other, Advisory("A", severity="high")).answers})
    run = checked_sarif(report(*found(lib, other, facts=facts)))
    assert [result["ruleId"] for result in run["results"]] == ["A", "A"]
    (rule,) = (rule for rule in run["tool"]["driver"]["rules"] if rule["id"] == "A")
    assert rule["properties"]["security-severity"] == "8.0"


def test_sarif_takes_what_a_database_says_as_text() -> None:
    lib = package("lib")
    evil = Advisory("yanked", summary="x", link="javascript:alert(1)", severity="critical")
    run = checked_sarif(report(*found(lib, facts=about(lib, evil))))
    assert "javascript" not in str(run)


def test_sarif_names_the_lock_as_a_uri() -> None:
    lib = package("lib")
    run = checked_sarif(
        report(*found(lib, facts=of_file(lib, yanked="bad"))), PurePosixPath("my locks/100%/c:d/envspec.lock")
    )
    (result,) = run["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "my%20locks/100%25/c%3Ad/envspec.lock"


def test_sarif_says_what_was_not_looked_for() -> None:
    left = NotAsked(("yanked",), "conda packages", ("a", "b"))
    (invocation,) = checked_sarif(replace(report(), not_asked=(left,)))["invocations"]
    assert invocation["executionSuccessful"] is True
    (note,) = invocation["toolExecutionNotifications"]
    assert (note["level"], note["message"]["text"]) == ("note", "not checked for yanked: conda packages: a, b")


def test_sarif_of_an_incomplete_audit() -> None:
    run = checked_sarif(report(unread=("nobody answered",)))
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"] == [{"level": "error", "message": {"text": "nobody answered"}}]


def test_a_remedy_is_a_command_that_runs_as_it_stands() -> None:
    lib = package("lib")
    made = replace(report(*found(lib, facts=of_file(lib, yanked="bad"))), spec="specs/a b.toml")
    (result,) = checked_sarif(made)["results"]
    assert result["message"]["text"].endswith(". Run envspec lock 'specs/a b.toml' --upgrade-package lib")
