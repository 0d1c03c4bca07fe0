"""The kind of proof that a row of the tables rests on: its sources, each of a kind that the head of its table names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from envspec.facts import wheels
from envspec.facts.tables import read, words

KINDS = {
    "binary": "read from compiled files, or said by programs in them",
    "run": "installed, imported or run",
    "index": "read from what an index serves: its pages, METADATA, text in wheels",
    "vendor": "said by who makes it: release notes, documentation, build scripts",
    "report": "said by others: collections, issues, copies",
    "derived": "follows from other rows",
    "memory": "general knowledge, not read again",
}
"""The kinds of proof, the strongest first."""

_TRUST = {"verified": "index", "copied": "report", "derived": "derived"}


def of_sources(table: Mapping[str, Any]) -> dict[str, str]:
    """Give each source's kind. In the head, "*" stands for all that no other kind names."""
    named = {key: kind for kind, keys in table["proof"].items() for key in words(keys) if key != "*"}
    rest = next((kind for kind, keys in table["proof"].items() if keys == "*"), None)
    return {key: kind for key in table["sources"] if (kind := named.get(key, rest))}


def of_row(table: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, ...]:
    """List the kinds of a row's sources, each once, in the order of its sources, which stand for its values."""
    kinds = of_sources(table)
    return tuple(dict.fromkeys(kinds[key] for key in words(row["source"])))


def rows(name: str) -> Iterator[Mapping[str, Any]]:
    """List the rows of a table."""
    return (row for value in read(name).values() if isinstance(value, list) for row in value)


def counts(name: str) -> tuple[int, dict[str, int]]:
    """Count the rows of a table, and of each kind those that rest on it, the strongest first. "wheels" counts files."""
    every: list[tuple[str, ...]]
    if name == "wheels":
        every = [(_TRUST[wheel.trust],) for wheel in _files()]
    elif isinstance(listed := read(name).get("names"), str):
        every = [tuple(of_sources(read(name)).values())] * len(words(listed))
    else:
        every = [of_row(read(name), row) for row in rows(name)]
    found = Counter(kind for kinds in every for kind in kinds)
    return len(every), {kind: found[kind] for kind in KINDS if found[kind]}


def _files() -> Iterator[wheels.WheelFile]:
    for variant in wheels.variants():
        index = wheels.load(variant)
        for project in index.projects:
            yield from index.files(project)
