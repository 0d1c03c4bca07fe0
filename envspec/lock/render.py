"""The files beside the lock: a pure function of the lock, usable without envspec."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envspec.lock.formats import conda_explicit, conda_lock
from envspec.lock.formats.requirements import MARK, requirements_txt
from envspec.lock.model import Lock, LockedTarget
from envspec.spec.schema import PLATFORMS

RENDERED_NAMES = ("requirements.txt", conda_lock.FILE_NAME, *map(conda_explicit.file_name, PLATFORMS))
"""The names, in a target's folder, of every file that envspec renders."""


def rendered_files(lock: Lock) -> dict[str, str]:
    """Render text by path, relative to the lock's folder, with `/`.

    A target without pip packages has no requirements.txt, one without conda packages no conda files. One with a conda
    package without an MD5 has no conda-lock.yml, because that format requires an MD5.
    """
    return {path: render(lock, target) for path, render, target in _outputs(lock)}


def rendered_paths(lock: Lock) -> tuple[str, ...]:
    """Return the paths of `rendered_files`, without rendering."""
    return tuple(path for path, _, _ in _outputs(lock))


def _outputs(lock: Lock) -> Iterator[tuple[str, Callable[[Lock, LockedTarget], str], LockedTarget]]:
    for target in lock:
        kinds = {pin.kind for pin in target.pins}
        if "pip" in kinds:
            yield f"{target.name}/requirements.txt", requirements_txt, target
        if "conda" in kinds:
            name = conda_explicit.file_name(target.inputs.platform)
            yield f"{target.name}/{name}", conda_explicit.committed_explicit, target
            if not conda_lock.without_md5(target):
                yield f"{target.name}/{conda_lock.FILE_NAME}", conda_lock.committed_conda_lock, target


def is_rendered(text: str) -> bool:
    """Return whether a file's text is envspec's to replace and to remove, and not the user's own."""
    return text.startswith(MARK)
