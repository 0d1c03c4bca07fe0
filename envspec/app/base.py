"""The inventory of a base: read from an image, a SIF or a folder, and compared."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from envspec.app.image.base import open_image
from envspec.app.observer import observer
from envspec.base.errors import InputError, Place
from envspec.base.plain_files import open_plain, read_operand
from envspec.base.progress import Progress
from envspec.base.scratch import scratch_folder
from envspec.base.storage import storage_error
from envspec.configuration.settings import load_settings
from envspec.export.plan import OCI_PLATFORMS
from envspec.image.base import read_layers
from envspec.image.holdings import WANTED, read_folder, take_stock
from envspec.image.layer import Descriptor
from envspec.image.manifest import read_image, variables_of
from envspec.image.sif import open_sif, read_sif
from envspec.install.modules import load_modules
from envspec.install.on_base import base_of
from envspec.lock.inventory import MOST_INVENTORY_BYTES, Difference, Inventory, differences, read_inventory, sentence
from envspec.lock.model import Lock
from envspec.net.file_store import sha256_of
from envspec.spec.model import ON_MACHINES, Spec

_BASES = "a base is an image's name, an OCI layout's folder or FILE.tar, a FILE.sif, or a folder"


def inventories_of(spec: Spec, *, offline: bool) -> Mapping[str, Inventory]:
    """Read the contents of a spec's base, by platform. Raises as `read_base`."""
    assert spec.base is not None, "asked of specs that have one"
    kind, place = spec.base.kind, spec.base.place
    path = os.path.join(os.path.dirname(spec.path), place) if kind == "sif" else place
    platforms = sorted({target.platform for target in spec.targets})
    read = {platform: read_base(path, platform, kind, offline=offline) for platform in platforms}
    return {platform: replace(inventory, source=place) for platform, inventory in read.items()}


def refuse_changed_base(spec: Spec, lock: Lock) -> None:
    """Raise InputError where a lock's base on this machine, a prefix or modules, has other packages or another Python
    than the lock says. Raises also as `read_base`."""
    if spec.base is None or spec.base.kind not in ON_MACHINES:
        return
    for platform, inventory in inventories_of(spec, offline=True).items():
        left = [
            difference
            for difference in differences(lock.inventories[platform], inventory)
            if difference.part in _DECIDING
        ]
        if left:
            changes = "; ".join(
                f"{difference.name} is {difference.new or 'gone'}, not {difference.old or 'absent'}"
                for difference in left[:3]
            )
            raise InputError(
                f"{spec.base.place} isn't as it was locked: {changes}"
                f"{f' (and {len(left) - 3} more)' * (len(left) > 3)}",
                hint=f"envspec lock {spec.path} --upgrade-images reads it again",
                place=spec.places.get(f"base.{spec.base.kind}"),
            )


def changing_paths(lock: Lock) -> list[str]:
    """List the files of a base's modules on this machine, and the folders that change with the base's contents."""
    known = [target for target in lock if target.inputs.platform in lock.inventories]
    bases = [base for target in known if (base := base_of(lock, target))]
    files = [file for base in bases for file in base.inventory.variables.get("_LMFILES_", "").split(":") if file]
    folders = [str(folder) for base in bases for folder in (base.python.parent, *base.folders)]
    return sorted({*files, *map(os.path.dirname, files), *folders})


_DECIDING = ("python", "executable", "folders", "packages")


def read_base(base: str, platform: str, kind: str | None = None, *, offline: bool = False) -> Inventory:
    """Read a base's contents: an image of a registry, an OCI layout's folder or tar, a SIF, or the folder of a system
    or of an environment, as `kind` says ("image", "sif", "prefix", "module"), or the path. None of its code is run, but
    for modules' own files by `module load`. Raises InputError, IndexFailure, ToolError, StorageError."""
    path = Path(base)
    with observer().progress(f"reading {base}") as progress:
        try:
            if kind == "image":
                inventory = _read_image(f"docker://{base}", platform, progress, offline=offline)
            elif kind == "module":
                inventory = _read_module(base, platform)
            elif kind == "sif":
                inventory = _read_sif(path, progress)
            elif kind == "prefix" or (path.is_dir() and not (path / "oci-layout").is_file()):
                inventory = take_stock(read_folder(path), base, {}, machine=platform)
            elif path.suffix == ".sif" and not path.exists():
                raise InputError("the file isn't there", hint=_BASES, place=Place(base))
            elif path.suffix == ".sif":
                inventory = _read_sif(path, progress)
            elif path.exists() and path.suffix != ".tar" and not path.is_dir():
                open_plain(path).close()
                raise InputError("this is no base", hint=_BASES, place=Place(base))
            else:
                # a name of one word is an image's here, where nothing is written
                named = path.exists() or path.suffix == ".tar" or base.startswith((".", os.sep))
                inventory = _read_image(base if named else f"docker://{base}", platform, progress, offline=offline)
        except OSError as error:
            raise storage_error(error, path, option="BASE", doing="can't be read") from None
    if inventory.python is None:
        raise InputError(f"{base} has no Python", hint="name an image, a SIF or an environment that has one")
    return replace(inventory, source=base)


_USR = Path("/usr")


def _read_module(names: str, platform: str) -> Inventory:
    """Read the contents of modules: the Python that PATH leads to with its prefix, and the folders that they name."""
    loaded = load_modules(names, os.environ)
    python = shutil.which("python3", path=loaded["PATH"])
    if python is None:
        raise InputError(f"module load {names} gives no python3", hint="name the module of the Python, too: its words")
    executable = Path(python)
    prefix = (
        executable.parents[1] if (executable.parents[1] / "pyvenv.cfg").is_file() else executable.resolve().parents[1]
    )
    system = prefix in (Path("/"), _USR, _USR / "local")
    parts = [
        folder
        for top in ("/usr", "/usr/local")
        for part in ("include", "lib*")
        for folder in Path(top).glob(f"{part}/python3*")
    ]
    own = [prefix / "bin", *parts] if system else [prefix]
    named = [Path(folder) for key in ("PYTHONPATH", "LD_LIBRARY_PATH") for folder in loaded.get(key, "").split(":")]
    tops = [
        folder
        for folder in dict.fromkeys([executable.parent, *own, *named])
        if folder.is_absolute() and folder.is_dir()
    ]
    outer = [folder for folder in tops if not any(other in folder.parents for other in tops)]
    return take_stock(read_folder(Path("/"), outer), names, loaded, machine=platform)


def _read_sif(path: Path, progress: Progress) -> Inventory:
    sif = open_sif(path)
    files = read_sif(sif, WANTED, os.environ)
    progress.phase(f"hashing {path.name}")
    return take_stock(files, str(path), {}, f"sha256:{sha256_of(path)}", sif.platform)


def _read_image(base: str, platform: str, progress: Progress, *, offline: bool) -> Inventory:
    if platform not in OCI_PLATFORMS:
        raise InputError(f"no image is for {platform}", hint=f"give --platform {' or '.join(OCI_PLATFORMS)}")
    with (
        scratch_folder(load_settings(os.environ).scratch()) as scratch,
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
        content = read_operand(path, MOST_INVENTORY_BYTES + 1)
    except FileNotFoundError:
        hint = "write one: envspec base read BASE -o FILE"
        raise InputError("the file isn't there", hint=hint, place=place) from None
    except OSError as error:
        raise storage_error(error, path, option="the command", doing="can't be read") from None
    if len(content) > MOST_INVENTORY_BYTES:
        raise InputError(f"an inventory has {MOST_INVENTORY_BYTES >> 20} MiB at the most", place=place)
    return read_inventory(content.decode("utf-8", "replace"), place)


def compare_bases(old: Path, new: Path) -> tuple[str, tuple[Difference, ...]]:
    """Compare the inventories in two files. Return a line about the differences, and the differences. Raises
    InputError, StorageError."""
    before, after = (replace(load_inventory(file), source="") for file in (old, new))
    return sentence(before, after), tuple(differences(before, after))
