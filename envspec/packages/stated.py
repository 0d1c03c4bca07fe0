"""Dependencies that a spec states itself, for sources whose own metadata can't be had without a compiler or torch."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct
from packaging.specifiers import SpecifierSet

_EXTRA = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)['"]""")


class StatedMetadata(Struct, frozen=True):
    """The stated dependencies of a package's sources.

    name          normalised (PEP 503)
    version       a PEP 440 specifier, sorted; empty for every version
    dependencies  normalised PEP 508 requirements, sorted, markers and extras included
    """

    name: str
    version: str = ""
    dependencies: tuple[str, ...] = ()

    @property
    def exact(self) -> str | None:
        """The one version that it's for; None where it covers several."""
        return self.version[2:] if re.fullmatch(r"==[^,*]+", self.version) else None

    @property
    def extras(self) -> tuple[str, ...]:
        """The extras that its markers name."""
        return tuple(sorted({extra for line in self.dependencies for extra in _EXTRA.findall(line)}))

    @property
    def title(self) -> str:
        """Name and version, as messages name it."""
        return f"{self.name} {self.exact or self.version}".rstrip()

    def covers(self, version: str) -> bool:
        """Return whether it holds for a version. False for a text that isn't one."""
        try:
            return not self.version or SpecifierSet(self.version).contains(version, prereleases=True)
        except ValueError:
            return False


def find_metadata(stated: Iterable[StatedMetadata], name: str, version: str) -> StatedMetadata | None:
    """Find a spec's statement on a source, by normalised name: the first entry that covers the version."""
    return next((metadata for metadata in stated if metadata.name == name and metadata.covers(version)), None)
