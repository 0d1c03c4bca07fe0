"""conda's own configuration: the `.condarc` files of this machine and their settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.base.documents import Unreadable, read_yaml
from envspec.base.errors import InputError, Place


def condarc_files(env: Mapping[str, str]) -> list[Path]:
    """List the files that exist, in the order of conda's documentation ("Searching for .condarc"): later ones win."""
    home = Path(env.get("HOME", "~")).expanduser()
    folders = [Path("/etc/conda")]
    if env.get("CONDA_ROOT"):
        folders.append(Path(env["CONDA_ROOT"]))
    folders += [Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "conda", home / ".conda"]
    paths = [folder / name for folder in folders for name in (".condarc", "condarc")]
    paths.append(home / ".condarc")
    if env.get("CONDA_PREFIX"):
        paths.append(Path(env["CONDA_PREFIX"]) / ".condarc")
    if env.get("CONDARC"):
        paths.append(Path(env["CONDARC"]).expanduser())
    return [path for path in paths if os.path.isfile(path)]


def read_condarc(path: Path) -> dict[str, Any]:
    """Read the settings of one file, none where it has no table.

    Raises InputError for a file that isn't YAML.
    """
    try:
        table = read_yaml(os.path.expandvars(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, Unreadable) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"conda's configuration can't be read: {reason}", place=Place(str(path))) from None
    return table if isinstance(table, dict) else {}
