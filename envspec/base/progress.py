"""Progress of long work: what the work tells, and a display overrides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from msgspec import Struct, field

from envspec.base.texts import printable


class Progress:
    """Progress that shows nothing. Several threads may call its methods."""

    def phase(self, text: str, total: int | None = None) -> None:
        """Begin a phase, of so many steps or bytes where that is known."""

    def advance(self, done: int | None = None, detail: str = "") -> None:
        """Count the done steps of the phase; `detail` names the current one."""

    def count(self, done: int, total: int) -> None:
        """Count the done steps of a phase whose number of steps grows."""

    def came(self, count: int) -> None:
        """So many bytes more of the phase are done."""

    def solving(self, names: Sequence[str]) -> AbstractContextManager[None]:
        """Wrap the solving of one request, for all these names, beside others."""
        return self.doing(f"resolving {', '.join(names)}")

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Wrap a step that may take long beside uv: "reading lib-2.9.1.tar.gz"."""
        return nullcontext()

    def fetching(self, file: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Wrap a download of so many bytes, where that is known; what it gives takes the number of those that came."""
        return nullcontext(lambda count: None)


class Counting(Struct):
    """A counter of readings, for a progress that several threads report to."""

    progress: Progress
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _done: int = 0
    _total: int = 0

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Wrap the reading of one artifact. `what` says what is done with it, should it take long."""
        self._count(0, 1)
        with self.progress.doing(printable(what)):
            yield
        self._count(1, 0)

    def _count(self, done: int, total: int) -> None:
        with self._lock:
            self._done += done
            self._total += total
        self.progress.count(self._done, self._total)
