"""Texts that are whole outputs, in files of their own. ENVSPEC_UPDATE_GOLDEN=1 writes them anew."""

import os
from pathlib import Path


def golden(path: Path, text: str) -> str:
    """What the golden file says, after it was written anew where that was asked for."""
    if os.environ.get("ENVSPEC_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return path.read_bytes().decode("utf-8")
