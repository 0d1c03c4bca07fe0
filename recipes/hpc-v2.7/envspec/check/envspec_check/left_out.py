"""What an export leaves out: modules that none of its targets needs. What is asked for and isn't here fails by name."""

from __future__ import annotations

import importlib
import importlib.util

AGAIN = "export the recipes again with the lock that target.json is of"


def is_here(folder: str, name: str) -> bool:
    """Import a module of a folder that is carried in part; whether it is here."""
    found = importlib.util.find_spec(f"{folder}.{name}") is not None
    if found:
        importlib.import_module(f"{folder}.{name}")
    return found
