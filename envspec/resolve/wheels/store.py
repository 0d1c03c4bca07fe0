"""What wheels said, kept in the cache: one small JSON a wheel."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from envspec.binaries.build_notes import BuildNotes
from envspec.binaries.import_time import ImportTime
from envspec.binaries.numpy_abi import NumpyAbi
from envspec.cache.entry import keep_entry, read_entry
from envspec.documents import read_json
from envspec.facts.compute_capability import parse
from envspec.resolve.wheels.model import WheelSays

if TYPE_CHECKING:
    from envspec.binaries.device_code import CompiledLibrary, DeviceCode

_SCHEMA = 2

T = TypeVar("T")


class WheelStore:
    """The answers of wheels on disk. Writing is atomic; a damaged entry counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / f"wheels-v{_SCHEMA}"

    def get(self, key: str) -> WheelSays:
        """Return what is known of a wheel: nothing where there is no sound entry."""
        try:
            entry: Any = read_json(read_entry(self._path(key)))
            return WheelSays(
                numpy=_sound(entry["numpy"], NumpyAbi, _is_numpy),
                pkg_resources=_sound(entry["pkg_resources"], ImportTime, _is_import_time),
                notes=_sound(entry["notes"], BuildNotes, _is_notes),
                code=_sound(entry["code"], _code, _is_code),
                paths=_paths(entry.get("paths")),
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return WheelSays()

    def put(self, key: str, says: WheelSays) -> None:
        """Keep answers. A cache that isn't writable is no error: the caller has them."""
        keep_entry(self._path(key), json.dumps(asdict(says)))

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.json"


def _sound(entry: Any, kind: Callable[..., T], is_sound: Callable[[T], bool]) -> T | None:
    """Make a value of an entry. Raises TypeError or ValueError for one that isn't of its shape."""
    if entry is None:
        return None
    value = kind(**{key: tuple(held) if isinstance(held, list) else held for key, held in entry.items()})
    if not is_sound(value):
        raise ValueError("an answer has another type than it should")
    return value


def _paths(entry: Any) -> tuple[str, ...] | None:
    if entry is not None and not (type(entry) is list and all(type(path) is str for path in entry)):
        raise ValueError("an answer has another type than it should")
    return None if entry is None else tuple(entry)


def _is_numpy(value: NumpyAbi) -> bool:
    return value.built_for in (None, 1, 2) and _is_text(value.member) and type(value.complete) is bool


def _is_import_time(value: ImportTime) -> bool:
    return type(value.complete) is bool and all(type(name) is str for name in value.modules)


def _is_notes(value: BuildNotes) -> bool:
    return _is_text(value.cuda) and _is_text(value.member) and all(type(release) is str for release in value.torch)


def _code(libraries: Iterable[Mapping[str, Any]], said: bool, complete: bool, read: int) -> DeviceCode:
    from envspec.binaries.device_code import CompiledLibrary, DeviceCode

    found = (_sound(one, CompiledLibrary, _is_library) for one in libraries)
    return DeviceCode(tuple(one for one in found if one), said, complete, read)


def _is_code(value: DeviceCode) -> bool:
    return type(value.said) is bool and type(value.complete) is bool and type(value.read) is int


def _is_library(value: CompiledLibrary) -> bool:
    archs = all(map(_is_architecture, (*value.sm, *value.ptx)))
    return type(value.member) is str and archs and all(map(_is_major, (*value.cuda, value.compiler or "1")))


def _is_architecture(value: object) -> bool:
    return type(value) is str and parse(value) is not None


def _is_major(value: object) -> bool:
    return type(value) is str and value.isdecimal() and len(value) < 3


def _is_text(value: object) -> bool:
    return value is None or type(value) is str
