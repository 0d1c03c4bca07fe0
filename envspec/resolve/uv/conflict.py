"""uv's proof that no versions fit, as values. No other module reads it.

A proof is a chain of "because A and B, we can conclude that C". What follows from premises is passed over. The forms
are those of uv 0.13, recorded in tests/resolve/uv; what has another form is `unread`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from packaging.specifiers import SpecifierSet

from envspec.packages.conflict import Clause, Conflict, Kind
from envspec.packages.requirement import canonical_name

PROJECT = "the-spec"
"""The spec's name as a project for uv. Messages to the user don't have it."""

_WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")
MARKER = re.compile(r"(?<=[A-Za-z0-9\]])\{[^{}]*\}")
"""The marker under which a proof requires a package: `llguidance{platform_machine == 'x86_64'}`."""
_STEP = re.compile(r"\b(?:and )?because ", re.IGNORECASE)
_CONCLUSION = re.compile(r"[,;]? we can conclude that ")
_KNOWN = re.compile(r"we know from \(\d+\) ")
_LOCAL_PART = re.compile(r"([<>~]=?[^,+]+)\+[\w.]+")

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_ITEM = re.compile(rf"({_NAME})(?:\[[^\]]*\])?((?:[<>=!~]=?=?[\w.*+!]+,?)*)")
_LIST = r"(?:all of|any of|one of): [^;]+;"
_SUBJECT = rf"(?P<of>(?:all versions of )?(?:{_LIST}|[^\s;]+))"
_FORMS: Sequence[tuple[Kind, str]] = (
    ("requires", rf"{_SUBJECT} depends? on (?P<on>.+)"),
    ("requires", r"(?P<of>you) require (?P<on>.+)"),
    ("no-wheel", rf"{_SUBJECT} ha(?:s|ve) no wheels with a matching .+"),
    ("no-build", rf"{_SUBJECT} ha(?:s|ve) no usable wheels"),
    ("not-found", rf"{_SUBJECT} was not found in the (?:package registry|cache)"),
    ("python", r"the (?:requested|current) Python version \(.*\) does not satisfy (?P<of>.+)"),
    ("no-release", rf"there (?:is|are) no versions? of {_SUBJECT}"),
    ("only", r"only the following versions of [^\s;]+ are available: (?P<of>.+)"),
    ("only", rf"only {_SUBJECT} (?:is|are) available"),
)


def read_conflict(proof: str) -> Conflict:
    """Read uv's proof, in one line, its lists as `all of: a, b;`. Never raises: proofs quote what indexes serve."""
    clauses = [clause for step in _STEP.split(MARKER.sub("", proof)) for clause in _premises(step)]
    return Conflict(tuple(dict.fromkeys(clauses)), frozenset(map(canonical_name, _WORD.findall(proof))))


def _premises(step: str) -> Iterator[Clause]:
    """Yield the premises of one step; a name without a verb goes with the one before it (`a depends on b and c`)."""
    premises = _CONCLUSION.split(step)[0].strip(" ,;")
    before: tuple[Kind, str] | None = None
    for part in filter(None, re.split(r",? and (?=[^\s])", premises)):
        if _KNOWN.match(part):
            before = None
            continue
        kind, match = next(
            ((kind, form_match) for kind, form in _FORMS if (form_match := re.fullmatch(form, part))), (None, None)
        )
        if kind is not None and match is not None:
            before = (kind, match["of"])
            yield from _clauses(kind, match["of"], match.groupdict().get("on", ""))
        elif before is not None and before[0] == "requires" and _ITEM.fullmatch(part):
            yield from _clauses(*before, part)
        else:
            before = None
            yield Clause("unread")


def _clauses(kind: Kind, subject: str, on: str) -> Iterator[Clause]:
    spec = subject in ("you", PROJECT, f"{PROJECT}==0")
    needed = [*_items(on)] if kind == "requires" else [("", "")]
    for name, versions in [("", "")] if spec else _items(subject):
        for other, bound in needed:
            yield Clause(kind, name, versions, other, bound)


def _items(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names and ranges of a list, or of the one that there is."""
    bare = re.sub(r"^all versions of |^(?:all of|any of|one of): |, which does not allow any versions.*", "", text)
    for part in bare.strip(" ;.").split(", "):
        if match := _ITEM.match(part):
            yield canonical_name(match[1]), match[2].rstrip(",")


def range_of(text: str) -> SpecifierSet:
    """Read a range of a proof, which may name local parts where only `==` has them in a specifier."""
    return SpecifierSet(_LOCAL_PART.sub(r"\1", text))
