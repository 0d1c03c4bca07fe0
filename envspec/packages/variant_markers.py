"""Markers about variants (PEP 825): `variant_label == "cu130"`, `"nvidia :: sm_arch :: 90_real" in variant_properties`.

They say of a wheel's requirements which hold once its variant is chosen. So they are answered then, and what is left is
a requirement that every tool reads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from msgspec import Struct

from envspec.packages.requirement import MAX_DEPTH
from envspec.packages.variants import WheelOfVariant

_VARIABLES = ("variant_label", "variant_properties", "variant_features", "variant_namespaces")
_TOKEN = re.compile(r"""\s*('[^']*'|"[^"]*"|[()]|[<>=!~]{1,3}|[A-Za-z_][A-Za-z0-9_.]*)""")
_MAX = 1 << 14
"""Characters of a marker."""


_PLAIN = WheelOfVariant("")


def for_variant(lines: Sequence[str], variant: WheelOfVariant | None) -> tuple[str, ...]:
    """Give those requirements that hold for a variant, or for a plain wheel (None), without what they say of variants.
    Lines that can't be read stay as they are: their readers refuse them."""
    if not any("variant_" in line for line in lines):
        return tuple(lines)
    variant = variant or _PLAIN
    return tuple(resolved for line in lines if (resolved := _resolve_marker(line, variant)) is not None)


def _resolve_marker(line: str, variant: WheelOfVariant) -> str | None:
    head, _, marker = line.rpartition(";")
    if not head or not any(name in marker for name in _VARIABLES) or len(marker) > _MAX:
        return line
    tokens = _tokens(marker)
    if tokens is None:
        return line
    try:
        answer = _Parser(tokens, variant).whole()
    except _Unreadable:
        return line
    if answer is True:
        return head.strip()
    return None if answer is False else f"{head.strip()} ; {_text(answer)}"


def _tokens(marker: str) -> list[str] | None:
    tokens, at = [], 0
    text = marker.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        tokens.append(match[1])
        at = match.end()
    return tokens


class _Unreadable(ValueError):
    """A marker that isn't one."""


class _Joined(Struct, frozen=True):
    """Two or more answers that are left, joined by one word."""

    word: str
    parts: tuple[_Answer, ...]


_Answer = bool | str | _Joined
"""True or False, or what of a marker is left."""


class _Parser:
    """PEP 508's markers, with those about variants answered."""

    def __init__(self, tokens: Sequence[str], variant: WheelOfVariant) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0
        self.variant = variant

    def whole(self) -> _Answer:
        answer = self.junction("or")
        if self.at < len(self.tokens):
            raise _Unreadable
        return answer

    def next(self) -> str:
        if self.at >= len(self.tokens):
            raise _Unreadable
        self.at += 1
        return self.tokens[self.at - 1]

    def junction(self, word: str) -> _Answer:
        """Read the operands of `or`, or within it of `and`."""
        parts = []
        while True:
            parts.append(self.junction("and") if word == "or" else self.part())
            if self.at >= len(self.tokens) or self.tokens[self.at] != word:
                break
            self.at += 1
        decides = word == "or"
        left = tuple(part for part in parts if type(part) is not bool)
        if any(part is decides for part in parts):
            return decides
        if not left:
            return not decides
        return left[0] if len(left) == 1 else _Joined(word, left)

    def part(self) -> _Answer:
        first = self.next()
        if first == "(":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise _Unreadable
            answer = self.junction("or")
            self.depth -= 1
            if self.next() != ")":
                raise _Unreadable
            return answer
        operator = self.next()
        if operator == "not":
            operator = f"not {self.next()}"
        return self.comparison(first, operator, self.next())

    def comparison(self, left: str, operator: str, right: str) -> _Answer:
        if left not in _VARIABLES and right not in _VARIABLES:
            return f"{left} {operator} {right}"
        if left[0] in "'\"" and operator in ("in", "not in") and right in _VARIABLES[1:]:
            return (_normalise_property(left[1:-1]) in self.members(right)) is (operator == "in")
        if "variant_label" in (left, right) and operator in ("==", "!="):
            other = right if left == "variant_label" else left
            if other[0] in "'\"":
                return (other[1:-1] == self.variant.label) is (operator == "==")
        raise _Unreadable

    def members(self, variable: str) -> Collection[str]:
        properties = self.variant.compatible
        if variable == "variant_properties":
            return {str(variant_property) for variant_property in properties}
        if variable == "variant_features":
            return {f"{variant_property.namespace} :: {variant_property.feature}" for variant_property in properties}
        return {variant_property.namespace for variant_property in properties}


def _normalise_property(text: str) -> str:
    return " :: ".join(part.strip() for part in text.split("::"))


def _text(answer: _Answer, within: str = "or") -> str:
    if not isinstance(answer, _Joined):
        return str(answer)
    text = f" {answer.word} ".join(_text(part, answer.word) for part in answer.parts)
    return f"({text})" if within == "and" and answer.word == "or" else text
