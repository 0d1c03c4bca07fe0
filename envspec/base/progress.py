"""Progress of long work: what the work tells, and a display overrides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext


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

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        """Wrap the solving of one request, beside others."""
        return self.doing(f"resolving {', '.join(targets)}")

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Wrap a step that may take long beside uv: "reading torch-2.9.1.tar.gz"."""
        return nullcontext()

    def fetching(self, file: str, total: int | None) -> AbstractContextManager[Callable[[int], None]]:
        """Wrap a download of so many bytes, where that is known; what it gives takes the number of those that came."""
        return nullcontext(lambda count: None)
