"""Packages and what is known of them, for the tests of the audit."""

from datetime import datetime, timezone
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import jsonschema

from envspec.base.finding import Finding
from envspec.review.audit.model import Advisory, AuditedPackage, DatabaseAnswer, Facts
from envspec.review.audit.report import AuditReport, Database
from envspec.review.audit.rules import findings
from envspec.review.audit.sarif import sarif
from envspec.spec.model import Audit

NOW = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)


NO_FACTS, ALL_ACCEPTED = Facts(), Audit()


def _object(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(required), "properties": properties, "additionalProperties": False}


def _array(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


# SARIF 2.1.0's own words (section 3.13 and below) for what is used of it. A URI here has neither a scheme nor a space.
_NAME, _BAG = {"type": "string", "minLength": 1}, {"type": "object"}


_MESSAGE = _object("text", text=_NAME)


_LEVEL = {"enum": ["none", "note", "warning", "error"]}


_URI = {"type": "string", "pattern": r"^(?:[A-Za-z0-9._~/-]|%[0-9A-F]{2})+$"}


_RULE = _object(
    "id",
    id=_NAME,
    shortDescription=_MESSAGE,
    fullDescription=_MESSAGE,
    help=_MESSAGE,
    helpUri={"type": "string", "pattern": "^https?://"},
    defaultConfiguration=_object(level=_LEVEL),
    properties=_object(
        tags=_array(_NAME), **{"security-severity": {"type": "string", "pattern": r"^(?:10\.0|[0-9]\.[0-9])$"}}
    ),
)


_PHYSICAL = _object(
    "artifactLocation",
    artifactLocation=_object("uri", uri=_URI, uriBaseId={"const": "%SRCROOT%"}),
    region=_object("startLine", startLine={"type": "integer", "minimum": 1}),
)


_RESULT = _object(
    "message",
    ruleId=_NAME,
    ruleIndex={"type": "integer", "minimum": 0},
    level=_LEVEL,
    message=_MESSAGE,
    locations=_array(_object(physicalLocation=_PHYSICAL)),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    properties=_BAG,
    suppressions=_array(_object("kind", kind={"enum": ["inSource", "external"]}, justification=_NAME)),
)


_INVOCATION = _object(
    "executionSuccessful",
    executionSuccessful={"type": "boolean"},
    toolExecutionNotifications=_array(_object("message", level=_LEVEL, message=_MESSAGE)),
)


_RUN = _object(
    "tool",
    tool=_object("driver", driver=_object("name", name=_NAME, semanticVersion=_NAME, rules=_array(_RULE))),
    originalUriBaseIds={"type": "object", "additionalProperties": _object(description=_MESSAGE)},
    automationDetails=_object("id", id=_NAME),
    invocations=_array(_INVOCATION),
    results=_array(_RESULT),
)


SARIF = _object(
    "version", "runs", version={"const": "2.1.0"}, runs=_array(_RUN), **{"$schema": {"type": "string", "format": "uri"}}
)


def found(*audited: AuditedPackage, facts: Facts = NO_FACTS, accepted: Audit = ALL_ACCEPTED) -> tuple[Finding, ...]:
    return findings(audited, facts, accepted, NOW)


def about(subject: AuditedPackage, *advisories: Advisory) -> Facts:
    assert subject.release is not None
    return Facts({subject.release: DatabaseAnswer("2026-11-20T00:00:00Z", advisories)})


LOCK = """\
digest = "x"

[[conda]]
name = "lib"
version = "1.0"
build = "h0"

[[pip]]
name = "lib"
version = "1.0"
index = "pypi"

[[pip]]
name = "lib"
version = "2.0"
"""


def report(*made: Finding, unread: tuple[str, ...] = ()) -> AuditReport:
    subjects = tuple(one.evidence.package for one in made if one.package)
    return AuditReport("s.toml", "locks/s/envspec.lock", ("cpu",), subjects, Database("db", None), made, (), unread)


HERE = PurePosixPath("locks/s/envspec.lock")


@cache
def _sarif() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(SARIF)
    return jsonschema.Draft202012Validator(SARIF)


def checked_sarif(made: AuditReport, lock: PurePosixPath = HERE) -> dict[str, Any]:
    """The only run of the report's SARIF, which has the format's structure."""
    document = sarif(made, lock, LOCK, "1.2.3")
    _sarif().validate(document)
    (run,) = document["runs"]
    found: dict[str, Any] = run
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    return found
