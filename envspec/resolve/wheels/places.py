"""Where what a resolution chose lies: the file or repository of each pin, and the address of its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envspec.base.settings import split_credentials
from envspec.lock.model import GitSource, Pin
from envspec.resolve.pip.pins import installed
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found, FoundFile

_Key = tuple[str, str, str]
Repository = tuple[str, str, "str | None"]
"""URL with the user's credentials, full commit, folder inside."""


@dataclass
class WheelPlaces:
    """What a resolver chose, by pin.

    indexes        the spec's named indexes: name → URL
    flat           the flat indexes: name and page → URL
    default_index  PyPI's address; None for uv's own default
    """

    indexes: Mapping[str, str] = field(default_factory=dict)
    flat: Mapping[tuple[str, str], str] = field(default_factory=dict)
    default_index: str | None = None
    _files: dict[_Key, FoundFile] = field(default_factory=dict)
    _repositories: dict[GitSource, Repository] = field(default_factory=dict)

    def add(self, solved: Mapping[Request, Sequence[Pin]], found: Mapping[Request, Sequence[Found]]) -> None:
        """Remember the files of solved requests' pins, which are in the order of what was found."""
        for request, pins in solved.items():
            for pin, package in zip(pins, found[request], strict=True):
                file = installed(package, request)
                if file is not None:
                    self._files[_key(pin)] = file
                if package.git and pin.git:
                    self._repositories[pin.git] = package.git

    def file(self, pin: Pin) -> FoundFile | None:
        """Give the file of a pin that was chosen."""
        return self._files.get(_key(pin))

    def repository(self, pin: Pin) -> Repository | None:
        """Give the repository of a pin from git that was chosen."""
        return self._repositories.get(pin.git) if pin.git else None

    def origin(self, pin: Pin) -> str:
        """Give the address that vouches for a pin's file, without credentials: of its index, or its own."""
        if pin.url:
            return split_credentials(pin.url)[0]
        if pin.index == "pypi":
            return split_credentials(self.default_index or pin.index)[0]
        pages = sorted(url for (name, _), url in self.flat.items() if name == pin.index)
        return " ".join(split_credentials(url)[0] for url in pages or [self.indexes.get(pin.index, pin.index)])


def _key(pin: Pin) -> _Key:
    return (pin.index, *((pin.artifact.file, pin.artifact.sha256) if pin.artifact else ("", "")))
