"""Progress of a resolution, reported by its pip and conda halves."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class ResolutionProgress(Protocol):
    """The progress of a resolution. Several threads may call its methods."""

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        """Wrap the solving of one request."""

    def reading(self, done: int, total: int) -> None:
        """Report the number of METADATA files read so far, and of all."""

    def doing(self, what: str) -> AbstractContextManager[None]:
        """Wrap a step that may take long beside uv: "reading torch-2.9.1.tar.gz"."""


class SilentResolution:
    """Progress that reports nothing."""

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def reading(self, done: int, total: int) -> None:
        return None

    def doing(self, what: str) -> AbstractContextManager[None]:
        return nullcontext()
