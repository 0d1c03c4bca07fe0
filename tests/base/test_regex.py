"""Patterns that are compiled late are those of `re`."""

from __future__ import annotations

import re

import pytest

from envspec.base.regex import regex


def test_it_has_a_patterns_methods() -> None:
    late, pattern = regex(r"(a)(?P<n>\d+)", re.IGNORECASE), re.compile(r"(a)(?P<n>\d+)", re.IGNORECASE)
    found, expected = late.fullmatch("A12"), pattern.fullmatch("A12")
    assert found and expected and found.groupdict() == expected.groupdict()
    assert late.sub("x", "a1 b2") == pattern.sub("x", "a1 b2")
    assert late.findall("a1 a2") == pattern.findall("a1 a2")
    assert late.pattern == pattern.pattern and late.flags == pattern.flags and late.groups == 2


def test_it_is_compiled_when_it_is_asked() -> None:
    late = regex("(")
    with pytest.raises(re.error):
        late.search("a")


def test_no_other_names() -> None:
    with pytest.raises(AttributeError):
        regex("a").compile  # type: ignore[attr-defined]  # noqa: B018
