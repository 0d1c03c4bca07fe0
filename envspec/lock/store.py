"""A spec's lock on disk: `locks/<name>/`, with `envspec.lock` and the files rendered from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from envspec.errors import InputError, InternalError, LockError
from envspec.lock.exclusive import exclusive
from envspec.lock.model import Lock
from envspec.lock.read import FOLDER_NAME, load, load_text, loads
from envspec.lock.render import RENDERED_NAMES, is_rendered, rendered_files
from envspec.lock.transaction import pending, recover, replace_files
from envspec.lock.write import dumps
from envspec.storage import storage_error

LOCK_NAME = "envspec.lock"


class LockFolder:
    """The folder of one spec's lock. Reading takes no lock and writes nothing, so a read-only checkout will do."""

    def __init__(self, locks_dir: Path, name: str) -> None:
        """Raises InputError for a name that could lead out of `locks_dir`."""
        if not FOLDER_NAME.fullmatch(name):
            raise InputError(f"{name!r} can't name a lock", hint="use a-z, 0-9, `.`, `_` and `-`")
        self.name = name
        self.folder = locks_dir / name
        self.path = self.folder / LOCK_NAME
        self._held = False

    def read(self) -> Lock | None:
        """The lock, or None when there is none yet. Raises LockError when it can't be used, StorageError."""
        with _storage(self.folder):
            if not self.path.exists() and LOCK_NAME not in pending(self.folder)[0]:
                return None
        return self.load()

    def load(self) -> Lock:
        """The lock. Raises LockError when there is none or it can't be used, StorageError."""
        with _storage(self.folder):
            staged, _ = pending(self.folder)
        if LOCK_NAME in staged:
            # A writer that ends its commit meanwhile takes the staged file away when the real one is in place.
            with suppress(LockError):
                return loads(load_text(staged[LOCK_NAME]), str(self.path))
        return load(self.path)

    def rendered(self, lock: Lock) -> dict[str, str]:
        """The rendered files on disk: what stands at the paths that belong to `lock`, and what envspec once rendered
        for other targets. Text by path, relative to the folder; bytes that aren't UTF-8 come as U+FFFD.

        Raises StorageError.
        """
        expected = rendered_files(lock)
        found: dict[str, str] = {}
        with _storage(self.folder):
            staged, removed = pending(self.folder)
            for path in sorted({*expected, *staged, *self._candidates()} - removed - {LOCK_NAME}):
                # A writer that ends its commit meanwhile takes the staged file away when the real one is in place.
                content = _content(staged[path]) if path in staged else None
                content = _content(self.folder / path) if content is None else content
                text = None if content is None else content.decode(errors="replace")
                if text is not None and (path in expected or is_rendered(text)):
                    found[path] = text
        return found

    def write(self, lock: Lock, on_wait: Callable[[], None] = lambda: None) -> bool:
        """Write the lock and its rendered files, all or none. Gives whether anything had to change.

        Rendered files of targets that are gone are removed; what the user keeps in the folder stays. Waits for another
        process that writes here, after a call of `on_wait`, unless the caller is inside `exclusive` already.

        Raises StorageError with the old files whole, InternalError for a lock that couldn't be read back.
        """
        wanted = {**rendered_files(lock), LOCK_NAME: _checked(lock, self.name, self.path)}
        with self.exclusive(on_wait), _storage(self.folder):
            changed = {
                path: text.encode() for path, text in wanted.items() if _content(self.folder / path) != text.encode()
            }
            gone = sorted(path for path in self.rendered(lock) if path not in wanted)
            if changed or gone:
                replace_files(self.folder, changed, gone)
            return bool(changed or gone)

    @contextmanager
    def exclusive(self, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Keep other writers out of this folder for a block, such as a whole run of `envspec lock`.

        Heals what a killed writer left. Raises StorageError.
        """
        if self._held:
            yield
            return
        with ExitStack() as stack:
            with _storage(self.folder):
                stack.enter_context(exclusive(self.folder, on_wait))
                recover(self.folder)
            self._held = True
            try:
                yield
            finally:
                self._held = False

    def _candidates(self) -> Iterator[str]:
        """Paths at which envspec may once have rendered a file."""
        try:
            folders = [entry.name for entry in self.folder.iterdir() if entry.is_dir()]
        except (FileNotFoundError, NotADirectoryError):
            return
        for folder in folders:
            if FOLDER_NAME.fullmatch(folder):
                yield from (f"{folder}/{name}" for name in RENDERED_NAMES)


def _checked(lock: Lock, name: str, path: Path) -> str:
    """The lock's text, read back: what can't be read must not be written."""
    if lock.name != name:
        raise InternalError(f"the lock of {lock.name} was to be written as {name}")
    text = dumps(lock)
    try:
        loads(text, str(path))
    except LockError as error:
        raise InternalError(f"the new lock can't be read back: {error}") from None
    return text


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def _storage(folder: Path) -> Iterator[None]:
    """Turn the system's errors into StorageError."""
    try:
        yield
    except OSError as error:
        raise storage_error(
            error,
            folder,
            option="--locks-dir",
            again="run again; nothing was changed",
            doing="can't be written or read",
        ) from None
