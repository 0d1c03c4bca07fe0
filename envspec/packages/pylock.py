"""pylock.toml (PEP 751) by `packaging`, for all readers and writers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.pylock import PackageArchive, PackageSdist, PackageWheel, Pylock, PylockValidationError

from envspec.packages.requirement import too_much
from envspec.packages.variants import read_name

File = PackageArchive | PackageSdist | PackageWheel


def parse_pylock(data: Mapping[str, Any]) -> Pylock:
    """Read a parsed TOML document as a pylock. Raises ValueError, with the place in the document, if it isn't valid or
    a marker is nested too deeply.
    """
    listed = data.get("packages")
    for number, package in enumerate(listed if isinstance(listed, list) else ()):
        marker = package.get("marker") if isinstance(package, dict) else None
        if isinstance(marker, str) and (reason := too_much(marker)):
            raise ValueError(f"packages[{number}].marker: {reason}")
    try:
        plain = {**data, "packages": list(map(_plainly, listed))} if isinstance(listed, list) else data
        return Pylock.from_dict(plain)
    except PylockValidationError as error:
        place = f"{error.context}: " if error.context else ""
        raise ValueError(f"{place}{error.message.partition(chr(10))[0][:200]}") from None


def _plainly(package: Any) -> Any:
    """Give a package's table with variants' wheels under the names of plain ones: `packaging` knows no others."""
    wheels = package.get("wheels") if isinstance(package, dict) else None
    return {**package, "wheels": list(map(_plain, wheels))} if isinstance(wheels, list) else package


def _plain(wheel: Any) -> Any:
    address = (wheel.get("name") or wheel.get("url") or wheel.get("path")) if isinstance(wheel, dict) else None
    name = read_name(unquote(address).rpartition("/")[2]) if isinstance(address, str) else None
    return {**wheel, "name": name.plain} if name and name.label is not None else wheel


def file_name(file: File) -> str:
    """Give the name of a file: its own entry, else the last part of its URL or path."""
    if name := getattr(file, "name", None):
        return str(name)
    return unquote(urlsplit(file.url).path if file.url else (file.path or "").replace("\\", "/")).rpartition("/")[2]
