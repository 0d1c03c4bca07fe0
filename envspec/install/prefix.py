"""The folder of an environment, and envspec's records in it: its owner, its progress, its lock.

`etc/envspec/` holds `envspec.lock` (the whole lock), `target` (the installed target's name) and `install.json` (the
state below). envspec writes the state before it installs anything, so it recognises an unfinished environment as its
own.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict

from envspec.base import atomic
from envspec.base.documents import decode_format
from envspec.base.errors import InputError, Place
from envspec.base.open_folder import Location
from envspec.base.plain_files import read_plain
from envspec.base.storage import storage_error
from envspec.install.inside import Inside
from envspec.install.model import identity
from envspec.lock.exclusive import LOCK_FILE
from envspec.lock.keys import LOCK_NAME
from envspec.lock.model import Lock, LockedTarget

FOLDER = Path("etc") / "envspec"
LOCK_PATH = FOLDER / LOCK_NAME
TARGET_PATH = FOLDER / "target"
STATE_PATH = FOLDER / "install.json"
_FORMAT = 1

_NOT_OURS = frozenset({LOCK_FILE, "lost+found"})
"""The names that an empty folder can contain: the lock of this run, and the content of a new filesystem."""


class PrefixState(Struct, frozen=True):
    """spec, target  what is installed, or is being installed
    prefix           its path: a moved environment is broken, because its files name this path
    digest           of the installed target (`digest_of`)
    complete         false while an installation runs, and after one that was interrupted
    pip              the file that each pip package came from (`envspec.install.model.identity`), by name
    """

    spec: str
    target: str
    prefix: str
    digest: str
    complete: bool
    pip: Mapping[str, str] = field(default_factory=dict)


def digest_of(target: LockedTarget) -> str:
    """Compute a digest of everything that decides what is installed for a target, and of nothing else."""
    inputs = target.inputs
    pins = [[pin.kind, pin.name, pin.version, pin.build, pin.index, identity(pin), pin.url] for pin in target.pins]
    on_top_of = [target.provided] if target.provided else []
    text = json.dumps([inputs.platform, inputs.python, sorted(pins, key=repr), *on_top_of])
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def checked_prefix(path: Path) -> Path:
    """Make a prefix absolute. Raises InputError for a path that no environment can have."""
    absolute = Path(os.path.abspath(path))
    text = str(absolute)
    if os.pathsep in text or not text.isprintable():
        hint = "choose a path of other printable characters"
        raise InputError(f"{text!r} can't be a prefix: in PATH, `{os.pathsep}` separates folders", hint=hint)
    if absolute.exists() and not absolute.is_dir():
        raise InputError(f"{absolute} is a file", hint="give --prefix a new folder")
    return absolute


def claim(prefix: Path, spec: str) -> PrefixState | None:
    """Read the state of the environment in `prefix`, None where there is none yet.

    Raises InputError for any other content than an environment of `spec` made at this path.
    """
    state = _read_state(prefix)
    if state is None:
        try:
            names = sorted(set(os.listdir(prefix)) - _NOT_OURS)
        except FileNotFoundError:
            names = []
        if names and not _is_begun(prefix, names):
            message = f"{prefix} isn't empty, and its content isn't envspec's ({', '.join(names[:3])}…)"
            raise InputError(message, hint="give --prefix a new or an empty folder")
        return None
    if state.spec != spec:
        message = f"{prefix} holds the environment of another spec, {state.spec} (target {state.target})"
        raise InputError(message, hint="give --prefix another folder, or remove this one first")
    if state.prefix != str(prefix):
        raise InputError(
            f"the environment in {prefix} was made at {state.prefix}, and its files name that path",
            hint="move it back, or remove it and install again: the downloads are still in the caches",
        )
    return state


def _is_begun(prefix: Path, names: Collection[str]) -> bool:
    """Return whether a prefix has nothing but the folder of envspec's records, and no record yet: a run was killed just
    after its begin, or is about to write its first record."""
    try:
        return (
            list(names) == [FOLDER.parts[0]]
            and os.listdir(prefix / FOLDER.parts[0]) == [FOLDER.parts[1]]
            and all(atomic.is_staging(name) for name in os.listdir(prefix / FOLDER))
        )
    except OSError:
        return False


def is_whole(prefix: Path, lock: Lock, target: LockedTarget) -> bool:
    """Return whether a prefix was completed as this target of a lock, and nothing began to change it since. Its files
    aren't looked at. Raises InputError for records that envspec didn't write."""
    state = _read_state(prefix)
    expected = (lock.name, target.name, str(prefix), digest_of(target))
    return state is not None and state.complete and (state.spec, state.target, state.prefix, state.digest) == expected


def _read_state(prefix: Path) -> PrefixState | None:
    path = prefix / STATE_PATH
    try:
        return decode_format(
            read_plain(path), PrefixState, _FORMAT, Place(str(path)), f"remove {prefix} and install again"
        )
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_state(prefix: Path, state: PrefixState) -> None:
    """Write the state atomically: a crash leaves the old one or the new one. Raises NotPlain, OSError."""
    text = json.dumps({"format": _FORMAT, **asdict(state)}, indent=1, sort_keys=True) + "\n"
    write_file(prefix, STATE_PATH, text)


def write_file(prefix: Path, path: Path, text: str) -> None:
    """Write a file of a prefix (`path` is relative to it) whole or not at all, unless it has this text already.

    Raises NotPlain, OSError.
    """
    place = Location(prefix, path.parent.as_posix())
    with suppress(OSError), place.open() as folder:
        if folder.read(path.name) == text.encode():
            return
    atomic.write_text(place, path.name, text)


def remove_debris(debris: Collection[Path]) -> None:
    """Remove leftovers of an interrupted installer, which no installer can read. Of a link, only the link is removed.
    Raises OSError.
    """
    for path in debris:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def sweep(prefix: Path, written: Collection[Path]) -> None:
    """Remove the temporary files that `write_file` left in killed runs, beside the files `written` (relative),
    envspec's own records and those of conda packages. Raises NotPlain, OSError.
    """
    for path in {FOLDER, Path("conda-meta"), *(file.parent for file in written)}:
        with suppress(FileNotFoundError), Location(prefix, path.as_posix()).open() as folder:
            atomic.sweep(folder)


def close_uvs_lock(prefix: Path) -> None:
    """Restrict the file with which uv locks an environment: uv makes it writable for all users. Raises OSError."""
    lock = prefix / ".lock"
    if lock.is_file() and not lock.is_symlink():
        lock.chmod(stat.S_IMODE(lock.stat().st_mode) & ~stat.S_IWOTH)


def refuse_ways_out(prefix: Path, python: str) -> None:
    """Raise InputError where a folder that envspec and installers write to is a link that leads out of the prefix."""
    inside = Inside(prefix)
    site_packages = f"lib/python{python}/site-packages"
    for folder in (FOLDER.as_posix(), "conda-meta", "bin", site_packages):
        if inside.folder(folder) is None:
            hint = "nothing was changed; find out who made the link, then remove the environment and install again"
            raise InputError(f"{prefix / folder} goes through a link that leads out of the environment", hint=hint)


@contextmanager
def storage(prefix: Path) -> Iterator[None]:
    """Turn the system's errors into StorageError."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        again = "run the same command again to continue"
        doing = "can't be written or read"
        raise storage_error(error, prefix, option="--prefix", again=again, doing=doing) from None
