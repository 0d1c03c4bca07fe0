"""Bounds of conda's match specs, in the words of PEP 440."""

from __future__ import annotations

import re

from envspec.packages.requirement import Clause

_NAMED = re.compile(r"([A-Za-z0-9_.-]+)\s*(.*)")
_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|=|>|<)?(\d+(?:\.\d+)*)((?:\.?\*)?)((?:\.?(?:a|b|rc|dev|alpha|beta)\d*)?)")


class Inexpressible(ValueError):
    """A match spec asks for something that PEP 440 has no words for: a build, one version or another."""


def read_spec(spec: str) -> tuple[str, tuple[Clause, ...]]:
    """Split a match spec (`numpy >=1.19,<2.0a0`) into conda's name and clauses of PEP 440 (`>=1.19`, `<2`).

    Raises Inexpressible.
    """
    named = _NAMED.fullmatch(spec.strip())
    if named is None:
        raise Inexpressible(f"`{spec}` has no plain name")
    return named[1], clauses(named[2])


def clauses(version: str) -> tuple[Clause, ...]:
    """Read the version of a match spec, without duplicates. Raises Inexpressible."""
    joined = re.sub(r"(?<=[<>=!~,|])\s+|\s+(?=[,|])", "", version.strip())
    if " " in joined or "|" in joined or "(" in joined:
        raise Inexpressible(f"`{version}` names a build, or a choice of versions")
    parsed = (_clause(part) for part in joined.split(",") if part not in ("", "*"))
    return tuple(dict.fromkeys(clause for clause in parsed if clause is not None))


def _clause(text: str) -> Clause | None:
    read = _CLAUSE.fullmatch(text)
    if read is None:
        raise Inexpressible(f"`{text}` isn't a plain version")
    operator, number, star, early = read.groups()
    if early and operator != "<":
        raise Inexpressible(f"`{text}` names a pre-release")
    if operator in (">=", ">", "<", "<="):
        # PEP 440's `<2` leaves out the pre-releases of 2 by itself; conda has to write `<2.0a0` for it
        return operator, re.sub(r"(\.0)+$", "", number) if operator in (">=", "<") else number
    if operator == "~=":
        return operator, number
    exact = "!=" if operator == "!=" else "=="
    return exact, f"{number}.*" if star or operator == "=" else number


def specifier_text(bound: tuple[Clause, ...]) -> str:
    """Write clauses as a specifier: lower bounds first, then upper ones, then exclusions."""
    order = ("==", "~=", ">=", ">", "<=", "<", "!=")
    return ",".join(operator + version for operator, version in sorted(bound, key=lambda c: order.index(c[0])))
