"""Who watches a resolution: what its pip and its conda half tell while they work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class ResolutionProgress(Protocol):
    """What a resolution tells while it works. Every method may be called from several threads."""

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        """Around the solving of one request."""

    def reading(self, done: int, total: int) -> None:
        """Metadata read so far, of how many."""


class SilentResolution:
    """Tells nothing."""

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def reading(self, done: int, total: int) -> None:
        return None
