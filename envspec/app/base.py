"""The inventory of a base: read from an image, a SIF or a folder, and compared."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from envspec.app.image.base import open_image
from envspec.app.observer import observer
from envspec.base.errors import InputError, Place
from envspec.base.progress import Progress
from envspec.base.scratch import scratch_folder
from envspec.base.settings import load_settings
from envspec.base.storage import storage_error
from envspec.export.plan import OCI_PLATFORMS
from envspec.image.base import read_layers
from envspec.image.holdings import WANTED, read_folder, take_stock
from envspec.image.layer import Descriptor
from envspec.image.manifest import read_image, variables_of
from envspec.image.sif import open_sif, read_sif
from envspec.lock.inventory import Difference, Inventory, differences, read_inventory
from envspec.net.file_store import sha256_of

_BASES = "a base is an image's name, an OCI layout's folder or FILE.tar, a FILE.sif, or a folder"
_MOST_BYTES = 16 << 20
"""Of an inventory's file: a base of 100,000 packages has 5 MB."""


def read_base(base: str, platform: str, *, offline: bool = False) -> Inventory:
    """Read what a base has: an image of a registry, an OCI layout's folder or tar, a SIF, or the folder of a system or
    of an environment. None of its code is run. Raises InputError, IndexFailure, ToolError, StorageError."""
    path = Path(base)
    with observer().progress(f"reading {base}") as progress:
        try:
            if path.is_dir() and not (path / "oci-layout").is_file():
                found = take_stock(read_folder(path), base, {})
            elif path.suffix == ".sif" and not path.exists():
                raise InputError("the file isn't there", hint=_BASES, place=Place(base))
            elif path.suffix == ".sif":
                found = _read_sif(path, progress)
            elif path.is_file() and path.suffix != ".tar":
                raise InputError("this is no base", hint=_BASES, place=Place(base))
            else:
                # a name of one word is an image's here, where nothing is written
                named = path.exists() or path.suffix == ".tar" or base.startswith((".", os.sep))
                found = _read_image(base if named else f"docker://{base}", platform, progress, offline=offline)
        except OSError as error:
            raise storage_error(error, path, option="BASE", doing="can't be read") from None
    if found.python is None:
        raise InputError(f"{base} has no Python", hint="name an image, a SIF or an environment that has one")
    return replace(found, source=base)


def _read_sif(path: Path, progress: Progress) -> Inventory:
    sif = open_sif(path)
    files = read_sif(sif, WANTED, os.environ)
    progress.phase(f"hashing {path.name}")
    return take_stock(files, str(path), {}, f"sha256:{sha256_of(path)}", sif.platform)


def _read_image(base: str, platform: str, progress: Progress, *, offline: bool) -> Inventory:
    if platform not in OCI_PLATFORMS:
        raise InputError(f"no image is for {platform}", hint=f"give --platform {' or '.join(OCI_PLATFORMS)}")
    with (
        scratch_folder(load_settings(os.environ).cache()) as scratch,
        open_image(base, "BASE", progress.came, scratch, offline=offline) as source,
    ):
        image = read_image(source.top, source.read, OCI_PLATFORMS[platform], base)

        def blob(layer: Descriptor) -> BinaryIO:
            progress.phase(f"reading a layer of {base}", layer.size)
            file = source.open(layer)
            # of an image of 20 GB one layer at a time lies on the disk: an open file stays readable
            for fetched in filter(Path.is_file, scratch.rglob("*")):
                fetched.unlink()
            return file

        files = read_layers(zip(image.layers, image.diff_ids, strict=True), blob, base, WANTED)
        own = image.config.get("config")
        variables = variables_of(own.get("Env") if isinstance(own, dict) else None)
        return take_stock(files, base, variables, source.top.digest, platform)


def load_inventory(path: Path) -> Inventory:
    """Read an inventory's file. Raises InputError, StorageError."""
    place = Place(str(path))
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        hint = "write one: envspec base read BASE -o FILE"
        raise InputError("the file isn't there", hint=hint, place=place) from None
    except OSError as error:
        raise storage_error(error, path, option="the command", doing="can't be read") from None
    if len(content) > _MOST_BYTES:
        raise InputError(f"an inventory has {_MOST_BYTES >> 20} MiB at the most", place=place)
    return read_inventory(content.decode("utf-8", "replace"), place)


def compare_bases(old: Path, new: Path) -> tuple[Difference, ...]:
    """List what differs between the inventories in two files. Raises InputError, StorageError."""
    return tuple(differences(replace(load_inventory(old), source=""), replace(load_inventory(new), source="")))
