"""The paths of conda packages' files, checked before any is linked, and again before any is removed.

rattler joins any path of a package's paths.json to the prefix unchecked, and removes what conda-meta lists in the same
way. So `envspec.install.inside` judges every path of the unpacked packages and of the records first. While one package
of a run has a bad path, none is linked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure, InputError, Place
from envspec.install.inside import Inside, fold
from envspec.install.installed import CONDA_META, CondaRecord
from envspec.install.model import Fault
from envspec.install.prefix import FOLDER
from envspec.lock.exclusive import LOCK_FILE
from envspec.packages.archive_entries import path_fault

_RESERVED = (CONDA_META, FOLDER.as_posix(), LOCK_FILE, ".trash")
"""The folders in which rattler and envspec record what is installed, and which they trust."""
_HINT = "don't install this package: it is hostile or broken; report it to the channel's owner"


class Unpacked(Struct, frozen=True):
    """A package in the cache: its name in messages, and its folder."""

    name: str
    folder: Path


class PackagePath(Struct, frozen=True):
    """One path of a package: its place in the prefix, its kind there, and a link's target."""

    path: str
    is_folder: bool = False
    link: str | None = None


def entries_of(package: Unpacked, site_packages: Collection[str]) -> list[PackagePath]:
    """List a package's paths in a prefix. Raises IndexFailure for a forbidden entry, by its name.

    `site_packages` are the folders where the prefix's Python may have packages, to which a package for any Python is
    linked.
    """
    from rattler import PathsJson
    from rattler.exceptions import IoError

    for path, fault in _tree_faults(package.folder):
        raise _path_error(package, path, fault)
    try:
        # rattler's own reading, with its fallback to older formats: it's what will be linked
        listed = PathsJson.from_package_directory_with_deprecated_fallback(package.folder).paths
    except (IoError, OSError, ValueError) as error:
        raise _path_error(package, "info/paths.json", f"it can't be read: {error}") from None
    entries = []
    for row in listed:
        path = str(row.relative_path)
        kind = row.path_type
        if fault := path_fault(path) or _source_fault(package.folder / path, kind.softlink, kind.directory):
            raise _path_error(package, path, fault)
        if row.prefix_placeholder is not None and not row.prefix_placeholder.placeholder:
            raise _path_error(package, path, "its placeholder for the prefix is empty")
        source = package.folder / path
        link = os.readlink(source) if source.is_symlink() else None
        entries += [PackagePath(place, kind.directory, link) for place in _places(path, site_packages)]
    entries += [PackagePath(f"bin/{command}") for command in _entry_points(package)]
    _refuse_shared_names(package, entries)
    return entries


def site_packages_of(package: Unpacked) -> str | None:
    """Read where a package `python` has its packages; None for the usual place. Raises IndexFailure."""
    try:
        path = read_json((package.folder / "info" / "index.json").read_bytes()).get("python_site_packages_path")
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise _path_error(package, "info/index.json", f"it can't be read: {error}") from None
    if path is None:
        return None
    if type(path) is not str or (fault := path_fault(path)):
        reason = fault if type(path) is str else "it isn't a text"
        raise _path_error(package, f"info/index.json: python_site_packages_path = {path!r}", reason)
    return path


def refuse_unsafe(packages: Mapping[Unpacked, Sequence[PackagePath]], prefix: Path, platform: str) -> None:
    """Raise IndexFailure, by name, for a package that would write outside the prefix, through links of the prefix or of
    the packages, or over the records of envspec and rattler.
    """
    links = {entry.path: entry.link for entries in packages.values() for entry in entries if entry.link is not None}
    inside = Inside(prefix, links)
    for package, entries in packages.items():
        spelled: dict[str, str] = {}
        for entry in entries:
            if fault := _place_fault(entry, inside):
                raise _path_error(package, entry.path, fault)
            other = spelled.setdefault(fold(entry.path), entry.path)
            # Linux tells them apart, and has packages with such names: terminfo, kernel headers
            if other != entry.path and not platform.startswith("linux"):
                raise _path_error(package, entry.path, f"on this system it's the same file as {other!r}")


def refuse_unsafe_records(records: Collection[CondaRecord], prefix: Path) -> None:
    """Raise InputError for a record in conda-meta that lists a path outside the prefix: rattler removes the listed
    files when the package is removed, replaced or repaired.
    """
    inside = Inside(prefix)
    hint = f"nothing was removed; find out what wrote the record, then remove {prefix} and install again"
    for record in records:
        for part in (record.name, record.version, record.build):
            # the record's own file is called by them
            if "/" in part or path_fault(part):
                raise InputError(f"{part!r} can't be part of a record's name", place=Place(str(record.file)), hint=hint)
        for path in (*record.paths, *record.site_packages):
            fault = path_fault(path) or _place_fault(
                PackagePath(path, link=_link_at(prefix / path)), inside, own=record.file
            )
            if fault:
                message = f"the record of {record.name} lists {path!r}: {fault}"
                raise InputError(message, place=Place(str(record.file)), hint=hint)


def member_fault(name: str, link: str | None) -> Fault:
    """Return why an archive can't have a member of this name; empty for a name that it may have. Links are judged
    later, when their target is known."""
    # "\ufffd" is what bytes that aren't UTF-8 come as
    return path_fault(name.rstrip("/")) or ("it isn't UTF-8" if "\ufffd" in name + (link or "") else "")


def member_error(package: str, member: str, fault: Fault) -> IndexFailure:
    """Make the error for a member of an archive."""
    return IndexFailure(f"the conda package {package} has the entry {member!r}: {fault}", hint=_HINT)


def _path_error(package: Unpacked, path: str, fault: Fault) -> IndexFailure:
    return member_error(package.name, path, fault)


def _place_fault(entry: PackagePath, inside: Inside, own: Path | None = None) -> Fault:
    plain = fold(entry.path)
    for reserved in _RESERVED:
        if (plain == reserved or plain.startswith(f"{reserved}/")) and inside.root / entry.path != own:
            return f"packages can't write to {reserved}"
    if not inside.holds(entry.path) or (entry.is_folder and inside.folder(entry.path) is None):
        return "it goes through a link that leads out of the environment"
    if entry.link is None:
        return ""
    if any(reserved.startswith(f"{plain}/") for reserved in _RESERVED):
        return "it replaces a folder that envspec writes to by a link"
    # what comes later, a wheel's files among them, would be written through it
    if inside.leads_out(entry.path) and os.path.isdir(
        os.path.join(inside.root, os.path.dirname(entry.path), entry.link)
    ):
        return f"it's a link to a folder outside the environment, {entry.link!r}"
    return ""


def _tree_faults(folder: Path) -> Iterator[tuple[str, Fault]]:
    """Find forbidden entries in an unpacked package, whether paths.json lists them or not."""
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
    """Check that an entry of paths.json exists as the kind that it is listed as."""
    try:
        mode = os.lstat(source).st_mode
    except OSError:
        return "" if is_folder else "it's listed, but isn't in the package"
    if stat.S_ISLNK(mode) and not is_link:
        return "it's listed as a file, but is a link"
    if stat.S_ISDIR(mode) and not is_folder:
        return "it's listed as a file, but is a folder"
    return ""


def _places(path: str, site_packages: Collection[str]) -> Iterator[str]:
    """Give the places that a path may be linked to: as it is, and where a package for any Python has it."""
    yield path
    for start, places in (("site-packages/", site_packages), ("python-scripts/", ("bin",))):
        if path.startswith(start):
            yield from (f"{place}/{path.removeprefix(start)}" for place in places)


def _entry_points(package: Unpacked) -> Iterator[str]:
    """List the commands that rattler writes for a package for any Python (info/link.json)."""
    try:
        content = read_json((package.folder / "info" / "link.json").read_bytes())
        points = content["noarch"].get("entry_points") or []
        commands = [str(point).partition("=")[0].strip() for point in points]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
        raise _path_error(package, "info/link.json", f"it can't be read: {error}") from None
    for command in commands:
        if fault := path_fault(command) or ("it isn't a plain name of a command" if "/" in command else ""):
            raise _path_error(package, f"info/link.json: {command}", fault)
        yield command


def _refuse_shared_names(package: Unpacked, entries: Sequence[PackagePath]) -> None:
    """Refuse a path that is a file and a folder at once, with which linking would stop half-way."""
    folders: set[str] = set()
    for entry in entries:
        parent = entry.path.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    for entry in entries:
        if entry.path in folders and not entry.is_folder:
            what = "file" if entry.link is None else "link"
            raise _path_error(package, entry.path, f"it's a {what} and a folder at once")


def _link_at(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None
