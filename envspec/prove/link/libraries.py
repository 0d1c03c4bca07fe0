"""A target's libraries together: which file gives another what it needs, and what is loaded with it."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from envspec.binaries.elf import DynamicFacts
from envspec.prove.link.model import LinkedPackage
from envspec.prove.link.symbols import family

_TORCH = ("libc10", "libtorch")


@dataclass(frozen=True, eq=False)
class LoadedFile:
    """One file of the environment, of a package. Each is itself alone."""

    package: LinkedPackage
    path: str
    facts: DynamicFacts
    exported: frozenset[str] = field(repr=False)


class Libraries:
    """The libraries of a target's wheels, as they lie beside each other. `packages` are in the order of installation:
    of two files at one path the later one is there."""

    def __init__(self, packages: Iterable[LinkedPackage]) -> None:
        self._by_path: dict[str, LoadedFile] = {
            file.path: LoadedFile(package, file.path, file.facts, frozenset(file.facts.exported))
            for package in packages
            for file in package.facts.files
        }
        self.all: tuple[LoadedFile, ...] = tuple(self._by_path.values())
        self._by_name: defaultdict[str, list[LoadedFile]] = defaultdict(list)
        for one in self.all:
            if not one.facts.program:
                for name in {one.facts.soname, posixpath.basename(one.path)} - {None}:
                    self._by_name[str(name)].append(one)
        self._alike: defaultdict[tuple[str, str], list[LoadedFile]] = defaultdict(list)
        for one in self.all:
            self._alike[_without_numbers(one)].append(one)
        self._scopes: dict[LoadedFile, tuple[LoadedFile, ...]] = {}

    def providers(self, library: LoadedFile, name: str) -> Sequence[LoadedFile]:
        """Give the files that can be what a library needs by a name.

        Where its own search path has one, that is it. Elsewhere all of that name count: what is loaded already (torch's
        libraries, by `import torch`) is found by its name alone.
        """
        origin = posixpath.dirname(library.path)
        for folder in library.facts.search:
            place = folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", origin or ".")
            found = self._by_path.get(posixpath.normpath(posixpath.join(place, name)))
            if found is not None:
                return (found,)
        return self._by_name.get(name, ())

    def scope(self, library: LoadedFile) -> tuple[LoadedFile, ...]:
        """Give what is loaded with a library: itself, what it needs, what that needs."""
        known = self._scopes.get(library)
        if known is None:
            found, left = {library: None}, [library]
            for one in left:
                for name in one.facts.needed:
                    fresh = [other for other in self.providers(one, name) if other not in found]
                    found |= dict.fromkeys(fresh)
                    left += fresh
            known = self._scopes[library] = tuple(found)
        return known

    def siblings(self, library: LoadedFile) -> Iterator[LoadedFile]:
        """Give the files of a package that are named like one of its files but for their numbers."""
        return (one for one in self._alike[_without_numbers(library)] if one is not library)

    def imported(self) -> frozenset[LoadedFile]:
        """Give what Python loads: extension modules, what registers operators with torch, and all they need."""
        return frozenset(one for library in self.all if _is_imported(library) for one in self.scope(library))

    def loading(self, library: LoadedFile) -> Iterator[LoadedFile]:
        """Give those that are loaded with a library because they need it."""
        return (one for one in self.all if one is not library and library in self.scope(one))


def _without_numbers(library: LoadedFile) -> tuple[str, str]:
    return library.package.name, re.sub(r"\d+", "#", library.path)


def _is_imported(library: LoadedFile) -> bool:
    facts = library.facts
    if facts.program:
        return False
    if any(family(symbol) == "python" for symbol in facts.exported):
        return True
    return any(name.startswith(_TORCH) for name in facts.needed) or any(
        family(symbol) in ("torch", "stable") for symbol in facts.undefined
    )
