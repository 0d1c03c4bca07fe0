"""A spec's lock on disk: `locks/<name>/`, with `envspec.lock` and the files rendered from it.

The lock is the truth and the rendered files are functions of it. A writer replaces the lock first, then the rendered
files, and removes unneeded ones last: a killed writer leaves at most older rendered files, which `envspec check` lists
and the next writer renders again. envspec takes no instructions from files in the folder.

Why it is so: docs/design/11-lock-files.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from envspec.base.errors import InputError, InternalError, LockError, NotPlain, Place, StorageError
from envspec.base.finding import Finding
from envspec.base.open_folder import Location, OpenFolder
from envspec.base.storage import storage_error
from envspec.lock.formats import conda_explicit, conda_lock
from envspec.lock.formats.requirements import MARK, requirements_txt
from envspec.lock.freshness import rendered_reasons
from envspec.lock.inventory import MOST_INVENTORY_BYTES
from envspec.lock.keys import FOLDER_NAME, LOCK_NAME
from envspec.lock.model import Lock, LockedTarget, inventory_name
from envspec.lock.read import loads, read_for_display, text_of, with_inventories
from envspec.lock.signing.model import MOST_SIGNATURE_BYTES, SUFFIX
from envspec.lock.write import dumps
from envspec.spec.forms import PLATFORMS

SIGNATURE_NAME = LOCK_NAME + SUFFIX


class LockFile(Struct, frozen=True):
    """A lock in its folder: the lock, its bytes, and the bytes of its signature, if any."""

    lock: Lock
    content: bytes
    signature: bytes | None


class LockFolder:
    """The folder of one spec's lock. Reading takes no lock and writes nothing, so a read-only checkout will do."""

    def __init__(self, locks_dir: Location | Path, name: str) -> None:
        """Raise InputError for a name that could lead out of `locks_dir`."""
        if not FOLDER_NAME.fullmatch(name):
            raise InputError(f"{name!r} can't name a lock", hint="use a-z, 0-9, `.`, `_` and `-`")
        self.name = name
        self._location = (locks_dir if isinstance(locks_dir, Location) else Location(locks_dir)).join(name)
        self.folder = self._location.path
        self.path = self.folder / LOCK_NAME
        self._held: OpenFolder | None = None

    def read(self) -> Lock | None:
        """Read the lock; None when there is none yet. Raises LockError when it can't be used, NotPlain,
        StorageError."""
        content = self._content()
        return None if content is None else self._lock(content)

    def look(self) -> Lock | None:
        """Read the lock for a command that only shows it: its layout may be another than envspec's. Otherwise raises as
        `read`."""
        content = self._content()
        if content is None:
            return None
        return self._with_inventories(read_for_display(text_of(content, self.path), str(self.path)))

    def read_with_signature(self) -> LockFile | None:
        """Read the lock with its bytes and its signature, all from the folder held open. Raises as `read`, and NotPlain
        for a signature that is no plain file."""
        with self._open() as folder:
            content = _lock_in(folder) if folder else None
            if folder is None or content is None:
                return None
            signature = _signature_in(folder)
        return LockFile(self._lock(content), content, signature)

    def _content(self) -> bytes | None:
        with self._open() as folder:
            return _lock_in(folder) if folder else None

    def _lock(self, content: bytes) -> Lock:
        return self._with_inventories(loads(text_of(content, self.path), str(self.path)))

    def _with_inventories(self, lock: Lock) -> Lock:
        """Give a lock on a base with those inventories beside it whose digests it names."""
        if not lock.bases:
            return lock
        with self._open() as folder:

            def read(name: str) -> bytes | None:
                return folder.read(name, MOST_INVENTORY_BYTES + 1) if folder else None

            return with_inventories(lock, read, str(self.folder))

    def is_signed(self) -> bool:
        """Return whether a signature lies beside the lock, right or not. Raises NotPlain, StorageError."""
        with self._open() as folder:
            return folder is not None and _signature_in(folder) is not None

    def sign(self, signature: bytes, content: bytes) -> bool:
        """Write the signature of the lock whose bytes are `content`. Returns whether it is new.

        Raises LockError for a lock that changed since, NotPlain, StorageError.
        """
        with self.exclusive(), self._open() as folder:
            assert folder is not None
            if _lock_in(folder) != content:
                raise LockError(
                    "the lock changed while it was signed", place=Place(str(self.path)), hint="sign it again"
                )
            new = _signature_in(folder) != signature
            if new:
                _replace_files(folder, {SIGNATURE_NAME: signature})
            return new

    def holds(self, lock: Lock) -> bool:
        """Return whether the lock's text on disk is the one that would be written. Raises NotPlain, StorageError."""

        with self._open() as folder:
            return folder is not None and _lock_in(folder) == dumps(lock).encode()

    def load(self) -> Lock:
        """Read the lock. Raises LockError when there is none or it can't be used, NotPlain, StorageError."""
        lock = self.read()
        if lock is None:
            raise LockError("there is no lock here", place=Place(str(self.path)), hint="run `envspec lock`")
        return lock

    def read_rendered_files(self, lock: Lock) -> dict[str, str]:
        """Read the rendered files on disk: those at the paths that belong to `lock`, and those that envspec rendered
        for other targets. Gives text by path, relative to the folder; bytes that aren't UTF-8 become U+FFFD.

        Raises NotPlain for a link or the like in the place of a file of `lock`, StorageError.
        """
        with self._open() as folder:
            if folder is None:
                return {}
            contents = {path: _content(folder, path) for path in rendered_paths(lock)}
            contents |= _former_files(folder, contents)
        existing = {path: content for path, content in contents.items() if content is not None}
        return {path: existing[path].decode(errors="replace") for path in sorted(existing)}

    def rendered_reasons(self, lock: Lock) -> tuple[Finding, ...]:
        """Compare the rendered files on disk with those that the lock gives. Raises as `read_rendered_files`."""
        return rendered_reasons(rendered_files(lock), self.read_rendered_files(lock))

    def write(self, lock: Lock, on_wait: Callable[[], None] = lambda: None) -> bool:
        """Write the lock and its rendered files. Returns whether anything had to change.

        Rendered files of removed targets go, and so does the signature of a lock that changes: it was of the old one.
        The user's own files in the folder stay. While another process writes here, this calls `on_wait` and waits,
        unless the caller is inside `exclusive` already.

        Raises NotPlain, StorageError (which says whether anything was changed), and InternalError for a lock that
        couldn't be read back.
        """
        expected = {LOCK_NAME: _check_text(lock, self.name, self.path), **rendered_files(lock)}
        expected |= {inventory_name(platform): inventory.text for platform, inventory in lock.inventories.items()}
        with self.exclusive(on_wait), self._open() as folder:
            assert folder is not None
            changes: dict[str, bytes | None] = {
                path: text.encode() for path, text in expected.items() if _content(folder, path) != text.encode()
            }
            changes |= {path: None for path in self.read_rendered_files(lock) if path not in expected}
            changes |= {
                path: None
                for path in {*map(inventory_name, PLATFORMS)} - expected.keys()
                if is_rendered((folder.read(path) or b"").decode(errors="replace"))
            }
            if LOCK_NAME in changes and _signature_in(folder) is not None:
                changes[SIGNATURE_NAME] = None
            if changes:
                _replace_files(folder, changes)
            return bool(changes)

    @contextmanager
    def exclusive(self, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Keep other writers out of this folder for a block, such as a whole run of `envspec lock`.

        Removes the leftovers of a killed writer. Raises NotPlain, StorageError.
        """
        if self._held:
            yield
            return
        from envspec.base import atomic
        from envspec.lock.exclusive import exclusive

        with ExitStack() as stack:
            with _storage(self.folder):
                held = stack.enter_context(exclusive(self._location, on_wait))
                atomic.sweep(held.folder)
                _remove_empty_folders(held.folder)
            self._held = held.folder
            try:
                yield
            finally:
                self._held = None

    @contextmanager
    def _open(self) -> Iterator[OpenFolder | None]:
        """Open the folder: the held one while it is held, None where it doesn't exist."""
        with _storage(self.folder):
            try:
                folder = self._held.descend("") if self._held else self._location.open()
            except (FileNotFoundError, NotADirectoryError):
                yield None
                return
            with folder:
                yield folder


def _replace_files(folder: OpenFolder, changes: Mapping[str, bytes | None]) -> None:
    from envspec.base import atomic

    atomic.replace_files(folder, changes)


def _remove_empty_folders(folder: OpenFolder) -> None:
    """Remove the folders of targets that a killed writer had made, or emptied. One in place of the lock is refused when
    the lock is read."""
    for name in folder.names():
        if name != LOCK_NAME and FOLDER_NAME.fullmatch(name):
            with suppress(OSError):
                folder.rmdir(name)


def _former_files(folder: OpenFolder, known: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Find the files that envspec rendered for any target, besides the known ones. Only plain files can be
    envspec's."""

    for name in folder.names():
        if not (FOLDER_NAME.fullmatch(name) and folder.is_folder(name)):
            continue
        with folder.enter(name) as target:
            for file in RENDERED_NAMES:
                if f"{name}/{file}" in known:
                    continue
                try:
                    content = target.read(file)
                except (NotPlain, IsADirectoryError):
                    continue
                if content is not None and is_rendered(content.decode(errors="replace")):
                    yield f"{name}/{file}", content


def _lock_in(folder: OpenFolder) -> bytes | None:
    place = Place(str(folder.path / LOCK_NAME))
    try:
        return folder.read(LOCK_NAME)
    except IsADirectoryError:
        raise NotPlain("this is a folder, not a lock", place=place, hint="move it away") from None
    except OSError as error:
        raise StorageError(f"the lock can't be read: {error.strerror}", place=place) from None


def _signature_in(folder: OpenFolder) -> bytes | None:
    place = Place(str(folder.path / SIGNATURE_NAME))
    try:
        # one byte more than any has: what is too long is seen to be
        return folder.read(SIGNATURE_NAME, MOST_SIGNATURE_BYTES + 1)
    except IsADirectoryError:
        raise NotPlain("this is a folder, not a signature", place=place, hint="move it away") from None


def _check_text(lock: Lock, name: str, path: Path) -> str:
    """Render the lock's text and read it back: what can't be read must not be written."""

    if lock.name != name:
        raise InternalError(f"the lock of {lock.name} was to be written as {name}")
    text = dumps(lock)
    try:
        loads(text, str(path))
    except LockError as error:
        raise InternalError(f"the new lock can't be read back: {error}") from None
    return text


def _content(folder: OpenFolder, path: str) -> bytes | None:
    try:
        return folder.read_at(path)
    except NotADirectoryError:
        return None


@contextmanager
def _storage(folder: Path) -> Iterator[None]:
    """Turn the system's errors into StorageError."""
    try:
        yield
    except OSError as error:
        from envspec.base.atomic import Unfinished

        if isinstance(error, Unfinished):
            again = "run the command again: it continues from the new lock"
            raise storage_error(error, folder, option="--locks-dir", again=again) from None
        raise storage_error(
            error,
            folder,
            option="--locks-dir",
            again="run the command again; nothing was changed",
            doing="can't be written or read",
        ) from None


# The files beside the lock: a pure function of the lock, usable without envspec.

RENDERED_NAMES = ("requirements.txt", conda_lock.FILE_NAME, *map(conda_explicit.file_name, PLATFORMS))
"""The names, in a target's folder, of every file that envspec renders."""


def rendered_files(lock: Lock) -> dict[str, str]:
    """Render text by path, relative to the lock's folder, with `/`.

    A target without pip packages has no requirements.txt, one without conda packages no conda files. One with a conda
    package without an MD5 has no conda-lock.yml, because that format requires an MD5.
    """
    return {path: render(lock, target) for path, render, target in _outputs(lock)}


def rendered_paths(lock: Lock) -> tuple[str, ...]:
    """Return the paths of `rendered_files`, without rendering."""
    return tuple(path for path, _, _ in _outputs(lock))


def _outputs(lock: Lock) -> Iterator[tuple[str, Callable[[Lock, LockedTarget], str], LockedTarget]]:
    for target in lock:
        kinds = {pin.kind for pin in target.pins}
        if "pip" in kinds:
            yield f"{target.name}/requirements.txt", requirements_txt, target
        if "conda" in kinds:
            name = conda_explicit.file_name(target.inputs.platform)
            yield f"{target.name}/{name}", conda_explicit.committed_explicit, target
            if not conda_lock.without_md5(target):
                yield f"{target.name}/{conda_lock.FILE_NAME}", conda_lock.committed_conda_lock, target


def is_rendered(text: str) -> bool:
    """Return whether a file's text is envspec's to replace and to remove, and not the user's own."""
    return text.startswith(MARK)
