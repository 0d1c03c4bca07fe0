"""The loader's answer: pure, over the facts of a target's wheels and of the system below them."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from envspec.base.finding import Finding, Severity
from envspec.base.texts import few
from envspec.binaries.elf import DynamicFacts
from envspec.facts.build_labels import label_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name
from envspec.packages.version_numbers import numbers_in
from envspec.prove.link.model import (
    FORGOTTEN,
    LinkedPackage,
    Unloadable,
    families_of,
    family,
    is_extension,
    is_rocms,
    overload_prefix,
    plain_name,
)
from envspec.prove.link.system import System, cuda_major_of, debian_package, is_drivers

# Remedies for the findings of link.


def _remedy_of_library(package: LinkedPackage, name: str, system: System) -> str:
    """Return the remedy for a library that nothing brings."""
    major = cuda_major_of(name)
    if is_rocms(name):
        other = f"its build for CUDA {system.cuda}" if system.cuda else "a CPU build of it"
        return f"{package.name} was built for AMD's GPUs: choose {other}; machines with ROCm have the library"
    if is_drivers(name) or (major and not system.cuda):
        return f"this is a build for GPUs: choose a CPU build of {package.name}, or give the target a `cuda`"
    if major and system.cuda and major != system.cuda.partition(".")[0]:
        return f"{package.name} was built for CUDA {major}: choose its build for CUDA {system.cuda}"
    if name.startswith(("libtorch", "libc10")):
        return f"add torch to [pip] dependencies, or choose a build of {package.name} for the target's torch"
    debian = debian_package(name)
    if debian:
        return f'add to [image]: apt = ["{debian}"]; other machines need the package that brings it'
    return f"choose another build of {package.name}, or add what brings the library"


def explain_unused_libraries(libraries: Sequence[str]) -> str:
    """Return the remedy for libraries that only files need which importing doesn't load."""
    packages = sorted({f'"{debian}"' for library in libraries if (debian := debian_package(library))})
    apt = f", in images [image] apt = [{', '.join(packages)}]" if packages else ""
    return f"nothing to do, unless the program uses these files: then add what brings the libraries{apt}"


def _remedy_of_version(
    package: LinkedPackage, name: str, versions: Sequence[str], provider: LinkedPackage | None, system: System
) -> str:
    """Return the remedy for symbol versions that a library lacks."""
    if provider is not None:
        return (
            f"choose a release of {provider.name} with {versions[-1]}, or one of {package.name} that was built against "
            f"{provider.name} {provider.version}"
        )
    glibc = ".".join(map(str, system.glibc))
    newest = max((version for version in versions if version.startswith("GLIBC_")), key=numbers_in, default=None)
    choose = f"choose a release of {package.name} that runs on glibc {glibc}"
    if newest and numbers_in(newest):
        required = newest.removeprefix("GLIBC_")
        return f'{choose}, or set glibc = "{required}" for the target if its machines and its base image have it'
    return f"{choose}, or raise the target's `glibc` if its machines and its base image are newer"


def _remedy_of_symbol(package: LinkedPackage, kind: str, packages: Mapping[str, LinkedPackage]) -> str:
    """Name the builds with the symbols that nothing exports."""
    if kind == "cuda":
        return (
            f"lock CUDA libraries as new as those that {package.name} {package.version} was built against, or an older "
            f"{package.name}"
        )
    torch = packages.get("torch")
    if torch is None:
        return "add torch to [pip] dependencies"
    if package.name == "torch":
        return "torch's own files don't fit each other: report it to torch's authors"
    if kind == "stable":
        return f"lock a newer torch than {torch.version}: {package.name} uses more of the stable ABI than that one has"
    release = torch.version.partition("+")[0]
    label = label_of(package.version, package.file)
    torches = label.torch if label else ()
    if torches and any(torch.version.startswith(f"{series}.") for series in torches):
        return f"choose another build of {package.name}: this one wasn't built against torch {release} as it says"
    mine = f", or torch=={torches[0]}.*, for which this one was built" if torches else ""
    return f"choose the release of {package.name} that was built for torch {release}{mine}"


_TORCH = ("libc10", "libtorch")


class LoadedFile(Struct, frozen=True, eq=False):
    """One file of the environment, of a package. Each is itself alone."""

    package: LinkedPackage
    path: str
    facts: DynamicFacts
    exported: frozenset[str]


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
        for library in self.all:
            if not library.facts.program:
                for name in {library.facts.soname, posixpath.basename(library.path)} - {None}:
                    self._by_name[str(name)].append(library)
        self._alike: defaultdict[tuple[str, str], list[LoadedFile]] = defaultdict(list)
        for library in self.all:
            self._alike[_without_numbers(library)].append(library)
        self._scopes: dict[LoadedFile, tuple[LoadedFile, ...]] = {}

    def providers(self, library: LoadedFile, name: str) -> Sequence[LoadedFile]:
        """Return the files that can be the library of a name for another library.

        Where its own search path has one, that is it. Elsewhere all of that name count: what is loaded already (torch's
        libraries, by `import torch`) is found by its name alone.
        """
        origin = posixpath.dirname(library.path)
        for folder in library.facts.search:
            place = folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", origin or ".")
            provider = self._by_path.get(posixpath.normpath(posixpath.join(place, name)))
            if provider is not None:
                return (provider,)
        return self._by_name.get(name, ())

    def scope(self, library: LoadedFile) -> tuple[LoadedFile, ...]:
        """Return the files that are loaded with a library: itself, and its dependencies at any depth."""
        known = self._scopes.get(library)
        if known is None:
            loaded, left = {library: None}, [library]
            for file in left:
                for name in file.facts.needed:
                    fresh = [other for other in self.providers(file, name) if other not in loaded]
                    loaded |= dict.fromkeys(fresh)
                    left += fresh
            known = self._scopes[library] = tuple(loaded)
        return known

    def siblings(self, library: LoadedFile) -> Iterator[LoadedFile]:
        """Give the files of a package that are named like one of its files but for their numbers."""
        return (file for file in self._alike[_without_numbers(library)] if file is not library)

    def imported_files(self) -> frozenset[LoadedFile]:
        """Return the files that Python loads: extension modules, operators for torch, and all their dependencies."""
        torch = any(file.package.name == "torch" for file in self.all)
        return frozenset(file for library in self.all if _is_imported(library, torch) for file in self.scope(library))

    def loaders_of(self, library: LoadedFile) -> Iterator[LoadedFile]:
        """Give those that are loaded with a library because they need it."""
        return (file for file in self.all if file is not library and library in self.scope(file))


def _without_numbers(library: LoadedFile) -> tuple[str, str]:
    return library.package.name, re.sub(r"\d+", "#", library.path)


def _is_imported(library: LoadedFile, torch: bool) -> bool:
    """Return whether importing loads a file, in a target with or without torch."""
    facts, of_wheel = library.facts, library.package.facts
    if facts.program or library.path in of_wheel.optional:
        return False
    if any(name.startswith(_TORCH) for name in facts.needed):
        return True
    bound = any(family(symbol) in ("torch", "stable") for symbol in facts.undefined)
    # cuda-core imports its bridge to torch once it is given a tensor
    bridge = bound and not torch and all(module != "torch" for module, _ in of_wheel.imports)
    return not bridge and (bound or is_extension(facts))


_WITHOUT_DISTUTILS = (3, 12)
_NAMED = 3
"""The number of files or symbols that a message names before it counts the rest."""


def judge(packages: Sequence[LinkedPackage], system: System, locked: Collection[str] = ()) -> tuple[Finding, ...]:
    """Find the faults for which the loader, or Python's import, would refuse a target's wheels; errors first. `locked`
    names all packages of the target.

    A library is found when a wheel, the base image, the driver or Python brings it, wherever that is: in which order
    a program imports isn't judged. Of the symbols, those of torch and of the CUDA libraries are asked for.
    """
    findings = [*_Judge(packages, system).findings(), *_unread(packages), *_imports(packages, system, locked)]
    return tuple(
        sorted(
            findings,
            key=lambda finding: (finding.severity != "error", finding.package, finding.code, finding.evidence.names),
        )
    )


class _Missing(Struct, frozen=True):
    """One thing that one file lacks. `by` is what is told together: the remedy of libraries, the library of versions,
    the family of symbols."""

    library: LoadedFile
    code: str
    by: str
    name: str


class _Judge:
    def __init__(self, packages: Sequence[LinkedPackage], system: System) -> None:
        self._files = Libraries(packages)
        self._imported = self._files.imported_files()
        self._system = system
        self._packages = {package.name: package for package in packages}

    def findings(self) -> Iterator[Finding]:
        """Merge the findings about the files of a package that lack the same library, or the same family of symbols."""
        together: defaultdict[tuple[str, str, str, Severity], list[_Missing]] = defaultdict(list)
        self._lacking = {library: tuple(self._libraries(library)) for library in self._files.all}
        for library in self._files.all:
            for missing in (*self._lacking[library], *self._versions(library), *self._symbols(library)):
                level = self._level(missing)
                # what may lie there unused is told in one line
                by = "" if missing.code == "library-missing" and library not in self._imported else missing.by
                together[library.package.name, missing.code, by, level].append(missing)
        for (name, code, by, level), group in together.items():
            yield self._finding(self._packages[name], code, by, level, group)

    def _level(self, missing: _Missing) -> Severity:
        if missing.code == "symbol-elsewhere" or self._unsure(missing):
            return "warning"
        # a library for another GPU, CUDA or MPI may lie there unused; none is for a newer glibc than the rest, but
        # for what is no library by its name: a debugger's goes into other processes
        called = missing.library.path.rpartition("/")[2].startswith("lib") and not missing.library.facts.program
        used = missing.library in self._imported or (missing.code == "version-missing" and called)
        return "error" if used and not self._alternative(missing) else "warning"

    def _alternative(self, missing: _Missing) -> LoadedFile | None:
        """Give a file that is there for another release of the library that this one lacks: torchcodec has one for each
        FFmpeg, by number, and tries them in turn."""
        if missing.code != "library-missing":
            return None
        return next((other for other in self._files.siblings(missing.library) if self._loads(other)), None)

    def _loads(self, library: LoadedFile) -> bool:
        return not any(self._lacking[other] for other in self._files.scope(library))

    def _unsure(self, missing: _Missing) -> bool:
        """Return whether an unread package or an unknown base could bring the missing part."""
        if self._system.conda:
            # conda's libstdc++ is known, and glibc isn't conda's
            return missing.code != "version-missing"
        return missing.code == "library-missing" and not self._system.known

    def _libraries(self, library: LoadedFile) -> Iterator[_Missing]:
        for name in library.facts.needed:
            if not self._files.providers(library, name) and not self._system.has(name):
                yield _Missing(
                    library, "library-missing", _remedy_of_library(library.package, name, self._system), name
                )

    def _versions(self, library: LoadedFile) -> Iterator[_Missing]:
        for name, versions in library.facts.versions:
            providers = self._files.providers(library, name)
            # the loader lets a library without any versions pass, with a warning
            checked = bool(providers) and all(provider.facts.offered for provider in providers)
            offered = {version for provider in providers for version in provider.facts.offered}
            for version in versions:
                if version not in offered if checked else not providers and self._system.lacks(name, version):
                    yield _Missing(library, "version-missing", name, version)

    def _symbols(self, library: LoadedFile) -> Iterator[_Missing]:
        scope = self._files.scope(library)
        # where torch's or a CUDA library is missing, so are its symbols
        absent = {kind for other in scope for missing in self._lacking[other] for kind in families_of(missing.name)}
        for symbol in library.facts.undefined:
            kind = family(symbol)
            if (
                kind not in ("torch", "stable", "cuda")
                or kind in absent
                or any(symbol in file.exported for file in scope)
            ):
                continue
            if any(symbol in file.exported for file in self._companions(library)):
                continue
            if not any(symbol in file.exported for file in self._files.all):
                yield _Missing(library, "symbol-missing", kind, symbol)
            elif kind != "cuda":
                # CUDA's libraries are there for all once torch is imported: it loads them so
                yield _Missing(library, "symbol-elsewhere", kind, symbol)

    def _companions(self, library: LoadedFile) -> Iterator[LoadedFile]:
        """Return the dependencies of the files that need this library: its symbols are looked up there too."""
        return (file for other in self._files.loaders_of(library) for file in self._files.scope(other))

    def _finding(
        self, package: LinkedPackage, code: str, by: str, level: Severity, group: Sequence[_Missing]
    ) -> Finding:
        paths = sorted({missing.library.path for missing in group})
        names = sorted({missing.name for missing in group})
        message, remedy = self._words(package, code, by, paths, names)
        if level == "warning" and self._system.conda and code != "version-missing":
            message += "; a conda package may bring it, and those aren't read"
        elif level == "warning" and code == "library-missing" and not self._system.known:
            message += f", unless {self._system.base} has it"
        elif level == "warning" and (other := self._alternative(group[0])):
            message += f"; {other.path} fits in its place"
        elif level == "warning" and code != "symbol-elsewhere":
            message += "; importing doesn't load this file"
        return _finding_of(package, level, code, message, remedy, paths, names)

    def _words(
        self, package: LinkedPackage, code: str, by: str, paths: Sequence[str], names: Sequence[str]
    ) -> tuple[str, str]:
        files = f"{few(paths, _NAMED)} {'needs' if len(paths) == 1 else 'need'}"
        if code == "library-missing":
            where = f"the target's wheels, {self._system.base} and {'the driver' if self._system.driver else 'Python'}"
            return f"{files} {few(names, _NAMED)}, which {where} don't have", by or explain_unused_libraries(names)
        if code == "version-missing":
            provider = self._provider_of(by)
            has = (
                f"{provider.name} {provider.version} brings one without"
                if provider
                else f"{self._of_system(by)} doesn't have"
            )
            needs = f"{files} {few(names, _NAMED)} of {by}, which {has}{' it' if provider else ''}"
            return needs, _remedy_of_version(package, by, names, provider, self._system)
        shown = few([_symbol(name) for name in names], _NAMED)
        if code == "symbol-elsewhere":
            message = f"{files} {shown} and no library that has it: loading fails unless one was loaded for all before"
            return message, f"import {package.name} once to see; if it fails, report it to {package.name}'s authors"
        message = f"{files} the {'symbol' if len(names) == 1 else 'symbols'} {shown}, which {self._no_exporter(by)}"
        if overloaded := self._find_overload(names):
            message += f": there, {overloaded} has other arguments"
        return message, _remedy_of_symbol(package, by, self._packages)

    def _provider_of(self, library: str) -> LinkedPackage | None:
        named = (file for file in self._files.all if file.path.rpartition("/")[2] == library)
        return next((file.package for file in named), None)

    def _of_system(self, library: str) -> str:
        glibc = ".".join(map(str, self._system.glibc))
        if library.startswith(("libstdc++", "libgcc_s")):
            return "the libstdc++ of conda" if self._system.conda else f"a system of glibc {glibc}"
        return f"glibc {glibc}"

    def _no_exporter(self, kind: str) -> str:
        if kind == "cuda":
            return "no CUDA library of the target exports"
        torch = self._packages.get("torch")
        return f"torch {torch.version} doesn't export" if torch else "no package of the target exports"

    def _find_overload(self, names: Sequence[str]) -> str | None:
        """Name the first of the symbols that torch has under the same name with other arguments."""
        for name in names:
            shared = overload_prefix(name)
            torchs = (file for file in self._files.all if file.package.name == "torch")
            if shared and any(symbol.startswith(shared) for file in torchs for symbol in file.exported):
                return plain_name(name)
        return None


def _finding_of(
    package: LinkedPackage,
    severity: Severity,
    code: str,
    message: str,
    remedy: str,
    paths: Sequence[str],
    names: Sequence[str],
) -> Finding:
    evidence = Unloadable(package.version, tuple(paths), tuple(names))
    return Finding(severity, code, message, remedy=remedy, package=package.name, file=package.file, evidence=evidence)


def _unread(packages: Iterable[LinkedPackage]) -> Iterator[Finding]:
    for package in packages:
        if package.facts.unread:
            paths = tuple(path for path, _ in package.facts.unread)
            message = f"{few(paths, _NAMED)} can't be read as the loader reads it: {package.facts.unread[0][1]}"
            remedy = f"report it to {package.name}'s authors"
            yield _finding_of(package, "warning", "elf-unreadable", message, remedy, paths, ())


def _imports(packages: Iterable[LinkedPackage], system: System, locked: Collection[str]) -> Iterator[Finding]:
    if not locked:
        return
    brought = {module for package in packages for module in package.facts.brings}
    if numbers_in(system.python) < _WITHOUT_DISTUTILS or "setuptools" in locked:
        brought.add("distutils")
    # of the others isn't known what they bring: conda's, sources, and what comes with envspec
    unknown = {canonical_name(name) for name in locked} - {package.name for package in packages if package.facts.brings}
    for package in packages:
        for module, by in package.facts.imports:
            requirement = FORGOTTEN[module]
            if module in brought or requirement_name(requirement) in unknown:
                continue
            message = f"{by} imports {module}, which no package of the target brings: importing it fails"
            remedy = f"add to [pip] dependencies: {requirement.replace('_', '-')}"
            yield _finding_of(package, "warning", "import-missing", message, remedy, (by,), (module,))


def _symbol(name: str) -> str:
    plain = plain_name(name)
    return name if plain == name else f"{plain} ({name})"
