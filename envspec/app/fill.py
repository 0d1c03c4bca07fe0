"""`envspec cache fill`: what all users of a machine share, filled by whoever runs it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from envspec.app import inputs
from envspec.app.collecting import collect
from envspec.app.malicious import refuse_malicious
from envspec.app.observer import note, observer, report, warn
from envspec.app.policy import refuse_target
from envspec.app.run import run_installation, tell_outcome
from envspec.base.errors import InputError
from envspec.base.scratch import scratch_folder
from envspec.base.storage import storage_error
from envspec.configuration.settings import load_settings, trusted_folder
from envspec.image.conda import link_packages
from envspec.install.environment import Installation
from envspec.install.environments.make import prefix_of
from envspec.install.host import refuse_unfit, this_host
from envspec.install.interpreter import SHARED, fetch_build, with_shared_pythons
from envspec.install.prefix import checked_prefix
from envspec.lock.model import LockedPython, LockedTarget, SoundLock
from envspec.review.audit.store import share
from envspec.spec.model import Spec

_ENVIRONMENTS = "[run] shared"


class Filled(Struct, frozen=True):
    """The shared cache, or the mirror, with the number and bytes of the files that the targets need there, the
    environments that users run from now on, and the keys of `[mirrors]` that the mirror serves."""

    cache: Path | None
    files: int = 0
    size: int = 0
    environments: tuple[Path, ...] = ()
    mirrors: tuple[str, ...] = ()


def fill(paths: Sequence[str], targets: Sequence[str], locks_dir: Path | None) -> Filled:
    """Fetch the files of locked targets into the shared cache, and make the environments that fit this machine in the
    shared folder of environments, each where the configuration names one. All users can read both afterwards.

    Raises InputError where neither is named or another user may write to it, Forbidden, Malicious, IndexFailure,
    StorageError.
    """
    settings = load_settings()
    if settings.shared_cache is None and settings.shared_environments is None:
        raise InputError(
            "this machine shares no cache and no environments",
            hint='in /etc/envspec/config.toml: [cache] shared = "/opt/envspec/cache", [run] shared = '
            '"/opt/envspec/environments"',
        )
    chosen = list(permitted_targets(paths, targets, locks_dir))
    sizes: dict[Path, int] = {}
    made: list[Path] = []
    with _share(settings.shared_cache, SHARED) as cache, _share(settings.shared_environments, _ENVIRONMENTS) as below:
        for spec, lock, target in chosen:
            if cache is not None:
                pins = [pin for pin in target.fetched if pin.artifact is not None]
                files = collect(spec, pins, into=cache).values()
                sizes |= {file: file.stat().st_size for file in files if file.is_relative_to(cache)}
                if (build := lock.python(target)) and (file := find_build(build, cache)):
                    sizes[file] = file.stat().st_size
                if any(pin.kind == "conda" for pin in target.pins) and target.inputs.platform == this_host().platform:
                    _unpack(cache, spec, target)
            if below is not None and _fits(lock, target):
                made.append(_make(below, spec, lock, target, with_shared_pythons(os.environ, cache)))
        if cache is not None:
            # a node without internet judges by them
            share(settings.cache(), cache)
    return Filled(settings.shared_cache, len(sizes), sum(sizes.values()), tuple(made))


def permitted_targets(
    paths: Sequence[str], targets: Sequence[str], locks_dir: Path | None
) -> Iterator[tuple[Spec, SoundLock, LockedTarget]]:
    """Give the chosen targets of locks, each once the site's policy allows it. Raises Forbidden, Malicious."""
    for path, spec, lock in [(path, *inputs.read_lock(path, locks_dir)) for path in paths]:
        for target in inputs.locked_targets(lock, targets):
            refuse_target(spec, lock, target, path, offline=False)
            report(refuse_malicious(spec, (target,), path, offline=False))
            yield spec, lock, target


def find_build(build: LockedPython, into: Path | None = None) -> Path | None:
    """Get a build of Python into a cache, the user's or the one that is named; None, and a note, where it isn't there
    and the user lets none be fetched. Raises IndexFailure."""
    try:
        return fetch_build(build, load_settings(), os.environ, into=into)
    except InputError as error:
        note(f"Python {build.version} isn't put there: {error.message}")
        return None


@contextmanager
def _share(folder: Path | None, key: str) -> Iterator[Path | None]:
    """Make a folder for a block that puts something there, and have all users read it afterwards."""
    if folder is None:
        yield None
        return
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        trusted_folder(folder, key)
        try:
            yield folder
        finally:
            _open_to_all(folder)
    except OSError as error:
        raise storage_error(error, folder, option=key) from None


def _open_to_all(folder: Path) -> None:
    """Have all users read what is in a folder, and enter and run what its owner may. Links stay as they are."""
    for above, folders, files in os.walk(folder):
        for path in (above, *(os.path.join(above, name) for name in (*folders, *files))):
            open_path(path)


def open_path(path: str | Path) -> None:
    """Have all users read a file or a folder, and enter or run it where its owner may. A link stays as it is."""
    mode = os.lstat(path).st_mode
    required = mode | (0o555 if mode & stat.S_IXUSR else 0o444)
    if not stat.S_ISLNK(mode) and required != mode:
        os.chmod(path, stat.S_IMODE(required))


def _unpack(cache: Path, spec: Spec, target: LockedTarget) -> None:
    """Unpack conda packages into the shared cache, by linking them once."""
    with scratch_folder(cache / "conda" / "scratch") as folder, observer().progress("conda packages") as progress:
        link_packages(target, spec.conda.channels, folder / "env", folder / "env", progress, offline=False, into=cache)


def _fits(lock: SoundLock, target: LockedTarget) -> bool:
    try:
        refuse_unfit(this_host(), lock, target)
    except InputError as error:
        note(f"no environment of {target.name} is made here: {error.message}")
        return False
    return True


def _make(below: Path, spec: Spec, lock: SoundLock, target: LockedTarget, env: Mapping[str, str]) -> Path:
    prefix = checked_prefix(prefix_of(below, spec, lock, target, this_host()))
    with observer().progress("reading the installed packages") as progress:
        outcome = run_installation(Installation(spec, lock, target, prefix, env, progress=progress))
    tell_outcome(outcome)
    python = (prefix / "bin" / "python").resolve()
    closed = [path for path in python.parents if not path.stat().st_mode & stat.S_IXOTH]
    if closed:
        warn(
            f"other users can't run {python}, the Python of {prefix.name}: {closed[-1]} is closed to them; make it "
            "with UV_PYTHON_INSTALL_DIR below a folder of all"
        )
    return prefix
