"""Questions to a wheel, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from envspec.binaries.build_notes import BuildNotes, NumpyAbi
from envspec.binaries.device_code import DeviceCode
from envspec.binaries.import_time import ImportTime
from envspec.lock.model import Pin

Question = Literal["numpy", "pkg_resources", "notes", "code", "paths"]
"""numpy          for which NumPy its extension modules were compiled
pkg_resources  which of its modules import that as they are imported
notes          for which CUDA and torch it was built, where it says so
code           for which GPUs and which CUDA it is compiled
paths          which files it installs, but for its METADATA, and what tells the content of each
"""


@dataclass(frozen=True)
class WheelSays:
    """The answers of a wheel; None to what wasn't asked."""

    numpy: NumpyAbi | None = None
    pkg_resources: ImportTime | None = None
    notes: BuildNotes | None = None
    code: DeviceCode | None = None
    paths: Mapping[str, str] | None = None

    @property
    def answered(self) -> frozenset[Question]:
        every: tuple[Question, ...] = ("numpy", "pkg_resources", "notes", "code", "paths")
        return frozenset(question for question in every if getattr(self, question) is not None)


@dataclass(frozen=True)
class Unread:
    """A wheel that couldn't be read, and why (a sentence without an end). `hint` is what the error said to do. `whole`
    says that it could be had only whole, and is too large for that: its server offers no byte ranges."""

    file: str
    reason: str
    hint: str | None = None
    whole: bool = False


Read = Callable[[Pin, frozenset[Question]], WheelSays | Unread]
"""Asks a pin's wheel. Raises nothing; called from several threads at once."""

Recall = Callable[[Pin, frozenset[Question]], WheelSays | None]
"""Gives the answers of a pin's wheel that are known, None where one isn't. Fetches nothing."""
