"""The inventory of a base, a vendor's image or a centre's prefix: a TOML file, a line a package, to lock on top of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from envspec.base.documents import Unreadable, convert, read_toml
from envspec.base.errors import InputError, Place
from envspec.lock.toml_text import key, value

INVENTORY_VERSION = 1


@dataclass(frozen=True)
class Inventory:
    """source    an image's name, a SIF's or a folder's path
    digest       of the image's manifest or the SIF's content, "sha256:…"; None of a folder
    platform     a conda subdir: "linux-64"; None of a folder, which doesn't say
    python       the version of the Python that PATH leads to, "3.12" where nothing says more; `executable` is its path,
                 `folders` are those of its packages, in the order in which it looks into them
    glibc        None where it is the machine's
    libraries    those that GPU code and clusters need, by soname's stem ("libcudnn"): the version of the file's name
    variables    of the environment, those that say versions, drivers and where code comes from
    constraints  the lines of pip's constraint files, such as NVIDIA's /etc/pip/constraint.txt
    packages     name -> version, of what Python imports
    shadowed     name -> version, of another version in a later folder: no program imports it
    conda        name -> version and build
    """

    source: str
    digest: str | None = None
    platform: str | None = None
    python: str | None = None
    executable: str | None = None
    folders: tuple[str, ...] = ()
    glibc: str | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    shadowed: Mapping[str, str] = field(default_factory=dict)
    conda: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Its file: the same inventory gives the same text."""
        head = [
            "# What a base has already, written by `envspec base read`. Do not edit.",
            f"inventory-version = {INVENTORY_VERSION}",
        ]
        tables: list[str] = []
        for name, item in asdict(self).items():
            if isinstance(item, dict):
                rows = (f"{key(one)} = {value(item[one])}" for one in sorted(item))
                tables += ["", f"[{name}]", *rows] if item else []
            elif isinstance(item, tuple):
                head += [f"{name} = [", *(f"  {value(one)}," for one in item), "]"] if item else []
            elif item is not None:
                head.append(f"{name} = {value(item)}")
        return "\n".join([*head, *tables, ""])


def read_inventory(text: str, place: Place) -> Inventory:
    """Read the text of an inventory. Raises InputError for one that envspec didn't write."""
    try:
        document: dict[str, Any] = read_toml(text)
        version = document.pop("inventory-version", None)
        if isinstance(version, int) and version > INVENTORY_VERSION:
            raise InputError("a newer envspec wrote this inventory", place=place, hint="update envspec")
        if version != INVENTORY_VERSION:
            raise Unreadable("it has no inventory-version")
        return convert(document, Inventory)
    except Unreadable as error:
        raise InputError(
            f"this is no inventory of a base: {error.reason}", place=place, hint="write one: envspec base read BASE"
        ) from None


@dataclass(frozen=True)
class Difference:
    """A difference of two inventories in one of their fields, `part`; a side that hasn't got it has None."""

    part: str
    name: str
    old: str | None
    new: str | None


def differences(old: Inventory, new: Inventory) -> Iterator[Difference]:
    """List what differs between two bases, part by part, by name."""
    before, after = asdict(old), asdict(new)
    for part, was in before.items():
        now = after[part]
        if isinstance(was, dict):
            names = sorted({*was, *now})
            yield from (Difference(part, n, was.get(n), now.get(n)) for n in names if was.get(n) != now.get(n))
        elif isinstance(was, tuple):
            yield from (Difference(part, one, one, None) for one in was if one not in now)
            yield from (Difference(part, one, None, one) for one in now if one not in was)
        elif was != now:
            yield Difference(part, part, was, now)
