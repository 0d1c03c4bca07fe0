"""Corrections of published METADATA, so that a lock which resolves also works.

A *constraint* bounds a package that is there anyway: torch 2.2 needs `numpy<2` of whoever has NumPy, and asks for none.
A *requirement* is left out of the METADATA altogether: faiss-cpu 1.7.4 needs `numpy`. An *extra* says what else a
package needs: transformers' `torch>=2.4; extra == "torch"` holds for every torch beside it.

The solver is shown each as lines of the METADATA that lacks them, version by version, so that it finds the newest that
works, also by another version of the corrected package.

Why it is so: docs/design/09-corrections.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from packaging.specifiers import SpecifierSet

from envspec.facts.tables import read, records
from envspec.facts.wheel_bounds import WHEEL_BOUNDS
from envspec.facts.wheels import FAMILY
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, published_requirement

_EXTRA = re.compile(r"""\s*extra\s*==\s*(['"])([A-Za-z0-9._-]+)\1\s*""")
_DERIVED = re.compile(
    rf"([a-z0-9-]+)-(?:extra-({'|'.join(FAMILY)})|read-({'|'.join(map(requirement_name, WHEEL_BOUNDS))}))"
)
_METADATA, _WHEEL = ("METADATA",), ("wheel",)
_DERIVED_SOURCES = (_METADATA, _WHEEL)
"""The sources of corrections that stand in no table."""
_LOWER = {">=": ">=", ">": ">", "~=": ">="}


class Correction(Struct, frozen=True, rename={"sources": "source"}):
    """A requirement that `package` (normalised name) in these `versions` (a specifier) has besides its METADATA.

    name         switches it off
    kind         see the module
    requirement  PEP 508; of an extra only the name
    reason       the failure without it
    sources      keys of the table's sources, or addresses
    proved       the proof of that: executed, imported, read or upstream
    seen         of an extra or a wheel: the version that it was found in
    """

    name: str
    package: str
    versions: str
    kind: Literal["constraint", "requirement", "extra"]
    requirement: str
    reason: str
    sources: tuple[str, ...] = ()
    proved: str = "read"
    seen: str = ""

    def concerns(self, package: str, version: str) -> bool:
        """Return whether it is about a package (normalised name) in a version, whatever its local part."""
        return package == self.package and _specifier(self.versions).contains(version, prereleases=True)

    @property
    def bounded(self) -> str:
        """The normalised name of the package that it needs."""
        return _leading_name(self.requirement)

    @property
    def is_of_a_wheel(self) -> bool:
        """Return whether it was read from a wheel, not from a table or from METADATA."""
        return self.sources == _WHEEL


class Corrections(Struct, frozen=True, eq=False, dict=True):
    """The corrections that count in a resolution. Equal ones have one `digest`.

    `active` names constraints and extras whose two packages are both in the solution. Others bound what the METADATA
    itself requires, and nothing else: they would add a package.
    """

    rows: tuple[Correction, ...] = ()
    active: frozenset[str] = frozenset()

    @cached_property
    def digest(self) -> str:
        import hashlib

        return hashlib.sha256(repr((self.rows, sorted(self.active))).encode()).hexdigest()[:16] if self.rows else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Corrections) and self.digest == other.digest

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def _by_package(self) -> Mapping[str, tuple[Correction, ...]]:
        rows_by_package: dict[str, list[Correction]] = {}
        for row in self.rows:
            rows_by_package.setdefault(row.package, []).append(row)
        return {package: tuple(rows) for package, rows in rows_by_package.items()}

    def of(self, package: str, version: str) -> Iterator[Correction]:
        """Find those of a package (normalised name) in a version."""
        return (row for row in self.about(package) if row.concerns(package, version))

    def about(self, package: str) -> tuple[Correction, ...]:
        """Find those of a package (normalised name) in any version."""
        return self._by_package.get(package, ())

    @property
    def active_packages(self) -> frozenset[str]:
        """The packages with an active correction."""
        return frozenset(row.package for row in self.rows if row.name in self.active)

    def without(self, packages: Iterable[str]) -> Corrections:
        """Leave out those of packages (normalised names) that come from elsewhere: they are other builds. What was read
        from their own wheels holds."""
        gone = self._by_package.keys() & set(packages)
        rows = tuple(row for row in self.rows if row.package not in gone or row.is_of_a_wheel)
        return replace(self, rows=rows) if gone else self

    def only(self, packages: Iterable[str]) -> Corrections:
        """Give those of packages (normalised names)."""
        names = set(packages)
        rows = tuple(row for row in self.rows if row.package in names)
        return Corrections(rows, self.active & {row.name for row in rows})

    def besides(self, overridden: Iterable[str]) -> Corrections:
        """Leave out the bounds on packages (normalised names) whose versions the spec states in place of all others."""
        names = set(overridden)
        rows = tuple(row for row in self.rows if row.kind == "requirement" or row.bounded not in names)
        return replace(self, rows=rows) if names else self

    def without_names(self, names: Iterable[str]) -> Corrections:
        """Leave out corrections by name."""
        gone = set(names)
        return replace(self, rows=tuple(row for row in self.rows if row.name not in gone)) if gone else self

    def with_active(self, names: Iterable[str], more: Iterable[Correction] = ()) -> Corrections:
        """Make corrections active by name, and add more rows."""
        known = {(row.name, row.versions) for row in self.rows}
        rows = (*self.rows, *(row for row in more if (row.name, row.versions) not in known))
        return Corrections(rows, self.active | set(names))

    def inactive(self) -> Corrections:
        """Give those of the tables, none of them active. Others hold only where they are active."""
        return (
            Corrections(tuple(row for row in self.rows if row.sources not in _DERIVED_SOURCES)) if self.active else self
        )

    def with_read(self, rows: Iterable[Correction]) -> Corrections:
        """Give these in place of all that were read from wheels."""
        gone = {row.name for row in self.rows if row.is_of_a_wheel}
        rest = Corrections(tuple(row for row in self.rows if not row.is_of_a_wheel), self.active - gone)
        read = tuple(rows)
        return rest.with_active((row.name for row in read), read)

    def beside(self, names: Iterable[str]) -> frozenset[str]:
        """Name the constraints and extras whose two packages are both among these names."""
        present = set(names)
        return frozenset(
            row.name
            for row in self.rows
            if row.kind != "requirement" and row.package in present and row.bounded in present
        )

    def between(self, names: Iterable[str]) -> frozenset[str]:
        """Name the packages that corrections between these bound, and those that they are about."""
        present = set(names)
        rows = (row for row in self.rows if row.package in present and row.bounded in present)
        return frozenset(name for row in rows for name in (row.package, row.bounded))

    def missing_requirements(self, package: str, version: str, published: Iterable[str]) -> tuple[str, ...]:
        """List the requirements that METADATA (`published` are its Requires-Dist lines) leaves out. They count as
        edges."""
        missing = [row.requirement for row in self.of(package, version) if row.kind == "requirement"]
        return tuple(line for line in missing if not _is_implied(published, line)) if missing else ()

    def bounds(self, package: str, version: str, published: Iterable[str]) -> tuple[str, ...]:
        """List the lines that bound other packages. They count while solving, and are no edges."""
        lines: list[str] = []
        for row in self.of(package, version):
            if row.kind == "extra":
                lines += bounds_of_extras(published, (row.bounded,)) if row.name in self.active else ()
            elif row.kind == "constraint":
                lines += [row.requirement] if row.name in self.active else _beside(published, row)
        return tuple(dict.fromkeys(lines))

    def violations(self, pins: Mapping[str, str]) -> tuple[Correction, ...]:
        """Find those that exact pins (normalised name -> version) violate. Extras aren't judged here: what they bound
        stands in METADATA."""
        return tuple(
            row
            for name, version in pins.items()
            for row in self.of(name, version)
            if row.kind != "extra" and _is_broken(row, pins)
        )


NO_CORRECTIONS = Corrections()


@cache
def table() -> tuple[Correction, ...]:
    """Every correction in the table."""
    rows = read("corrections")["corrections"]
    kinds = {True: "requirement", False: "constraint"}
    known = ({"kind": kinds["requirement" in row], "requirement": row.get("constraint")} | row for row in rows)
    return records(Correction, known)


def sources_of(correction: Correction) -> tuple[str, ...]:
    """Give where a row of the table is from, in words: upstream's thread. None for what was read from METADATA or a
    wheel."""
    texts: Mapping[str, str] = read("corrections")["sources"]
    return tuple(texts[key] for key in correction.sources if key in texts)


def corrections(off: Iterable[str] = ()) -> Corrections:
    """Give every correction but those that are switched off by name."""
    switched_off = set(off)
    return Corrections(tuple(row for row in table() if row.name not in switched_off))


def unknown_names(names: Iterable[str]) -> tuple[str, ...]:
    """Find the names that are no correction's: of the tables, of an extra, or read from a wheel."""
    known = {row.name for row in table()}
    return tuple(name for name in sorted(names) if name not in known and not _DERIVED.fullmatch(name))


def derivation(name: str) -> str | None:
    """Give the source of a correction that stands in no table, by the correction's name; None for any other name."""
    match = _DERIVED.fullmatch(name)
    if match is None:
        return None
    package, extra, bounded = match.groups()
    if extra:
        return (
            f"the METADATA of {package}: what its extra {extra} asks of {extra} at least, it needs of every {extra} "
            "beside it"
        )
    bound = next(requirement for requirement in WHEEL_BOUNDS if requirement_name(requirement) == bounded)
    evidence = f"its files show that it needs {bound}"
    return f"a wheel of {package}: {evidence}; [[corrections]] of a lock names the wheel and its hash"


def of_extra(package: str, version: str, bound: str) -> Correction:
    """Make the correction that an extra of a package says: `bound` is one of `bounds_of_extras`."""
    name = _leading_name(bound)
    return Correction(
        f"{package}-extra-{name}",
        package,
        "",
        "extra",
        name,
        f"{package} {version} works with {bound} alone, which only its extra {name} says",
        _METADATA,
        "read",
        version,
    )


def of_wheel(package: str, version: str, constraint: str, reason: str, but: Iterable[str] = ()) -> Correction:
    """Make the correction that a wheel's own files say: `constraint` is one of `WHEEL_BOUNDS`.

    It holds for older releases as well, except for those in `but`: what they were compiled for, or import, is rarely
    newer. A solver would otherwise go back through them, one after the other.
    """
    older = ",".join((f"<={version.partition('+')[0]}", *(f"!={excepted}" for excepted in but)))
    kind = WHEEL_BOUNDS[constraint].kind
    return Correction(
        f"{package}-read-{_leading_name(constraint)}", package, older, kind, constraint, reason, _WHEEL, "read", version
    )


def bounds_of_extras(published: Iterable[str], names: Iterable[str] = FAMILY) -> tuple[str, ...]:
    """Read from Requires-Dist lines the lower bounds of extras that are named like the package they bound.

    Of the torch family alone: other extras say what tests, documents or checks were run with.
    """
    bounds = []
    for line in published:
        marker = _EXTRA.fullmatch(line.partition(";")[2])
        if marker is None or canonical_name(marker[2]) not in names:
            continue
        requirement = published_requirement(line)
        lower = [
            f"{_LOWER[clause.operator]}{clause.version}"
            for clause in requirement.specifier
            if clause.operator in _LOWER
        ]
        if lower and canonical_name(requirement.name) == canonical_name(marker[2]):
            bounds.append(f"{canonical_name(requirement.name)}{','.join(sorted(lower))}")
    return tuple(bounds)


def admits(requirement: str, version: str) -> bool:
    """Return whether a requirement's specifier admits a version."""
    return published_requirement(requirement).specifier.contains(version, prereleases=True)


def is_within(version: str, specifiers: Iterable[str]) -> bool:
    """Return whether specifiers together admit a version."""
    return all(_specifier(specifier).contains(version, prereleases=True) for specifier in specifiers)


def implies(specifiers: Iterable[str], requirement: str) -> bool:
    """Return whether specifiers together exclude all that a requirement excludes, as far as the versions that they name
    tell: each of those, the next after it, and one beyond all."""
    bound = published_requirement(requirement).specifier
    both = _specifier(",".join(filter(None, specifiers)))
    return all(bound.contains(probe, prereleases=True) for probe in both.filter(_probes(both, bound), prereleases=True))


def has_common_version(specifier: str, other_specifiers: Iterable[str]) -> bool:
    """Return whether a specifier and others have a version in common, as far as the versions that they name tell."""
    own, both = _specifier(specifier), _specifier(",".join(filter(None, other_specifiers)))
    return any(own.contains(probe, prereleases=True) for probe in both.filter(_probes(own, both), prereleases=True))


def _probes(*specifiers: SpecifierSet) -> set[str]:
    named = {clause.version.removesuffix(".*") for specifier in specifiers for clause in specifier}
    return {probe for version in named for probe in (version, f"{version.partition('+')[0]}.1")} | {"0", "99999"}


def _is_broken(row: Correction, pins: Mapping[str, str]) -> bool:
    other = pins.get(row.bounded)
    if other is None:
        return row.kind == "requirement"
    return not admits(row.requirement, other)


def _beside(published: Iterable[str], row: Correction) -> Iterator[str]:
    """Bound what METADATA requires, under the same markers."""
    for line in published:
        if _leading_name(line) == row.bounded:
            _, semicolon, marker = line.partition(";")
            yield f"{row.requirement} ;{marker}" if semicolon else row.requirement


def _is_implied(published: Iterable[str], requirement: str) -> bool:
    name = _leading_name(requirement)
    own = [line for line in published if ";" not in line and _leading_name(line) == name]
    return bool(own) and implies([str(published_requirement(line).specifier) for line in own], requirement)


@lru_cache(maxsize=4096)
def _leading_name(requirement: str) -> str:
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", requirement)
    return canonical_name(match[1]) if match else ""


@lru_cache(maxsize=4096)
def _specifier(text: str) -> SpecifierSet:
    return SpecifierSet(text)
