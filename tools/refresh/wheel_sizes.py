"""The sizes of `data/wheels/*.json`: the PyTorch indexes' pages say none, but whoever serves a file says its length."""

from __future__ import annotations

import re
from collections.abc import Mapping

_UNSIZED = re.compile(r'\{"file": "([^"]+)", "sha256": "([0-9a-f]{64})", "metadata": \d+(?=[,}])(?!, "size")')

File = tuple[str, str]
"""A file's name and its sha256: one name may be of several files."""


def files_without_size(text: str) -> tuple[File, ...]:
    """Return the files of a variant's table that have no size."""
    return tuple((found[1], found[2]) for found in _UNSIZED.finditer(text))


def with_sizes(text: str, sizes: Mapping[File, int]) -> str:
    """Return the table's text with the sizes in bytes that it lacks."""

    def with_size(found: re.Match[str]) -> str:
        size = sizes.get((found[1], found[2]))
        return found[0] if size is None else f'{found[0]}, "size": {size}'

    return _UNSIZED.sub(with_size, text)
