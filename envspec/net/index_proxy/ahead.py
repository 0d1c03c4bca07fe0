"""Pages read ahead. uv chooses one release after another, and asks for the pages of what a release requires when it has
chosen it. The index proxy knows them as soon as it has the METADATA, and reads them while uv waits for something else.

What uv would find elsewhere isn't read: what the spec takes from an index of its own, what conda installs, PyTorch's
packages. Nor is a page that was ever read: uv's own cache may have it, and asks only whether it changed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue

from envspec.base.errors import EnvspecError
from envspec.net.index_proxy.pages import Pages, Upstream
from envspec.packages.edges import Markers

_AT_ONCE = 8
_REQUIRES = "Requires-Dist: "
_MOST = 100
"""Requirements of one release whose pages are read ahead: real ones have a dozen that hold."""


@dataclass(frozen=True)
class AskedRoots:
    """The indexes of uv's for a request.

    upstreams  the roots that it asks, in its order
    elsewhere  names that it finds at others
    markers    of the request's target
    """

    upstreams: Sequence[Upstream]
    elsewhere: frozenset[str]
    markers: Markers

    def page(self, line: str) -> tuple[Upstream, str] | None:
        """Find the page that uv asks for when it meets a requirement."""
        if "@" in line.partition(";")[0]:
            return None
        try:
            head = self.markers.heads(frozenset())[line]
        except ValueError:
            return None
        if head is None or head.name in self.elsewhere:
            return None
        return next(((one, head.name) for one in self.upstreams if one.serves(head.name)), None)


class PagesAhead:
    """A reader of pages, in the background; without pages it reads nothing."""

    def __init__(self, pages: Pages | None) -> None:
        self._pages = pages
        self._roots: list[AskedRoots] = []
        self._begun: set[tuple[str, str]] = set()
        self._waiting: SimpleQueue[tuple[Upstream, str] | None] = SimpleQueue()
        self._readers: list[threading.Thread] = []
        self._lock = threading.Lock()

    def expect(self, roots: AskedRoots, requirements: Iterable[str]) -> None:
        """Read ahead for a request too, what it requires itself first."""
        if roots not in self._roots:
            self._roots.append(roots)
        self._read(requirements)

    def read_requirements(self, metadata: bytes) -> None:
        """Begin to read what METADATA requires that uv is shown."""
        if self._roots:
            head = metadata.decode(errors="replace").partition("\n\n")[0]
            self._read([line[len(_REQUIRES) :] for line in head.split("\n") if line.startswith(_REQUIRES)])

    def _read(self, requirements: Iterable[str]) -> None:
        wanted = (page for line in requirements for roots in self._roots if (page := roots.page(line)))
        for upstream, project in islice(wanted, _MOST):
            self.begin(upstream, project)

    def begin(self, upstream: Upstream, project: str) -> None:
        """Begin to read a page, once, unless it was ever read."""
        pages, key = self._pages, (upstream.root, project)
        if pages is None or pages.offline:
            return
        with self._lock:
            known = key in self._begun
            self._begun.add(key)
        if not known and pages.store.get(*key) is None:
            self._waiting.put((upstream, project))
            self._more_readers(pages)

    def _more_readers(self, pages: Pages) -> None:
        with self._lock:
            if len(self._readers) < _AT_ONCE:
                reader = threading.Thread(target=self._work, args=(pages,), daemon=True)
                self._readers.append(reader)
                reader.start()

    def _work(self, pages: Pages) -> None:
        while (page := self._waiting.get()) is not None:
            # what fails, uv asks for again, and is told
            with suppress(EnvspecError):
                pages.show(*page)

    def close(self) -> None:
        """Read no more: uv has its answer."""
        with self._lock:
            while not self._waiting.empty():
                self._waiting.get()
            for _ in self._readers:
                self._waiting.put(None)
            self._readers.clear()
