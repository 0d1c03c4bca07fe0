"""Where the wheels of a resolution lie: the file of each pin, and the address of the index that it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envspec.lock.model import Pin
from envspec.resolve.pip.pins import installed
from envspec.resolve.pip.request import Request
from envspec.settings import split_credentials
from envspec.uv.answer import Found, FoundFile

_Key = tuple[str, str, str]


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

    def add(self, solved: Mapping[Request, Sequence[Pin]], found: Mapping[Request, Sequence[Found]]) -> None:
        """Remember the files of solved requests' pins, which are in the order of what was found."""
        for request, pins in solved.items():
            for pin, package in zip(pins, found[request], strict=True):
                file = installed(package, request)
                if file is not None:
                    self._files[_key(pin)] = file

    def file(self, pin: Pin) -> FoundFile | None:
        """Give the file of a pin that was chosen."""
        return self._files.get(_key(pin))

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
