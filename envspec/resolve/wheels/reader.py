"""Asking wheels where they lie: by byte ranges of their index, once for a file."""

from __future__ import annotations

from dataclasses import dataclass, replace

from envspec.binaries.build_notes import build_notes
from envspec.binaries.import_time import imported_at_start
from envspec.binaries.numpy_abi import numpy_abi
from envspec.binaries.wheel import OpenWheel, UnreadableWheel, open_wheel
from envspec.errors import EnvspecError
from envspec.net.fetch import Fetcher
from envspec.net.remote_file import open_remote
from envspec.resolve.pip.metadata import cache_key
from envspec.resolve.wheels.model import Question, Unread, WheelSays
from envspec.resolve.wheels.store import WheelStore
from envspec.settings import split_credentials
from envspec.uv.answer import FoundFile

WHOLE = 256 << 20
"""Bytes of the largest wheel that is read whole, from a server that offers no ranges."""


@dataclass(frozen=True)
class WheelReader:
    """Asks wheels through the cache. What an index served is kept for that address alone, as METADATA is."""

    store: WheelStore
    fetcher: Fetcher

    def ask(self, file: FoundFile, questions: frozenset[Question]) -> WheelSays | Unread:
        """Ask a wheel. Raises nothing: one that can't be read is a value."""
        key = cache_key("wheel", split_credentials(file.url)[0], file.file, str(file.sha256))
        known = self.store.get(key)
        if questions <= known.answered:
            return known
        try:
            remote = open_remote(self.fetcher, file.url, WHOLE)
            with remote, open_wheel(remote) as wheel:
                says = answers(wheel, questions, known)
        except UnreadableWheel as error:
            return Unread(file.file, str(error))
        except EnvspecError as error:
            return Unread(file.file, error.message)
        self.store.put(key, says)
        return says


def answers(wheel: OpenWheel, questions: frozenset[Question], known: WheelSays) -> WheelSays:
    """Ask an open wheel what isn't known yet. Raises UnreadableWheel, and what its file raises."""
    says = known
    if "notes" in questions and says.notes is None:
        says = replace(says, notes=build_notes(wheel))
    if "numpy" in questions and says.numpy is None:
        says = replace(says, numpy=numpy_abi(wheel))
    if "pkg_resources" in questions and says.pkg_resources is None:
        says = replace(says, pkg_resources=imported_at_start(wheel, "pkg_resources"))
    return says
