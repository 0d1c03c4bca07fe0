"""Where the files of conda packages go, checked before any is linked, and again before any is removed.

rattler joins what a package's paths.json says to the prefix, whatever it says, and removes what conda-meta lists in the
same way. So every path of the unpacked packages, and of the records, is held to `envspec.install.inside` first: nothing
is linked of any package of a run while one of them isn't sound.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envspec.documents import read_json
from envspec.errors import IndexFailure, InputError, Place
from envspec.install.inside import Inside, folded
from envspec.install.installed import CONDA_META, CondaRecord
from envspec.install.model import Fault
from envspec.install.prefix import FOLDER
from envspec.lock.exclusive import LOCK_FILE
from envspec.packages.archive_entries import path_fault

_RESERVED = (CONDA_META, FOLDER.as_posix(), LOCK_FILE, ".trash")
"""Where rattler and envspec write down what is installed, and what they read back as their own."""
_HINT = "don't install it: a package with such an entry is hostile or broken; tell those who run its channel"


@dataclass(frozen=True)
class Unpacked:
    """A package as it lies in the cache: how messages call it, and its folder."""

    name: str
    folder: Path


@dataclass(frozen=True)
class PackagePath:
    """One path that a package brings: where it comes to lie, what kind it is there, and what it says as a link."""

    path: str
    is_folder: bool = False
    link: str | None = None


def entries_of(package: Unpacked, site_packages: Collection[str]) -> list[PackagePath]:
    """What a package brings into a prefix. Raises IndexFailure for an entry that no package may have, by its name.

    `site_packages` is where the prefix's Python may have them: there, a package for any Python is linked to.
    """
    from rattler import PathsJson
    from rattler.exceptions import IoError

    for path, fault in _tree_faults(package.folder):
        raise _refused(package, path, fault)
    try:
        # rattler's own reading, with its fallback to older formats: it's what will be linked
        listed = PathsJson.from_package_directory_with_deprecated_fallback(package.folder).paths
    except (IoError, OSError, ValueError) as error:
        raise _refused(package, "info/paths.json", f"it can't be read: {error}") from None
    entries = []
    for each in listed:
        path = str(each.relative_path)
        kind = each.path_type
        if fault := path_fault(path) or _source_fault(package.folder / path, kind.softlink, kind.directory):
            raise _refused(package, path, fault)
        if each.prefix_placeholder is not None and not each.prefix_placeholder.placeholder:
            raise _refused(package, path, "it asks to replace nothing by the prefix")
        source = package.folder / path
        link = os.readlink(source) if source.is_symlink() else None
        entries += [PackagePath(place, kind.directory, link) for place in _places(path, site_packages)]
    entries += [PackagePath(f"bin/{command}") for command in _entry_points(package)]
    _refuse_shared_names(package, entries)
    return entries


def site_packages_of(package: Unpacked) -> str | None:
    """Where a package `python` says that it has its packages; None where it's the usual place. Raises IndexFailure."""
    try:
        said = read_json((package.folder / "info" / "index.json").read_bytes()).get("python_site_packages_path")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise _refused(package, "info/index.json", f"it can't be read: {error}") from None
    if said is None:
        return None
    if type(said) is not str or (fault := path_fault(said)):
        told = fault if type(said) is str else "it's no text"
        raise _refused(package, f"info/index.json: python_site_packages_path = {said!r}", told)
    return said


def refuse_unsafe(packages: Mapping[Unpacked, Sequence[PackagePath]], prefix: Path, platform: str) -> None:
    """Raise IndexFailure, by name, for a package that would put something outside the prefix, through whatever links
    the prefix has or the packages bring; or over what envspec and rattler write down there."""
    links = {entry.path: entry.link for entries in packages.values() for entry in entries if entry.link is not None}
    inside = Inside(prefix, links)
    for package, entries in packages.items():
        spelled: dict[str, str] = {}
        for entry in entries:
            if fault := _place_fault(entry, inside):
                raise _refused(package, entry.path, fault)
            other = spelled.setdefault(folded(entry.path), entry.path)
            # Linux tells them apart, and has packages with such names: terminfo, kernel headers
            if other != entry.path and not platform.startswith("linux"):
                raise _refused(package, entry.path, f"it's the same file as {other!r} on this system")


def refuse_unsafe_records(records: Collection[CondaRecord], prefix: Path) -> None:
    """Raise InputError for a record in conda-meta that lists what lies outside the prefix: what it lists is removed
    when the package goes, is replaced or repaired."""
    inside = Inside(prefix)
    hint = f"nothing was removed; look at what made it, then remove {prefix} and install anew"
    for record in records:
        for part in (record.name, record.version, record.build):
            # the record's own file is called by them
            if "/" in part or path_fault(part):
                raise InputError(f"{part!r} is no part of a record's name", place=Place(str(record.file)), hint=hint)
        for path in (*record.paths, *record.site_packages):
            fault = path_fault(path) or _place_fault(
                PackagePath(path, link=_link_at(prefix / path)), inside, own=record.file
            )
            if fault:
                raise InputError(
                    f"the record of {record.name} lists {path!r}: {fault}",
                    place=Place(str(record.file)),
                    hint=hint,
                )


def member_fault(name: str, link: str | None) -> Fault:
    """Why an archive may not have a member of this name; links are judged when it's known where they go."""
    # "\ufffd" is what bytes that aren't UTF-8 come as
    return path_fault(name.rstrip("/")) or ("it isn't UTF-8" if "\ufffd" in name + (link or "") else "")


def refused_member(package: str, member: str, fault: Fault) -> IndexFailure:
    """The error for a member of an archive."""
    return IndexFailure(f"the conda package {package} has the entry {member!r}: {fault}", hint=_HINT)


def _refused(package: Unpacked, path: str, fault: Fault) -> IndexFailure:
    return refused_member(package.name, path, fault)


def _place_fault(entry: PackagePath, inside: Inside, own: Path | None = None) -> Fault:
    plain = folded(entry.path)
    for reserved in _RESERVED:
        if (plain == reserved or plain.startswith(f"{reserved}/")) and inside.root / entry.path != own:
            return f"{reserved} isn't a package's to write to"
    if not inside.holds(entry.path) or (entry.is_folder and inside.folder(entry.path) is None):
        return "it goes through a link that leads out of the environment"
    if entry.link is None:
        return ""
    if any(reserved.startswith(f"{plain}/") for reserved in _RESERVED):
        return "it makes a link of a folder that envspec writes to"
    # what comes later, a wheel's files among them, would be written through it
    if inside.leads_out(entry.path) and os.path.isdir(
        os.path.join(inside.root, os.path.dirname(entry.path), entry.link)
    ):
        return f"it's a link to a folder outside the environment, {entry.link!r}"
    return ""


def _tree_faults(folder: Path) -> Iterator[tuple[str, Fault]]:
    """What is in an unpacked package that no package may have, whether paths.json lists it or not."""
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(base, name)
            mode = os.lstat(path).st_mode
            fault = path_fault(os.path.relpath(path, folder))
            if not fault and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                fault = "it's neither a file nor a folder nor a link"
            if fault:
                yield os.path.relpath(path, folder), fault


def _source_fault(source: Path, is_link: bool, is_folder: bool) -> Fault:
    """Whether what paths.json lists is there as what it is listed."""
    try:
        mode = os.lstat(source).st_mode
    except OSError:
        return "" if is_folder else "it's listed, and not in the package"
    if stat.S_ISLNK(mode) and not is_link:
        return "it's listed as a file, and is a link"
    if stat.S_ISDIR(mode) and not is_folder:
        return "it's listed as a file, and is a folder"
    return ""


def _places(path: str, site_packages: Collection[str]) -> Iterator[str]:
    """Where a path may come to lie: as it is, and where a package for any Python has it."""
    yield path
    for start, places in (("site-packages/", site_packages), ("python-scripts/", ("bin",))):
        if path.startswith(start):
            yield from (f"{place}/{path.removeprefix(start)}" for place in places)


def _entry_points(package: Unpacked) -> Iterator[str]:
    """The commands that rattler writes for a package for any Python (info/link.json)."""
    try:
        content = read_json((package.folder / "info" / "link.json").read_bytes())
        points = content["noarch"].get("entry_points") or []
        commands = [str(point).partition("=")[0].strip() for point in points]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
        raise _refused(package, "info/link.json", f"it can't be read: {error}") from None
    for command in commands:
        if fault := path_fault(command) or ("it's no plain name of a command" if "/" in command else ""):
            raise _refused(package, f"info/link.json: {command}", fault)
        yield command


def _refuse_shared_names(package: Unpacked, entries: Sequence[PackagePath]) -> None:
    """No path may be a file and a folder at once: linking would stop half-way."""
    folders: set[str] = set()
    for entry in entries:
        parent = entry.path.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    for entry in entries:
        if entry.path in folders and not entry.is_folder:
            what = "file" if entry.link is None else "link"
            raise _refused(package, entry.path, f"it's a {what} and a folder at once")


def _link_at(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None
