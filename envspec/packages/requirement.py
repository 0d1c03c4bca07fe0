"""Requirements, markers and specifiers (PEP 508, PEP 440), as people and as published METADATA write them.

Only this module parses them with `packaging`, as it bounds the input first: the parser recurses, and numbers may be
too long for Python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct
from packaging._parser import Op, Variable
from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, Specifier, SpecifierSet
from packaging.version import Version

TEXTS = 1 << 17
"""Texts in a cache of parsed ones: more than a file of the largest size has. Every target reads the same texts in the
same order, so a cache that is smaller by one text misses every time.
"""

MAX_DEPTH = 50
"""Levels of nested parentheses. Tools write three or four; `packaging` recurses for each."""

MAX_DIGITS = 600
"""Digits of one number. Versions have up to fourteen (a date and a time); Python reads no more than 4,300."""

MAX_LENGTH = 1 << 14
"""Characters of a requirement, marker, specifier or version. The longest on PyPI have about two thousand."""

Clause = tuple[str, str]
"""An operator and a version: `("==", "2.9.*")`."""

_LONG_NUMBER = re.compile(rf"[0-9]{{{MAX_DIGITS + 1}}}")
_PARENTHESIS = re.compile(r"""[()]|'[^']*'|"[^"]*\"""")

_VERSIONS = ("python_version", "python_full_version", "implementation_version")
"""Variables that are compared as versions."""
_ANY_ENVIRONMENT: dict[str, str | frozenset[str]] = {
    "extra": "", "extras": frozenset(), "dependency_groups": frozenset(),
}  # fmt: skip
"""The variables that stand in markers of packages and of other tools' locks besides those of the interpreter."""

_LENIENT = (
    (re.compile(r"(\d)([<>=~^!])"), r"\1,\2"),  # >=1.0<2.0
    (re.compile(r"!=~((?:\d\.)*\d)"), r"!=\1.*"),
    (re.compile(r"(<=|>=|<|>|~=)(\s*\d[^,;)\s<>=~]*?)\.\*"), r"\1\2"),  # >=1.19.*
    (re.compile(r"(?<!\d\.\d)(\d\.\d)+\*"), r"\1.*"),  # ==1.0*
    (re.compile(r",\s*(?=$|[;)])"), ""),  # >=1.0,
    (re.compile(r">dev"), ">0.0.0dev"),
    (re.compile(r"(\d(?:a|b|rc|post|dev)\d+)\.0"), r"\1"),  # >=9.0.0a1.0
)
"""Spellings of old releases on PyPI that PEP 440 and 508 reject, and what uv reads them as, one after the other until
the text can be read. A property test asks uv."""
EXTRA_MARKER = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")
"""An extra in the marker of a requirement, of one too that can't be parsed."""
_URL_END = re.compile(r";(?=\s)")
"""Where uv ends an address that no space stands behind."""
_AHEAD_OF_MARKER = re.compile(r"[^@;]*(?:@[ \t]*[^ \t]+[ \t]+)?;")
"""A requirement up to the `;` of its marker. An address may have such signs, and a space ends it."""


class RequirementHead(Struct, frozen=True):
    """A requirement without its version. Names are normalised; no marker is None."""

    name: str
    extras: frozenset[str]
    marker: Marker | None
    extras_of_marker: frozenset[str] = frozenset()
    """The extras that the marker compares with: with any other one it has the answer that it has without."""


@lru_cache(maxsize=TEXTS)
def canonical_name(name: str) -> str:
    """Normalise the name of a package or an extra by PEP 503 and PEP 685."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_requirement(text: str) -> Requirement:
    """Parse a PEP 508 requirement with `packaging`. Raises its InvalidRequirement, also for too deep a nesting and for
    a marker that can't be judged."""
    if reason := too_much(text):
        raise InvalidRequirement(reason)
    requirement = Requirement(text)
    if requirement.marker is not None and (reason := _unjudgeable(requirement.marker)):
        raise InvalidRequirement(reason)
    return requirement


def with_extras(text: str, extras: Iterable[str]) -> str:
    """Give a requirement with these extras in place of its own. Raises as `parse_requirement` does."""
    requirement = parse_requirement(text)  # not the one that all share
    requirement.extras = set(extras)
    return str(requirement)


@lru_cache(maxsize=TEXTS)
def published_requirement(text: str) -> Requirement:
    """Parse a requirement of published METADATA as uv does: old releases write `>=1.0.*` for `>=1.0`, and a comparison
    in a marker that can't be judged says nothing.

    Most texts come back in every target, so each is parsed once. Raises InvalidRequirement, which is a ValueError, for
    a text that isn't a requirement even so.
    """
    if reason := too_much(text):
        raise InvalidRequirement(reason)
    for reading in _readings(text):
        ahead = _AHEAD_OF_MARKER.match(reading)
        try:
            read = Requirement(reading[: ahead.end() - 1] if ahead else reading)
            read.marker = _published_marker(reading[ahead.end() :]) if ahead else None
        except (InvalidRequirement, InvalidMarker):
            continue
        return read
    return parse_requirement(text)


@lru_cache(maxsize=TEXTS)
def _published_marker(text: str) -> Marker | None:
    """Read the marker of a requirement. Those of a lock share a few, and one takes longer to read than all else."""
    return _judgeable(Marker(text))


def _readings(text: str) -> Iterator[str]:
    """Give a text as it is, then as it may have been meant."""
    yield text
    if "@" in text.partition(";")[0]:
        yield _URL_END.sub(" ;", text, count=1)
        return
    for pattern, mended in _LENIENT:
        other = pattern.sub(mended, text)
        if other != text:
            yield other
            text = other
    head, semicolon, marker = text.partition(";")
    yield head.replace("'", "").replace('"', "") + semicolon + marker


def _judgeable(marker: Marker) -> Marker | None:
    """Leave out the comparisons of a marker that uv leaves out: of a version with what is none (`python_version >=
    "3.6.*"`), of two texts, of what has no order, of an extra by another operator than `==` and `!=`. None where
    nothing is left."""
    terms = _judgeable_terms(marker._markers)
    if not terms:
        return None
    if terms != marker._markers:
        marker._markers = terms
    return marker


def _judgeable_terms(terms: list[Any]) -> list[Any]:
    judgeable: list[Any] = []
    joint = ""
    for term in terms:
        if isinstance(term, str):
            # where what stands before an `or` is left out, so is the word itself
            joint = "or" if term == "or" or joint == "or" else term
            continue
        if not isinstance(term, list):
            term = _split_versions(term) if _is_judgeable(term) else []
        own = _judgeable_terms(term) if isinstance(term, list) else [term]
        if own:
            judgeable += [*([joint or "and"] if judgeable else []), own if isinstance(term, list) else own[0]]
            joint = ""
    return judgeable


def _split_versions(term: tuple[Any, Any, Any]) -> Any:
    """Give `python_full_version in "3.11 3.12"` as the comparisons of versions that it is to uv: 3.12.0 is 3.12.
    `packaging` looks for the one text in the other."""
    left, operator, right = term
    listed = right.value.split()
    if not isinstance(left, Variable) or left.value not in _VERSIONS or operator.value not in ("in", "not in"):
        return term
    alike, joint = ("==", "or") if operator.value == "in" else ("!=", "and")
    comparisons: list[Any] = []
    for version in listed:
        comparisons += [*([joint] if comparisons else []), (left, Op(alike), type(right)(version))]
    return comparisons or term


def _is_judgeable(term: tuple[Any, Any, Any]) -> bool:
    left, operator, right = term
    variables = [operand for operand in (left, right) if isinstance(operand, Variable)]
    if len(variables) != 1:
        return False
    value = right if variables[0] is left else left
    if variables[0].value == "extra" and operator.value not in ("==", "!="):
        return False
    if variables[0].value in _VERSIONS:
        try:
            if operator.value in ("in", "not in"):
                for version in value.value.split():
                    Version(version)
            else:
                Specifier(f"{operator.value}{value.value}")
        except ValueError:
            return False
    alone = Marker('os_name == ""')
    alone._markers = [term]
    try:
        alone.evaluate(_ANY_ENVIRONMENT, context="lock_file")
    except (UndefinedComparison, UndefinedEnvironmentName):
        return False
    return True


@lru_cache(maxsize=TEXTS)
def head_of(text: str) -> RequirementHead:
    """Read a published requirement without its version: following edges needs nothing else. Raises ValueError as
    `published_requirement` does."""
    read = published_requirement(text)
    named = frozenset(_extras_of(read.marker._markers)) if read.marker is not None else frozenset()
    return RequirementHead(canonical_name(read.name), frozenset(map(canonical_name, read.extras)), read.marker, named)


def _extras_of(terms: list[Any]) -> Iterator[str]:
    """Yield the extras that the terms of a marker compare with."""
    for term in terms:
        if isinstance(term, list):
            yield from _extras_of(term)
        elif isinstance(term, tuple):
            left, _, right = term
            if "extra" in [operand.value for operand in (left, right) if isinstance(operand, Variable)]:
                yield from (
                    canonical_name(operand.value) for operand in (left, right) if not isinstance(operand, Variable)
                )


@lru_cache(maxsize=TEXTS)
def extras_in(lines: Iterable[str]) -> tuple[str, ...]:
    """List the extras that requirements name in their markers, sorted."""
    return tuple(sorted({name for line in lines for name in re.findall(r'extra == "([^"]+)"', line)}))


def is_requirement(text: str) -> bool:
    """Return whether `published_requirement` and `head_of` can read a text."""
    try:
        published_requirement(text)
    except (ValueError, RecursionError):
        return False
    return True


def parse_marker(text: str) -> Marker:
    """Parse a PEP 508 marker with `packaging`. Raises its InvalidMarker, also for too deep a nesting and for one that
    can't be judged."""
    if reason := too_much(text):
        raise InvalidMarker(reason)
    marker = Marker(text)
    if reason := _unjudgeable(marker):
        raise InvalidMarker(reason)
    return marker


@lru_cache(maxsize=TEXTS)
def parse_specifier(text: str) -> SpecifierSet:
    """Parse a PEP 440 specifier. Raises ValueError, also for a number that is too long for Python to compare."""
    if reason := too_much(text):
        raise InvalidSpecifier(reason)
    return SpecifierSet(text)


def is_satisfiable(specifier: str) -> bool:
    """Return whether some version satisfies a specifier. Raises ValueError for what isn't one."""
    return not parse_specifier(specifier).is_unsatisfiable()


def _unjudgeable(marker: Marker) -> str | None:
    """Give the reason why a marker has no answer in any environment, or None: `"a" < "b"` names no variable, `"x" ~=
    "y"` orders what has no order. `packaging` parses both and raises when it judges them."""
    try:
        marker.evaluate(_ANY_ENVIRONMENT, context="lock_file")
    except (UndefinedComparison, UndefinedEnvironmentName) as error:
        return f"its marker `{marker}` can't be judged: {error}"
    return None


def too_much(text: str) -> str | None:
    """Give the reason why a text mustn't be parsed, or None."""
    if len(text) > MAX_LENGTH:
        return f"it has more than {MAX_LENGTH:,} characters"
    if len(text) > MAX_DIGITS and _LONG_NUMBER.search(text):
        return f"a number has more than {MAX_DIGITS} digits"
    if text.count("(") > MAX_DEPTH:
        depth = 0
        for parenthesis in _PARENTHESIS.finditer(text):
            depth += {"(": 1, ")": -1}.get(parenthesis[0], 0)
            if depth > MAX_DEPTH:
                return f"parentheses are nested more than {MAX_DEPTH} deep"
    return None
