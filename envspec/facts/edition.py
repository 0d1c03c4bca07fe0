"""The edition of the facts: those that ship with envspec, or an installed `envspec-facts` that is newer.

`envspec-facts` is a distribution of data alone: the same files, with a list of their hashes. Its files are read where
pip puts them, beside envspec's own code. Nothing of it is imported, and the working directory and PYTHONPATH aren't
looked at: a repository brings no facts.
"""

from __future__ import annotations

import os
import re
import site
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.packages.version_numbers import numbers

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
"""The form of the tables that this envspec reads. A new table or key leaves it; whatever else changes raises it."""

DISTRIBUTION = "envspec-facts"

MANIFEST = "edition.json"
"""The file with `format` and `version`; in the distribution also with `files`: the SHA-256 of each."""

_SWITCH = "ENVSPEC_FACTS"

_SHIPPED = os.path.join(os.path.dirname(__file__), "data")


class Edition(Struct, frozen=True):
    """version  the day of the facts, "2026.11.22", perhaps with a count after it
    folder      where the tables lie
    origin      "envspec" for those that ship with it, else "envspec-facts"
    note        why an installed `envspec-facts` isn't taken; None where there is none, or it is merely older
    """

    version: str
    folder: Path
    origin: str = "envspec"
    note: str | None = None

    @property
    def day(self) -> str:
        """The day that the version names, as RFC 3339 has it."""
        return "-".join(f"{number:02}" for number in numbers(self.version)[:3])


class Unfit(ValueError):
    """An edition that can't be taken, and why."""


@cache
def current() -> Edition:
    """Choose once a process. `ENVSPEC_FACTS=shipped` takes those that ship. Raises InputError for another value."""
    from pathlib import Path

    return choose(shipped_edition(), map(Path, installed_folders()))


@cache
def folder() -> str:
    """The folder with the tables of the current edition. With none installed, no manifest needs to be read for that.
    Raises as `current`."""
    return str(current().folder) if installed_folders() else _SHIPPED


def installed_folders() -> list[str]:
    """The folders in which an `envspec-facts` lies that may be taken. Raises InputError for a wrong switch."""
    switch = os.environ.get(_SWITCH, "")
    if switch not in ("", "shipped"):
        raise InputError(
            f"{_SWITCH} is {switch!r}", hint="the one value is `shipped`: the facts that ship with envspec"
        )
    return [] if switch else [folder for folder in _places() if os.path.isfile(os.path.join(folder, MANIFEST))]


def shipped_edition() -> Edition:
    """The edition that ships with envspec."""
    from pathlib import Path

    own = Path(_SHIPPED)
    return Edition(_json((own / MANIFEST).read_bytes())["version"], own)


def choose(own: Edition, folders: Iterable[Path]) -> Edition:
    """Take the newest sound edition among envspec's own and those in these folders."""
    best, notes = own, []
    for folder in folders:
        try:
            edition = read(folder, own)
        except (OSError, Unfit) as error:
            notes.append(f"{DISTRIBUTION} in {folder} isn't used: {error}")
            continue
        if numbers(edition.version) > numbers(best.version):
            best = edition
    return replace(best, note="; ".join(notes)) if notes else best


def read(folder: Path, own: Edition) -> Edition:
    """Read an installed edition and compare its files with its list. Raises Unfit and OSError."""
    manifest = _manifest((folder / MANIFEST).read_bytes())
    if manifest["format"] != FORMAT:
        raise Unfit(f"its format is {manifest['format']}, and this envspec reads {FORMAT}")
    files: Mapping[str, str] = manifest["files"]
    if lacking := sorted(names(own.folder) - files.keys()):
        raise Unfit(f"it lacks {lacking[0]}")
    from hashlib import sha256

    for name, digest in files.items():
        if sha256((folder / name).read_bytes()).hexdigest() != digest:
            raise Unfit(f"{name} isn't the file that its list names")
    return Edition(manifest["version"], folder, DISTRIBUTION)


def names(folder: Path) -> frozenset[str]:
    """List the tables in a folder, as the manifest names them."""
    return frozenset(path.relative_to(folder).as_posix() for path in (*folder.glob("*.toml"), *folder.glob("*/*.json")))


def _manifest(text: bytes) -> dict[str, Any]:
    try:
        manifest = _json(text)
    except (ValueError, RecursionError):
        raise Unfit(f"{MANIFEST} isn't JSON") from None
    if not isinstance(manifest, dict):
        raise Unfit(f"{MANIFEST} holds no table")
    files = manifest.get("files")
    if not isinstance(files, dict) or not isinstance(manifest.get("format"), int):
        raise Unfit(f"{MANIFEST} has no format or no list of files")
    if not re.fullmatch(r"20\d\d\.\d{1,2}\.\d{1,2}(\.\d{1,4})?", str(manifest.get("version")), re.ASCII):
        raise Unfit(f"{MANIFEST} has no version that is a day")
    plain = re.compile(r"[a-z0-9_]+\.toml|wheels/[a-z0-9]+\.json")
    if wrong := sorted(name for name in files if not plain.fullmatch(name)):
        raise Unfit(f"{MANIFEST} lists {wrong[0]!r}, which is no table")
    return manifest


def _json(text: bytes) -> Any:
    import json

    return json.loads(text)


def _places() -> list[str]:
    """The folders of `envspec_facts` where pip installs for this Python."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return [os.path.join(folder, "envspec_facts") for folder in (*site.getsitepackages(), *user)]
