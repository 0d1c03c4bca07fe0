"""Adapter from rattler's callbacks, which come from its threads, to envspec's progress.

The module imports rattler, so it is imported late.
"""

from __future__ import annotations

from rattler import InstallerReporter

from envspec.install.model import InstallProgress


class Reporter(InstallerReporter):
    """A counter of linked packages and downloaded bytes."""

    def __init__(self, progress: InstallProgress) -> None:
        self._progress = progress
        self._names: dict[int, str] = {}
        self._bytes: dict[int, int] = {}
        self._done = 0

    def on_transaction_start(self, total_operations: int) -> None:
        self._progress.phase("conda packages", total_operations)

    def on_populate_cache_start(self, operation: int, package_name: str) -> int:
        self._names[operation] = package_name
        return operation

    def on_download_start(self, cache_entry: int) -> int:
        return cache_entry

    def on_download_progress(self, download_idx: int, progress: int, total: int | None) -> None:
        self._bytes[download_idx] = progress
        name = self._names.get(download_idx, "")
        self._progress.advance(self._done, f"{name}, {sum(self._bytes.values()) / 1e6:.0f} MB downloaded")

    def on_link_start(self, operation: int, package_name: str) -> int:
        self._progress.advance(self._done, package_name)
        return operation

    def on_transaction_operation_complete(self, operation: int) -> None:
        self._done += 1
        self._progress.advance(self._done)
