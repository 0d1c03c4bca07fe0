"""Version specifiers (PEP 440) for the rules: the known releases that they admit, and the versions that they name."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version

from envspec.packages.requirement import Clause, parse_specifier
from envspec.packages.version_numbers import numbers


@dataclass(frozen=True)
class Specifier:
    """Clauses that must all hold. Without clauses, it admits every version."""

    clauses: tuple[Clause, ...] = ()

    def __str__(self) -> str:
        return ",".join(sorted((operator + version for operator, version in self.clauses), reverse=True))

    def __and__(self, other: Specifier) -> Specifier:
        return Specifier(tuple(dict.fromkeys((*self.clauses, *other.clauses))))

    def admits(self, version: str) -> bool:
        """Say whether a version, possibly with a local part, satisfies the specifier."""
        return parse_specifier(str(self)).contains(version, prereleases=True)

    def bounds(self) -> tuple[tuple[int, ...], ...]:
        """The releases that the specifier names, as numbers."""
        return tuple(_release(version.removesuffix(".*")) for _, version in self.clauses)

    def local(self) -> str | None:
        """The local part that the specifier pins (`cu126` of `==2.9.1+cu126`), None without one."""
        return next((version.partition("+")[2].lower() for _, version in self.clauses if "+" in version), None)


def parse(text: str) -> Specifier:
    """Read a specifier. Raises ValueError for a text that isn't one."""
    return Specifier(tuple((clause.operator, clause.version) for clause in parse_specifier(text)))


def _release(version: str) -> tuple[int, ...]:
    try:
        return numbers(version)
    except ValueError:
        return Version(version).release
