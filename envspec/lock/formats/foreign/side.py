"""One side of a comparison: a lock, or another tool's file in a lock's terms, and that file's gaps."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from envspec.lock.model import Lock, Pin

EVERYTHING = frozenset({"inputs", "direct", "edges", "licence", "index", "files"})
"""The facts that a file may record about its packages. A comparison covers the facts that both sides record: a
requirements.txt, which has no licences, doesn't change a licence.

inputs   what the spec asks for (TargetInputs, SpecInputs), beyond platform and Python
direct   which packages the spec asks for by name
edges    which package requires which
files    which file is installed, and its hash
"""


class Terms(Struct, frozen=True):
    """The terms of another tool's file, beside its packages.

    addresses  the addresses of their origins: the name of an index or a channel, or pip's option, and the address
    guards     the options by which they are checked, with their values
    loose      the options that check less, as the file has them
    hashes     the hashes of each pinned requirement, by its text
    """

    addresses: tuple[tuple[str, str], ...] = ()
    guards: tuple[tuple[str, str], ...] = ()
    loose: tuple[str, ...] = ()
    hashes: Mapping[str, frozenset[str]] = {}


class Side(Struct, frozen=True):
    """`title` is its name in messages, `format` is its name in `packages.other_formats`, or "envspec". `complete` is
    false for a file that names only some of what gets installed. `by_platform`: its targets are platforms, so they are
    compared with the other side's targets of the same platform. For a universal file, `chosen` names the extras and
    groups that it was evaluated with, empty where it offers none, and `seen` the platforms and Pythons. `terms` are
    those of another tool's file.
    """

    title: str
    lock: Lock
    knows: frozenset[str] = EVERYTHING
    complete: bool = True
    by_platform: bool = False
    format: str = "envspec"
    chosen: str = ""
    seen: tuple[tuple[str, str], ...] = ()
    terms: Terms = Terms()


class HashedPin(Pin, frozen=True, eq=False):
    """A package of which only the accepted hashes are known (`sha256` in hexadecimal), not their files."""

    hashes: tuple[str, ...] = ()


class LoosePin(Pin, frozen=True, eq=False):
    """A required package that isn't pinned: it has no version, and `specifier` is ">=2,<3", "=1.26" or "*"."""

    specifier: str = "*"


def version_text(pin: Pin) -> str:
    """Return a package's version as its file has it: the pinned one, or the specifier."""
    return pin.specifier if isinstance(pin, LoosePin) else pin.version
