"""Writing one file so that whoever reads it finds the old text or the new one, whole."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8 with plain line ends, and the folders above it. Nothing is left behind when that fails.

    Raises OSError.
    """
    staged = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        staged.write_text(text, encoding="utf-8", newline="\n")
        staged.replace(path)
    except BaseException:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
        raise
