"""Environments in use: a program holds a file of its environment, for as long as it or its children run.

The system lets go of it when the last of them ends, however it ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from envspec.base.cache import Entry, remove, size_and_use, touch
from envspec.base.errors import NotPlain
from envspec.base.flock import has_flock, hold_now
from envspec.base.open_folder import OpenFolder
from envspec.base.places import KEEP_PYTHONPATH, OF_OTHER_PYTHONS

# An environment that is ready to be used, and how a program starts in it.
#
# Starting a ready environment is what happens most often, so this module and `memo` import next to nothing.


RECORDS = "etc/envspec"
"""envspec's records in a prefix (`envspec.install.prefix`)."""
STATE = f"{RECORDS}/install.json"
ACTIVATE = "bin/activate"
_OTHERS = {
    True: ("VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT"),
    False: ("CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_PROMPT_MODIFIER"),
}
"""The variables that an environment of the other kind leaves in the shell, by whether this one is conda's."""


class Ready(Struct, frozen=True):
    """prefix   the environment's folder, absolute
    spec     the spec's name; `target` the target's
    reason   the line that names the target and why it was chosen; empty where the user named it
    conda    it is conda's, and a virtual environment otherwise
    scripts  packages have scripts of their own for activation, or modules are loaded: a shell has to do that
    fixed    variables of every process; `own` those that the caller's replace
    """

    prefix: str
    spec: str
    target: str
    reason: str
    conda: bool
    scripts: bool
    fixed: Mapping[str, str]
    own: Mapping[str, str]

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Make the variables of a process in the environment, from the caller's."""
        kind = {"VIRTUAL_ENV": self.prefix}
        if self.conda:
            kind = {"CONDA_PREFIX": self.prefix, "CONDA_DEFAULT_ENV": self.spec}
        bin_first = f"{self.prefix}/bin{os.pathsep}{env.get('PATH') or os.defpath}"
        dropped = {*OF_OTHER_PYTHONS, *_OTHERS[self.conda]} - ({"PYTHONPATH"} if env.get(KEEP_PYTHONPATH) else set())
        inherited = {name: value for name, value in env.items() if name not in dropped}
        return {**self.own, **inherited, **self.fixed, **kind, "PATH": bin_first}

    def command(self, words: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """Make the command that runs a program in the environment. `env` are the variables of `environment`."""
        if not self.scripts:
            return tuple(words)
        shell = program("bash", env) or "sh"
        return (shell, "-c", '. "$0" && exec "$@"', f"{self.prefix}/{ACTIVATE}", *words)


def program(word: str, env: Mapping[str, str]) -> str | None:
    """Find the program that a command's first word means, as exec does; None where there is none."""
    if os.sep in word:
        return word if _runs(word) else None
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        if _runs(path := os.path.join(folder or os.curdir, word)):
            return path
    return None


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


_FILE = f"{RECORDS}/running"


def hold(prefix: str) -> bool:
    """Hold an environment until this process and the program that takes its place have ended. Returns False where it is
    about to be removed, and has to be made again. A system without such locks lets every run pass."""
    if not has_flock():
        return True
    try:
        if not os.path.exists(os.path.join(prefix, STATE)):
            return False
        descriptor = os.open(os.path.join(prefix, _FILE), os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except FileNotFoundError:
        return False
    except OSError:
        # another user's, or a filesystem that is read-only: whoever can't write to it can't remove it either
        return True
    held = hold_now(descriptor, shared=True)
    if not held:
        os.close(descriptor)
        return held is None
    if not os.path.exists(os.path.join(prefix, _FILE)):
        os.close(descriptor)
        return False
    os.set_inheritable(descriptor, True)
    touch(Path(prefix))
    return True


@contextmanager
def keep_free(prefix: Path) -> Iterator[bool]:
    """Keep programs from starting in an environment for a block. Yields False where a program runs in it, or another
    envspec is making it."""
    if not has_flock():
        yield True
        return
    held: list[int] = []
    try:
        free = True
        locks = [(prefix, os.O_RDONLY)]
        if (prefix / STATE).exists():
            locks.append((prefix / _FILE, os.O_RDWR | os.O_CREAT))
        for path, flags in locks:
            # what isn't there, or is no plain file, holds nothing
            with suppress(OSError):
                held.append(os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o600))
                free = hold_now(held[-1]) is not False and free
        yield free
    finally:
        for descriptor in held:
            os.close(descriptor)


# The environments that lie in their folder, and taking them away. What runs in one keeps it.


KIND = "environments"


def environments_in(folder: OpenFolder) -> tuple[Entry, ...]:
    """List the environments in their folder. Their size is what goes with them: what they share with a cache, or with
    each other, stays. Other folders, and links, are none of envspec's. Raises OSError."""
    return tuple(_environments(folder))


def _environments(folder: OpenFolder) -> Iterator[Entry]:
    for name in folder.names():
        if not folder.is_folder(name) or not (name.startswith(".going-") or _is_ours(folder, name)):
            continue
        usage = size_and_use(folder, name, alone=True)
        if usage is not None:
            with keep_free(folder.path / name) as free:
                yield Entry(KIND, (name,), *usage, busy=not free)


def _is_ours(folder: OpenFolder, name: str) -> bool:
    try:
        return folder.read_at(f"{name}/{STATE}") is not None
    except (OSError, NotPlain):
        return False


def remove_environments(folder: OpenFolder, entries: Iterable[Entry]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Remove the environments in which no program runs. Returns the removed ones, and a line for each that stays, with
    the reason."""
    removed: list[Entry] = []
    reasons: list[str] = []
    for entry in entries:
        place = Path(folder.path) / entry.parts[0]
        with keep_free(place) as free:
            if not free:
                reasons.append(f"{place} is in use")
                continue
            done, left = remove(folder, [entry])
            removed += done
            reasons += left
    return tuple(removed), tuple(reasons)
