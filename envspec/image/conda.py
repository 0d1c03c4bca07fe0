"""The conda half of an image: rattler links the packages into a folder as if it were the image's prefix, and what each
brought goes into its own layer."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from envspec.artifacts.conda_archives import CONDA_CACHE
from envspec.artifacts.conda_channels import load_conda_config
from envspec.base.documents import read_json
from envspec.base.progress import Progress
from envspec.configuration.settings import load_settings
from envspec.image.layer import FILE, PROGRAM, LayerEntry, link_entry, text_entry
from envspec.install.installed import CONDA_META
from envspec.lock.conda_files import artifact_of, channel_of
from envspec.lock.model import LockedTarget, Pin

_OF_THIS_MACHINE = ("extracted_package_dir", "package_tarball_full_path", "link")
"""The fields of a record in conda-meta that say where this machine keeps the package."""


class LinkedPackages(Struct, frozen=True):
    """Packages in a folder that stands for the image's prefix. `records`: by name, the record's file and its
    content."""

    folder: Path
    records: Mapping[str, tuple[str, Mapping[str, Any]]]

    def entries(self, pins: Sequence[Pin], root: str) -> Iterator[LayerEntry]:
        """Give the files that some packages brought, below `root`, with the records that conda tools read."""
        for pin in pins:
            file, record = self.records[pin.name]
            for path in record["files"]:
                yield _entry(self.folder / path, f"{root}/{path}")
            yield text_entry(
                f"{root}/{CONDA_META}/{file}", json.dumps(_portable_record(record, pin), indent=2, sort_keys=True)
            )


def history_entry(root: str) -> LayerEntry:
    """Give the file by which conda tools recognise an environment. It is empty: its lines would be times."""
    return text_entry(f"{root}/{CONDA_META}/history", "")


def link_packages(
    target: LockedTarget,
    channels: Collection[str],
    placed: Path,
    folder: Path,
    progress: Progress,
    *,
    offline: bool,
    into: Path | None = None,
) -> LinkedPackages:
    """Link a target's conda packages into an empty folder, for the prefix `placed` of the image. Their scripts aren't
    run. `into` is another cache to take and keep them in. Raises IndexFailure, InputError, ToolError, StorageError."""
    # the extra's
    from envspec.install.conda import CondaInstaller

    settings = load_settings(os.environ)
    installer = CondaInstaller(
        prefix=folder,
        cache=(into or settings.cache()) / CONDA_CACHE,
        settings=settings,
        config=load_conda_config(os.environ),
        offline=offline,
        progress=progress,
        placed=placed,
        shares=into is None,
    )
    names = {pin.name for pin in target.pins if pin.kind == "conda"}
    installer.install(target, channels, names, ())
    records = {}
    for path in sorted((folder / CONDA_META).glob("*.json")):
        record = read_json(path.read_bytes())
        records[str(record["name"])] = (path.name, record)
    return LinkedPackages(folder, records)


def _portable_record(record: Mapping[str, Any], pin: Pin) -> dict[str, Any]:
    """Give a record without this machine and its mirrors: the lock's names for channels instead of addresses."""
    portable = {name: value for name, value in record.items() if name not in _OF_THIS_MACHINE}
    return {**portable, "url": f"{pin.index}/{artifact_of(pin).file}", "channel": channel_of(pin)[0]}


def _open(path: Path) -> IO[bytes]:
    return path.open("rb")


def _entry(path: Path, place: str) -> LayerEntry:
    status = os.lstat(path)
    if path.is_symlink():
        return link_entry(place, os.readlink(path))
    mode = PROGRAM if status.st_mode & 0o111 else FILE
    return LayerEntry(place, status.st_size, partial(_open, path), mode=mode)
