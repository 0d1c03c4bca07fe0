"""Writing one file so that whoever reads it finds the old text or the new one, whole."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to, which becomes `path` when the block ends well, and else goes.

    Makes the folders above it. Raises OSError.
    """
    place = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield place
        place.replace(path)
    except BaseException:
        with suppress(OSError):
            place.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8 with plain line ends, and the folders above it. Nothing is left behind when that fails.

    Raises OSError.
    """
    with staged(path) as place:
        place.write_text(text, encoding="utf-8", newline="\n")
