"""Large pages made in a process of their own: Python runs one thread at a time, and a page of thousands of files takes
long to read, to group and to write again, while uv asks for others.

The process computes, and does nothing else: no network, no cache, no setting. What it can't make (a page that isn't
one, variants, which are read from their index) it leaves to the caller, and so does one that can't be started.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from envspec.base import programs
from envspec.net import limits
from envspec.net.index_proxy.releases import by_version, kept_text, releases_of
from envspec.net.index_proxy.shown import ShownFiles, body_of
from envspec.net.index_proxy.variant_rows import has_variants
from envspec.net.simple_page import parse_page

LARGE = 1 << 17
"""Bytes of a page that is worth the way to the process and back: its files are hundreds."""
_HUGE = 1 << 20
"""Bytes of a page for which the process is waited for."""


@dataclass(frozen=True)
class RawPage:
    """A page of an index.

    url      its address
    body     its text
    project  the project's name
    sources  what uv is shown of the project's sources
    bounds   that hold here
    """

    url: str
    body: bytes
    project: str
    sources: ShownFiles
    bounds: limits.Limits


@dataclass(frozen=True)
class MadePage:
    """The page for uv.

    body   for uv
    kept   its releases, as they are kept
    hosts  an address at each host that its files are at
    """

    body: bytes
    kept: str
    hosts: tuple[str, ...]


def make(raw: RawPage) -> MadePage | None:
    """Make a page for uv; None for one without files or with variants. Raises IndexFailure."""
    rows = parse_page(raw.body, raw.url)
    if not rows or has_variants([row["filename"] for row in rows]):
        return None
    files = by_version(rows, raw.project)
    hosts = {str(row["url"]).split("/", 3)[2]: str(row["url"]) for row in rows}
    return MadePage(body_of(raw.project, files, raw.sources), kept_text(releases_of(files)), tuple(hosts.values()))


class PageMaker:
    """The process. It starts with the first page, and ends with `close`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        # on one processor it would gain nothing
        self._closed = (os.cpu_count() or 1) < 2
        self._lock = threading.Lock()

    def make(self, raw: RawPage) -> MadePage | None:
        """Make a page there; None where that can't be, and for one that isn't huge while others are made there."""
        import pickle

        if not self._lock.acquire(blocking=len(raw.body) >= _HUGE):
            return None
        try:
            if self._closed:
                return None
            try:
                process = self._process = self._process or _start()
                assert process.stdin and process.stdout
                pickle.dump(raw, process.stdin, pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                made: MadePage | None = pickle.load(process.stdout)
                return made
            except (OSError, EOFError, pickle.UnpicklingError):
                self._closed = True
                return None
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the process, whatever it does: who waits for a page makes it without."""
        self._closed = True
        if self._process is not None:
            self._process.kill()
        with self._lock:
            if (process := self._process) is not None:
                process.kill()
                process.wait()
                for stream in filter(None, (process.stdin, process.stdout)):
                    with suppress(OSError):
                        stream.close()


def _start() -> subprocess.Popen[bytes]:
    """Start the process, with the modules of this one. Raises OSError."""
    command = programs.python(f"from {__name__} import serve; serve()")
    # a session of its own: Ctrl-C is for whoever started it, and ends it
    streams = programs.Streams(stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return programs.start(command, os.environ, streams=streams, session=True)


def serve(pages: BinaryIO | None = None, out: BinaryIO | None = None) -> None:
    """Make each page that comes, until none comes any more."""
    import pickle

    # what is made of a page goes with it: nothing is garbage that only a search would find
    gc.disable()
    given, answers = pages or sys.stdin.buffer, out or sys.stdout.buffer
    with suppress(EOFError, BrokenPipeError):
        while True:
            raw: RawPage = pickle.load(given)
            limits.LIMITS = raw.bounds
            try:
                made = make(raw)
            except Exception:  # noqa: BLE001 - the caller makes it again, and is told what is wrong
                made = None
            pickle.dump(made, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
