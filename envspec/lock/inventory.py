"""The inventory of a base, a vendor's image or a centre's prefix: a TOML file, a line a package, to lock on top of.

Why it is so: docs/design/03-bases.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict
from packaging.version import Version

from envspec.base.documents import Unreadable, convert, read_toml
from envspec.base.errors import InputError, Place
from envspec.base.texts import plural, printable
from envspec.lock.toml_text import key, value
from envspec.packages.names import requirement_name
from envspec.packages.requirement import is_requirement

INVENTORY_VERSION = 1
_HEAD = "# Rendered by envspec from the files of a base: what it has already. Not for editing."
MOST_INVENTORY_BYTES = 16 << 20
"""Of an inventory's file: a base of 100,000 packages has 5 MB."""


class Inventory(Struct, frozen=True):
    """source    an image's name, a SIF's or a folder's path
    digest       the digest of the image's manifest or the SIF's content, "sha256:…"; None for a folder
    platform     a conda subdir: "linux-64"; None for a folder, which has no record of it
    python       the version of the Python that PATH leads to, "3.12" where nothing says more; `executable` is its path,
                 `folders` are those of its packages, in the order in which it looks into them
    glibc        None where it is the machine's
    libraries    those that GPU code and clusters need, by soname's stem ("libcudnn"): the version of the file's name
    variables    the environment's variables with versions, drivers and the origins of code
    constraints  the lines of pip's constraint files, such as NVIDIA's /etc/pip/constraint.txt
    packages     name -> version, of the packages that Python imports
    requires     name -> the requirements of its METADATA that hold there, but for those of its extras
    extras       name -> the requirements of its extras, each with the extra as its marker
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
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shadowed: Mapping[str, str] = field(default_factory=dict)
    conda: Mapping[str, str] = field(default_factory=dict)

    @property
    def exact_python(self) -> str | None:
        """Its Python with the patch release; None where it says only the minor version."""
        return self.python if self.python and self.python.count(".") > 1 else None

    @property
    def cuda(self) -> str | None:
        """Its CUDA ("13.0"): the version of its runtime library, else that of its environment's variable."""
        version = self.libraries.get("libcudart") or self.variables.get("CUDA_VERSION") or ""
        match = re.match(r"[0-9]+\.[0-9]+", version)
        return match[0] if match else None

    @property
    def summary(self) -> str:
        """Its contents in a few words."""
        torch = self.packages.get("torch")
        return f"Python {self.python}, {plural(len(self.packages), 'package')}{f', torch {torch}' if torch else ''}"

    def packages_besides(self, replaced: Collection[str]) -> tuple[tuple[str, str], ...]:
        """List its packages except the replaced ones, sorted, each with the version that requirements see."""
        return tuple(sorted((name, as_release(text)) for name, text in self.packages.items() if name not in replaced))

    def extras_besides(self, replaced: Collection[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """List the requirements of its packages' extras, sorted, without those of replaced packages."""
        return tuple(sorted((name, lines) for name, lines in self.extras.items() if name not in replaced))

    def constraints_on(self, replaced: Collection[str]) -> tuple[str, ...]:
        """List its packages' and its constraint files' requirements on packages that it doesn't have or that are
        replaced: they bound what comes on top."""
        stay = self.packages.keys() - set(replaced)
        lines = [line for name in stay for line in self.requires.get(name, ())]
        lines += [line for line in self.constraints if is_requirement(line)]
        return tuple(sorted({line for line in lines if requirement_name(line) not in stay and "@" not in line}))

    @property
    def text(self) -> str:
        """Its file's text: the same inventory gives the same text."""
        head = [
            _HEAD,
            f"inventory-version = {INVENTORY_VERSION}",
        ]
        tables: list[str] = []
        for name, content in asdict(self).items():
            if isinstance(content, dict):
                rows = (f"{key(label)} = {value(content[label])}" for label in sorted(content))
                tables += ["", f"[{name}]", *rows] if content else []
            elif isinstance(content, tuple | list):
                head += [f"{name} = [", *(f"  {value(line)}," for line in content), "]"] if content else []
            elif content is not None:
                head.append(f"{name} = {value(content)}")
        return "\n".join([*head, *tables, ""])


_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_VERSION = re.compile(r"[!-~]{1,200}")


def is_package(name: str, version: str) -> bool:
    """Return whether a normalised name and a version are valid for a package: messages and uv get them."""
    return _NAME.fullmatch(name) is not None and _VERSION.fullmatch(version) is not None


def _refuse_odd(inventory: Inventory) -> None:
    """Raise Unreadable for names, versions and requirements that aren't valid."""
    for name, version in inventory.packages.items():
        if not is_package(name, version):
            raise Unreadable(f"{printable(name)} {printable(version)} is no package")
    for name, lines in (*inventory.requires.items(), *inventory.extras.items()):
        for line in lines:
            if not is_requirement(line):
                raise Unreadable(f"{printable(name)} requires {printable(line)}, which is no requirement")


def as_release(version: str) -> str:
    """Give a base's version as requirements see it. A pre-release, such as a vendor's 2.9.0a0+nv25.09, counts as its
    final release, with its local part. A version that isn't PEP 440's is older than any other."""
    try:
        release = Version(version)
    except ValueError:
        return "0"
    local = f"+{release.local}" if release.local else ""
    return f"{release.base_version}{local}" if release.is_prerelease else str(release)


def read_inventory(text: str, place: Place) -> Inventory:
    """Read the text of an inventory. Raises InputError for a text that envspec didn't write."""
    try:
        document: dict[str, Any] = read_toml(text)
        version = document.pop("inventory-version", None)
        if isinstance(version, int) and version > INVENTORY_VERSION:
            raise InputError("a newer envspec wrote this inventory", place=place, hint="update envspec")
        if version != INVENTORY_VERSION:
            raise Unreadable("it has no inventory-version")
        inventory = convert(document, Inventory)
        _refuse_odd(inventory)
        return inventory
    except Unreadable as error:
        raise InputError(
            f"this is no inventory of a base: {error.reason}", place=place, hint="write one: envspec base read BASE"
        ) from None


class Difference(Struct, frozen=True):
    """A difference of two inventories in one of their fields, `part`; None for a side without it."""

    part: str
    name: str
    old: str | None
    new: str | None


def differences(old: Inventory, new: Inventory) -> Iterator[Difference]:
    """List the differences of two bases, part by part, by name."""
    before, after = asdict(old), asdict(new)
    for part, old_value in before.items():
        new_value = after[part]
        if part in ("requires", "extras"):  # they follow from the packages
            continue
        if isinstance(old_value, dict):
            names = sorted({*old_value, *new_value})
            yield from (
                Difference(part, n, old_value.get(n), new_value.get(n))
                for n in names
                if old_value.get(n) != new_value.get(n)
            )
        elif isinstance(old_value, tuple):
            yield from (Difference(part, name, name, None) for name in old_value if name not in new_value)
            yield from (Difference(part, name, None, name) for name in new_value if name not in old_value)
        elif old_value != new_value:
            yield Difference(part, part, old_value, new_value)


_FIRST = ("torch", "numpy", "triton", "flash-attn", "transformer-engine")
_OF_SYSTEM = (("libcudnn", "cuDNN"), ("libnccl", "NCCL"), ("libmpi", "libmpi"), ("libfabric", "libfabric"))


def sentence(old: Inventory, new: Inventory) -> str:
    """Summarise a change of base in one line: the versions on which most packages depend, and the number of further
    differences."""
    left = [
        difference
        for difference in differences(old, new)
        if difference.part in ("python", "glibc", "libraries", "packages")
    ]
    versions = {
        "Python": (old.python, new.python),
        **{name: (old.packages.get(name), new.packages.get(name)) for name in _FIRST[:1]},
        "CUDA": (old.cuda, new.cuda),
        **{name: (old.packages.get(name), new.packages.get(name)) for name in _FIRST[1:]},
        **{label: (old.libraries.get(name), new.libraries.get(name)) for name, label in _OF_SYSTEM},
        "glibc": (old.glibc, new.glibc),
    }
    moved = [
        f"{name} {old_version or 'none'} -> {new_version or 'none'}"
        for name, (old_version, new_version) in versions.items()
        if old_version != new_version
    ]
    rest = len(
        {difference.name for difference in left}
        - {*_FIRST, *(name for name, _ in _OF_SYSTEM), "python", "glibc", "libcudart"}
    )
    return ", ".join([*moved, *([f"{rest} more"] if rest else [])])
