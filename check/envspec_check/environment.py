"""The folders of the environment, and what is installed in them."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import sys
import zipfile
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple, Optional, Sequence

from envspec_check.lock import canonical

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The folder or zipapp of this check. It may be anywhere, and is no part of the environment."""


def check_digest() -> str:
    """Return the digest of this check's own files: of their list, as sha256sum writes it."""
    rows = "".join("%s  %s\n" % (hashlib.sha256(content).hexdigest(), name) for name, content in sorted(_own_files()))
    return "sha256:" + hashlib.sha256(rows.encode()).hexdigest()


def _own_files() -> Iterator[tuple[str, bytes]]:
    if os.path.isfile(FOLDER):  # a zipapp
        with zipfile.ZipFile(FOLDER) as archive:
            yield from ((name, archive.read(name)) for name in archive.namelist())
        return
    for path in [Path(FOLDER, "__main__.py"), *Path(FOLDER, "envspec_check").rglob("*.py")]:
        yield path.relative_to(FOLDER).as_posix(), path.read_bytes()


def is_within(path: str, roots: Iterable[str]) -> bool:
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


BASE: list[str] = []
"""The folder of the base that the environment comes on top of, if it does: `Context` says it."""


def own_roots() -> list[str]:
    """Return the folders that the environment is in, and those of its base."""
    roots = {sys.prefix, os.path.realpath(sys.prefix), *BASE, *map(os.path.realpath, BASE)}
    if sys.prefix.startswith("/nix/store/"):
        roots.add("/nix/store")
    return sorted(roots)


def own_paths() -> list[str]:
    """Return the folders of sys.path that belong to the environment."""
    roots = own_roots()
    return [path for path in sys.path if path and is_within(os.path.realpath(path), roots)]


class Installed(NamedTuple):
    """A distribution that is there. `name` is None where its metadata can't be read."""

    name: Optional[str]
    version: str
    folder: str
    installer: str
    distribution: Any


def distributions(paths: Sequence[str]) -> list[Installed]:
    packages = []
    for distribution in importlib.metadata.distributions(path=list(paths)):
        headers = (distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or "").partition("\n\n")[0]
        fields = dict(re.findall(r"^(Name|Version):[ \t]*(\S+)", headers, re.MULTILINE))
        installer = (distribution.read_text("INSTALLER") or "").strip()
        name = canonical(fields["Name"]) if "Name" in fields else None
        packages.append(
            Installed(name, fields.get("Version", ""), str(getattr(distribution, "_path", "")), installer, distribution)
        )
    return packages


def conda_records(prefix: str) -> list[dict[str, Any]]:
    """Read conda's record of each package that it installed."""
    records = []
    for path in sorted(Path(prefix, "conda-meta").glob("*.json")):
        try:
            records.append(json.loads(path.read_text(encoding="utf-8")))
        except ValueError:
            records.append({"name": path.stem.rpartition("-")[0].rpartition("-")[0], "version": "", "damaged": True})
    return records
