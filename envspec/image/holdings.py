"""A base's holdings for Python and GPUs, by its files: none of its code is run.

Read are installers' records (PEP 376, PEP 627; conda-meta's file names), Python's own header, the C library, the names
of versioned libraries and pip's constraint files. What a name says counts for no more than that: the version of a
library is that of its file's name, as `ldconfig` would link it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from email.message import Message
from email.parser import HeaderParser
from functools import partial
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from envspec.base.documents import decode
from envspec.base.errors import InputError
from envspec.base.plain_files import read_plain
from envspec.binaries.elf import DynamicFacts
from envspec.binaries.wheel import record_rows
from envspec.image.base import BaseFiles, ReadPaths
from envspec.install.on_base import BasePrefix
from envspec.lock.inventory import Inventory, is_package
from envspec.packages.edges import Markers
from envspec.packages.other_formats import logical_lines
from envspec.packages.requirement import canonical_name, published_requirement
from envspec.packages.version_numbers import numbers
from envspec.prove.link.model import ElfFile, LinkedPackage, WheelFacts
from envspec.prove.link.store import read_libraries, read_library

_LIBRARIES = "libcudart|libcublas|libcudnn|libnccl|libmpi|libfabric|libnccl-net-ofi|libnvinfer|libstdc\\+\\+"
_LIBRARY = re.compile(rf"(?:.*/)?({_LIBRARIES})\.so\.([0-9]+(?:\.[0-9]+)*)")
_LIBC = re.compile(r"(?:.*/)?lib(?:64)?/(?:[^/]+-linux-gnu/)?(?:libc\.so\.6|libc-(2\.[0-9]+)\.so)")
_PYTHON = re.compile(r"(?:.*/)?bin/python(3(?:\.[0-9]+)?)")
_CONDA = re.compile(r"(?:.*/)?conda-meta/([^/]+)-([^-/]+)-([^-/]+)\.json")
_RECORD = re.compile(r"((?:.*/)?[^/]+)/[^/]+\.(?:dist-info/METADATA|egg-info/PKG-INFO|egg-info)")
_PATCHLEVEL = re.compile(r"(?:.*/)?include/python(3\.[0-9]+)/patchlevel\.h")
_CONSTRAINTS = re.compile(r"etc/pip/[^/]+\.txt")
_SCRIPTS = re.compile(r"\.singularity\.d/env/[^/]+\.sh")
_VENV = re.compile(r"(?:.*/)?pyvenv\.cfg")

WANTED = ReadPaths(
    contents=re.compile(
        "|".join(pattern.pattern for pattern in (_RECORD, _PATCHLEVEL, _LIBC, _CONSTRAINTS, _SCRIPTS, _VENV))
    ),
    seen=re.compile("|".join(pattern.pattern for pattern in (_LIBRARY, _PYTHON, _CONDA, _LIBC))),
    head=4 << 20,
    most=128 << 20,
)
"""The paths that an inventory is made from."""

_VERSIONS = re.compile(r"[A-Z0-9_]+_VERSION")
_VALUES = re.compile(r"[0-9][0-9A-Za-z.+_-]{0,40}")
_OTHERS = (
    *("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "PIP_CONSTRAINT", "NVIDIA_REQUIRE_CUDA", "OPAL_PREFIX"),
    *("TORCH_CUDA_ARCH_LIST", "MODULEPATH", "MODULESHOME", "LOADEDMODULES", "_LMFILES_"),
)
_EXPORT = re.compile(r"""^(?:export )?([A-Z][A-Z0-9_]*)="?(?:\$\{[A-Z0-9_]+:-)?"?([^"}\n]*)"?\}?"?$""", re.MULTILINE)
_SEARCH = "/usr/local/bin:/usr/bin:/bin"
_PLACES = ("lib", "lib64", "usr/lib", "usr/local", "opt")
"""The folders in which the loader finds a system's libraries, and those of vendors."""
_NO_PART = ("proc", "sys", "dev", "run", "tmp")
"""The folders of a running system that are no part of what is installed."""
_HOPS = 8
"""Links of a program that are followed."""


def records_of(names: Collection[str], inventory: Inventory) -> ReadPaths:
    """Give the paths of a base by which the files of these packages are known: their RECORDs, in each folder."""
    folders = "|".join(map(re.escape, inventory.folders))
    spelled = "|".join(re.escape(name).replace(r"\-", "[-_.]+") for name in names)
    records = re.compile(rf"(?:{folders})/(?:{spelled})-[^-/]+\.dist-info/RECORD", re.IGNORECASE)
    return ReadPaths(records, re.compile("(?!)"), WANTED.head, WANTED.most)


def paths_of(names: Collection[str], inventory: Inventory, records: BaseFiles) -> tuple[str, ...]:
    """List what goes with these packages of a base, by their RECORDs: files of their folder and programs beside it,
    and the folders of the records. Raises InputError where a package has none."""
    paths: set[str] = set()
    packages = set()
    for path in records.files:
        info = posixpath.dirname(path)
        folder = posixpath.dirname(info)
        name, _, version = posixpath.basename(info).removesuffix(".dist-info").rpartition("-")
        packages.add((canonical_name(name), version))
        programs = posixpath.join(posixpath.normpath(posixpath.join(folder, "../../..")), "bin")
        for row, _, _ in record_rows(records.text(path)):
            place = posixpath.normpath(posixpath.join(folder, row))
            if place.startswith((f"{folder}/", f"{programs}/")) and not place.startswith(f"{info}/"):
                paths.add(place)
        paths.add(info)
    for name in sorted(names):
        if (name, inventory.packages[name]) not in packages:
            message = f"the base's {name} {inventory.packages[name]} has no RECORD: the list of its files is missing"
            raise InputError(message, hint="remove it in a base of your own, made by a Dockerfile")
    return tuple(sorted(paths))


def read_folder(root: Path, tops: Iterable[Path] | None = None) -> BaseFiles:
    """Read the files that an inventory is made from, below a whole system's root or an environment's, or of a system
    below `tops` alone; no link is followed. Raises OSError for a folder that can't be listed."""
    files: dict[str, bytes] = {}
    paths: set[str] = set()
    links: dict[str, str] = {}

    def fail(error: OSError) -> None:
        if error.filename == str(root):
            raise error

    for folder, subfolders, names in chain.from_iterable(os.walk(top, onerror=fail) for top in tops or [root]):
        if folder == str(root):
            subfolders[:] = [name for name in subfolders if name not in _NO_PART]
        for name in names:
            full = os.path.join(folder, name)
            path = os.path.relpath(full, root)
            if WANTED.seen.fullmatch(path):
                paths.add(path)
                if os.path.islink(full):
                    links[path] = os.readlink(full)
            if WANTED.contents.fullmatch(path) and not os.path.islink(full) and os.path.isfile(full):
                files[path] = read_plain(full, WANTED.head, links_out=True)
    return BaseFiles(files, {}, frozenset(paths), links)


def take_stock(
    files: BaseFiles,
    source: str,
    variables: Mapping[str, str],
    digest: str | None = None,
    platform: str | None = None,
    machine: str = "linux-64",
) -> Inventory:
    """Make the inventory of a base from its files and its environment's variables. `machine` is the platform for which
    its packages' markers are judged where it has none of its own."""
    variables = {**variables, **_variables_of_scripts(files)}
    executable, prefix = _find_python(files, variables)
    minor = _minor_of(files, executable) if executable else None
    folders = tuple(_folders(files, prefix, minor, variables)) if minor else ()
    exact = (_patch_of(files, prefix, minor) or minor) if minor else None
    named = _folders_in(variables, "LD_LIBRARY_PATH")
    packages, requires, extras, shadowed = _packages(files, folders, Markers(platform or machine, exact or "3"))
    return Inventory(
        source,
        digest,
        platform,
        exact,
        executable,
        folders,
        _glibc(files),
        _libraries(files.paths, (*_PLACES, posixpath.join(prefix, "lib"), *folders, *named)),
        dict(_listed_variables(variables)),
        tuple(_constraints(files)),
        packages,
        requires,
        extras,
        shadowed,
        {match[1]: f"{match[2]} {match[3]}" for match in map(_CONDA.fullmatch, sorted(files.paths)) if match},
    )


def _variables_of_scripts(files: BaseFiles) -> dict[str, str]:
    """Read the variables that a SIF keeps of the image that it was made from."""
    variables: dict[str, str] = {}
    for path in sorted(files.files):
        if _SCRIPTS.fullmatch(path):
            variables |= dict(_EXPORT.findall(files.text(path)))
    return variables


def _listed_variables(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Choose the variables that an inventory lists: an image's variables may hold anything, secrets too."""
    for name, text in variables.items():
        if name in _OTHERS or (_VERSIONS.fullmatch(name) and _VALUES.fullmatch(text)):
            yield name, text


def _find_python(files: BaseFiles, variables: Mapping[str, str]) -> tuple[str | None, str]:
    """Find the Python that PATH leads to, and its prefix: a path below the root, without a slash in front."""
    folders = [folder.strip("/") for folder in variables.get("PATH", _SEARCH).split(":") if folder.startswith("/")]
    for folder in [*folders, "bin"]:
        for path in (posixpath.join(folder, "python3"), posixpath.join("usr", folder, "python3")):
            if path in files.paths:
                prefix = posixpath.dirname(posixpath.dirname(path))
                real = _follow(files, path)
                if posixpath.join(prefix, "pyvenv.cfg") in files.files or real not in files.paths:
                    return path, prefix
                return real, posixpath.dirname(posixpath.dirname(real))
    return None, ""


def _folders_in(variables: Mapping[str, str], name: str) -> list[str]:
    """List the folders in a variable, as paths below the root."""
    return [folder.strip("/") for folder in variables.get(name, "").split(":") if folder.strip("/")]


def _follow(files: BaseFiles, path: str) -> str:
    for _ in range(_HOPS):
        if path not in files.links:
            break
        path = posixpath.normpath(posixpath.join(posixpath.dirname(f"/{path}"), files.links[path])).lstrip("/")
        if path not in files.paths and f"usr/{path}" in files.paths:
            path = f"usr/{path}"
    return path


def _minor_of(files: BaseFiles, executable: str) -> str | None:
    """Find a program's version of Python ("3.12") by its name, its links or its environment's folder."""
    match = _PYTHON.fullmatch(_follow(files, executable))
    if match and "." in match[1]:
        return match[1]
    prefix = posixpath.dirname(posixpath.dirname(executable))
    cfg = re.search(r"^version(?:_info)?\s*=\s*(3\.[0-9]+)", files.text(posixpath.join(prefix, "pyvenv.cfg")), re.M)
    if cfg:
        return cfg[1]
    pattern = re.compile(rf"{re.escape(posixpath.dirname(executable))}/python(3\.[0-9]+)")
    minors = [match[1] for match in map(pattern.fullmatch, files.paths) if match]
    return max(minors, key=numbers, default=None)


def _patch_of(files: BaseFiles, prefix: str, minor: str) -> str | None:
    header = files.text(posixpath.join(prefix, f"include/python{minor}/patchlevel.h"))
    match = re.search(r'#define PY_VERSION\s+"([^"+]+)', header)
    return match[1] if match else None


def _folders(files: BaseFiles, prefix: str, minor: str, variables: Mapping[str, str]) -> Iterator[str]:
    """List the folders of a Python's packages that hold any, in its own order; Debian's Python has folders of its own
    (its python3 package, README.Debian)."""
    with_packages = {match[1] for match in map(_RECORD.fullmatch, files.files) if match}
    system = "include-system-site-packages = true" in files.text(posixpath.join(prefix, "pyvenv.cfg"))
    debians = [f"usr/local/lib/python{minor}/dist-packages", "usr/lib/python3/dist-packages"]
    own = posixpath.join(prefix, f"lib/python{minor}/site-packages")
    after = debians if prefix in ("usr", "usr/local") or system else []
    lib64 = posixpath.join(prefix, f"lib64/python{minor}/site-packages")
    yield from (
        folder
        for folder in dict.fromkeys([*_folders_in(variables, "PYTHONPATH"), own, lib64, *after])
        if folder in with_packages
    )


def _packages(
    files: BaseFiles, folders: Iterable[str], markers: Markers
) -> tuple[dict[str, str], dict[str, tuple[str, ...]], dict[str, tuple[str, ...]], dict[str, str]]:
    rank = {folder: number for number, folder in enumerate(folders)}
    records = [
        (rank[match[1]], match[0]) for match in map(_RECORD.fullmatch, files.files) if match and match[1] in rank
    ]
    packages: dict[str, str] = {}
    requires: dict[str, tuple[str, ...]] = {}
    extras: dict[str, tuple[str, ...]] = {}
    shadowed: dict[str, str] = {}
    for _, path in sorted(records):
        head = HeaderParser().parsestr(files.text(path).partition("\n\n")[0])
        name, version = head.get("Name"), head.get("Version")
        if name and version and is_package(canonical_name(name), version.strip()):
            if canonical_name(name) not in packages:
                requires[canonical_name(name)] = tuple(_requirements(head, markers))
                extras[canonical_name(name)] = tuple(_requirements_of_extras(head, markers))
            first = packages.setdefault(canonical_name(name), version.strip())
            if first != version.strip():
                shadowed.setdefault(canonical_name(name), version.strip())
    return packages, _without_empty(requires), _without_empty(extras), shadowed


def _requirements(head: Message, markers: Markers) -> Iterator[str]:
    """List the requirements of a METADATA that hold, without their markers. What isn't one says nothing."""
    for line in head.get_all("Requires-Dist", []):
        with suppress(ValueError):
            requirement = published_requirement(line)
            if requirement.url is None and markers.hold(line):
                yield str(requirement).partition(";")[0].strip()


def _requirements_of_extras(head: Message, markers: Markers) -> Iterator[str]:
    """List the requirements that hold with an extra alone, once for each, with the extra as their marker."""
    offered = sorted({canonical_name(extra.strip()) for extra in head.get_all("Provides-Extra", [])})
    for line in head.get_all("Requires-Dist", []):
        with suppress(ValueError):
            requirement = published_requirement(line)
            if requirement.url is None and "extra" in line and not markers.hold(line):
                text = str(requirement).partition(";")[0].strip()
                yield from (f'{text} ; extra == "{extra}"' for extra in offered if markers.hold(line, [extra]))


def _without_empty(table: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    return {name: lines for name, lines in table.items() if lines}


def _glibc(files: BaseFiles) -> str | None:
    for path in sorted(files.paths):
        named = _LIBC.fullmatch(path) if path.startswith(("lib", "usr/lib")) else None
        if named and named[1]:
            return named[1]
        match = re.search(rb"release version ([0-9]+\.[0-9]+)", files.files.get(path, b"")) if named else None
        if match:
            return match[1].decode()
    return None


def _libraries(paths: Iterable[str], folders: Iterable[str]) -> dict[str, str]:
    versions: dict[str, str] = {}
    roots = tuple(f"{folder}/" for folder in folders)
    for named in filter(None, map(_LIBRARY.fullmatch, sorted(paths))):
        if not named[0].startswith(roots):
            continue
        if named[1] not in versions or _fuller(named[2], versions[named[1]]):
            versions[named[1]] = named[2]
    return versions


def _fuller(version: str, other: str) -> bool:
    """Return whether a version is newer than another one, or the same with more digits."""
    return (numbers(version), version.count(".")) > (numbers(other), other.count("."))


def _constraints(files: BaseFiles) -> Iterator[str]:
    for path in sorted(files.files):
        if _CONSTRAINTS.fullmatch(path):
            yield from (line for _, line in logical_lines(files.text(path)))


# The libraries of a base, as link reads them: each with whether it is a package's.

_LOADERS = r"(?:usr/(?:local/)?)?lib(?:64)?(?:/[^/]+-linux-gnu)?|usr/local/cuda[^/]*/(?:targets/[^/]+/)?lib(?:64)?"
"""The folders where an image's loader looks: of Debian, RHEL and NVIDIA."""


def libraries_here(base: BasePrefix, machine: int) -> Iterator[tuple[bool, ElfFile]]:
    """Read the libraries of a prefix, or of what modules bring. Raises OSError."""
    # of two files at one path the first folder's is imported, and the last one that is told counts
    known = map(Path, _on_library_path(base.inventory))
    for folder in reversed([*base.folders, base.python.parents[1] / "lib", *known]):
        deep = folder in base.folders
        yield from ((deep, library) for library in read_libraries(folder, machine, deep=deep))


def _on_library_path(inventory: Inventory) -> list[str]:
    return [folder for folder in inventory.variables.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]


def paths_of_libraries(inventory: Inventory, machine: int, scratch: Path) -> ReadPaths:
    """Give the paths of an image's libraries, which lie in a scratch folder while they are read."""
    own = [os.path.dirname(os.path.dirname(inventory.executable or "")) + "/lib"]
    own += [path for folder in _on_library_path(inventory) if (path := folder.strip("/"))]
    flat, deep = ("|".join(map(re.escape, folders)) for folders in (own, inventory.folders))
    pattern = re.compile(rf"(?:{deep})/.+\.so[^/]*|(?:{_LOADERS}|{flat})/[^/]+\.so[^/]*")
    take = partial(read_library, machine=machine, folder=scratch)
    return ReadPaths(pattern, re.compile("(?!)"), 1 << 20, 64 << 30, take)


def facts_of_libraries(files: Mapping[str, bytes]) -> WheelFacts:
    """Give the facts of libraries, by path, as `paths_of_libraries` read them."""
    return WheelFacts(
        tuple(ElfFile(path, decode(content, DynamicFacts)) for path, content in sorted(files.items()) if content)
    )


def libraries_within(inventory: Inventory, known: WheelFacts) -> Iterator[tuple[bool, ElfFile]]:
    """Give the libraries of an image in the order in which they count."""
    for folder in ("", *reversed(inventory.folders)):
        for library in known.files:
            of = next((each for each in inventory.folders if library.path.startswith(f"{each}/")), "")
            if of == folder:
                yield bool(of), replace(library, path=library.path.removeprefix(f"{of}/") if of else f"/{library.path}")


def packages_of(inventory: Inventory, libraries: Iterable[tuple[bool, ElfFile]]) -> Iterator[LinkedPackage]:
    """Group libraries by package; a library of no package is the base's own."""
    by_package: dict[str, list[ElfFile]] = {}
    for deep, library in libraries:
        name = canonical_name(library.path.partition("/")[0].partition(".")[0]) if deep else inventory.source
        by_package.setdefault(name, []).append(library)
    for name, files in by_package.items():
        yield LinkedPackage(name, inventory.packages.get(name, ""), "", WheelFacts(tuple(files)))
