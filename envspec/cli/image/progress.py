"""Progress of an image on stderr, if it's a terminal: the phase, the bytes so far and their rate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envspec.cli.progress import bars
from envspec.image.build import ImageProgress, SilentImage

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import ProgressColumn


class _OnTerminal:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task = bars.add_task("", total=None, visible=False)

    def phase(self, text: str, total: int | None = None) -> None:
        self._bars.reset(self._task, description=text, total=total, visible=True)

    def came(self, count: int) -> None:
        self._bars.update(self._task, advance=count)


@contextmanager
def image_progress(*, quiet: bool) -> Iterator[ImageProgress]:
    """Show progress until the block ends."""
    with bars(_columns, quiet=quiet) as drawn:
        yield SilentImage() if drawn is None else _OnTerminal(drawn)


def _columns() -> tuple[ProgressColumn, ...]:
    from rich.progress import (
        DownloadColumn,
        FileSizeColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class Bytes(DownloadColumn):
        """The bytes so far, and of how many where that is known."""

        def render(self, task: Task) -> Text:
            if task.total is None:
                return FileSizeColumn().render(task) if task.completed else Text()
            return super().render(task)

    class Rate(TransferSpeedColumn):
        """The bytes a second, once there are some."""

        def render(self, task: Task) -> Text:
            return super().render(task) if task.speed else Text()

    description = TextColumn("{task.description}", markup=False)
    return SpinnerColumn(), description, Bytes(), Rate(), TimeElapsedColumn()
