"""Questions to wheels at their place: in the cache, or by byte ranges of their index; once for each file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal
from zipfile import ZipInfo

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.metadata import OpenedWheels, cache_key, refuse_layout
from envspec.base.cache import keep_value, read_value
from envspec.base.errors import EnvspecError
from envspec.binaries.build_notes import BuildNotes, NumpyAbi, build_notes, numpy_abi
from envspec.binaries.device_code import DeviceCode, device_code, published_code
from envspec.binaries.import_time import ImportTime, modules_importing_at_start
from envspec.binaries.wheel import OpenWheel, UnreadableWheel, installed_paths, open_wheel
from envspec.net.body import TooLarge
from envspec.net.file_store import FileStore, WantedFile
from envspec.net.remote_file import RemoteFile, open_remote
from envspec.packages.archive_entries import layout_fault
from envspec.resolve.uv.answer import FoundFile

# Questions to a wheel, and its answers.

Question = Literal["numpy", "pkg_resources", "notes", "code", "all code", "paths"]
"""numpy          for which NumPy its extension modules were compiled
pkg_resources  which of its modules import that as they are imported
notes          for which CUDA and torch it was built, where it says so
code           for which GPUs and which CUDA it is compiled, by a part of a large wheel
all code       the same by all of it
paths          which files it installs, but for its METADATA, and what tells the content of each
"""


class WheelSays(Struct, frozen=True):
    """The answers of a wheel; None for a question that wasn't asked. `to_the_end`: `code` is the answer by the whole
    wheel.

    The answer by a part stays beside the answer by the whole: another target's question changes no lock.
    """

    numpy: NumpyAbi | None = None
    pkg_resources: ImportTime | None = None
    notes: BuildNotes | None = None
    code: DeviceCode | None = None
    paths: Mapping[str, str] | None = None
    to_the_end: bool = False
    all_code: DeviceCode | None = None

    @property
    def whole(self) -> DeviceCode | None:
        """The code by all of the wheel."""
        return self.code if self.to_the_end else self.all_code

    @property
    def answered(self) -> frozenset[Question]:
        answered = frozenset(question for question, (name, _) in _ASK.items() if getattr(self, name) is not None)
        return answered | {"all code"} if self.whole is not None else answered


class Unread(Struct, frozen=True):
    """A wheel that couldn't be read, and why (a sentence without an end). `hint` is the error's. `whole`: its server
    offers no byte ranges, and the whole wheel is too large."""

    file: str
    reason: str
    hint: str | None = None
    whole: bool = False


_SCHEMA = 9


class OfAll(Struct, frozen=True):
    """The answers of one solution's wheels together, by package.

    paths   those that several of them have, each with a mark of its content
    builds  the builds of those that only their content shows to have code for GPUs
    """

    paths: Mapping[str, Mapping[str, str]]
    builds: Mapping[str, tuple[BuildNotes, DeviceCode]]


Key = tuple[str, str, str]
"""A wheel's name, its hash and the address of its index."""


class WheelStore:
    """The answers of wheels on disk. Writing is atomic; a damaged entry counts as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / f"wheels-v{_SCHEMA}"

    def get(self, key: str) -> WheelSays:
        """Return the known answers of a wheel: none where there is no sound entry."""
        return read_value(self._path(key), WheelSays) or WheelSays()

    def recall(self, file: str, sha256: str, origin: str) -> WheelSays:
        """Give the known answers of a wheel, by its name, its hash and the address of its index."""
        return self.get(key_of(file, sha256, origin))

    def put(self, key: str, says: WheelSays | OfAll) -> None:
        """Keep answers. A cache that isn't writable is no error: the caller has them."""
        keep_value(self._path(key), says)

    def of_all(self, key: str) -> OfAll | None:
        """Return the answers of several wheels together, by their common key; None where these aren't known."""
        return read_value(self._path(key), OfAll)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key[2:]}.json"


def published_answers(sha256: str) -> WheelSays | None:
    """Give the answers of a wheel on PyPI by the table of wheels that were read to their end: its hash names its
    content."""
    known = published_code(sha256)
    return None if known is None else WheelSays(notes=known.notes, code=known.code, to_the_end=True)


WHOLE = 256 << 20
"""Bytes of the largest wheel that is read whole, from a server that offers no ranges."""


class WheelReader(Struct, frozen=True):
    """A reader of wheels through the cache. Bytes that an index served count for that index alone: ranges prove no
    hash, so one index can't speak for another's wheels. `files` are those that were fetched whole, `opened` has the
    installed paths of others whose METADATA was read before."""

    store: WheelStore
    files: FileStore
    opened: OpenedWheels = field(default_factory=OpenedWheels)

    def recall(self, file: str, sha256: str, origin: str) -> WheelSays:
        """Give the known answers of a wheel, by its name, its hash and the address of its index. Nothing is fetched."""
        says, published = self.store.recall(file, sha256, origin), published_answers(sha256)
        return replace(says, notes=published.notes, code=published.code, to_the_end=True) if published else says

    def ask(self, file: FoundFile, origin: str, questions: frozenset[Question]) -> WheelSays | Unread:
        """Ask a wheel of the index at `origin`. One that can't be read is a value. Raises IndexFailure for one that
        can't be installed, or that would replace other packages' files."""
        says = self.recall(file.file, str(file.sha256), origin)
        if questions <= says.answered:
            return says
        if says.paths is None:
            says = replace(says, paths=self.opened.get(file.url))
        entries: tuple[ZipInfo, ...] = ()
        try:
            if not questions <= says.answered:
                with self._open(file) as content, open_wheel(content) as wheel:
                    entries = wheel.members
                    if not layout_fault(entries):
                        # its RECORD lies beside the list of its members, which every question reads
                        says = answers(wheel, questions | {"paths"}, says)
        except UnreadableWheel as error:
            return Unread(file.file, str(error))
        except EnvspecError as error:
            return Unread(file.file, error.message, error.hint, isinstance(error, TooLarge))
        except OSError as error:
            return Unread(file.file, str(error.strerror))
        refuse_layout(file, entries)
        self.store.put(key_of(file.file, str(file.sha256), origin), says)
        return says

    @contextmanager
    def _open(self, file: FoundFile) -> Iterator[IO[bytes] | RemoteFile]:
        place = self.files.find(WantedFile(file.file, str(file.sha256), file.size))
        with open_remote(self.files.fetcher, file.url, WHOLE) if place is None else place.open("rb") as content:
            yield content


def key_of(file: str, sha256: str, origin: str) -> str:
    return cache_key("wheel", origin, file, sha256)


def key_of_all(keys: Iterable[Key], cuda: bool) -> str:
    """Make the key of wheels' common answers in a target with or without CUDA."""
    return cache_key("wheels", "cuda" if cuda else "", *sorted(key_of(*key) for key in keys))


_ASK: Mapping[Question, tuple[str, Callable[[OpenWheel], object]]] = {
    "notes": ("notes", build_notes),
    "numpy": ("numpy", numpy_abi),
    "pkg_resources": ("pkg_resources", lambda wheel: modules_importing_at_start(wheel, "pkg_resources")),
    "paths": ("paths", installed_paths),
    "all code": ("all_code", lambda wheel: device_code(wheel, to_the_end=True)),
    "code": ("code", device_code),
}


def answers(wheel: OpenWheel, questions: frozenset[Question], known: WheelSays) -> WheelSays:
    """Ask an open wheel the questions without a known answer. Raises UnreadableWheel, and what its file raises."""
    fresh = {field: read(wheel) for question, (field, read) in _ASK.items() if question in questions - known.answered}
    return replace(known, **fresh)
