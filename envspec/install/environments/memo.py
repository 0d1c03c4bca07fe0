"""A run's answer, kept so that the next one starts at once: the environment, and all that the choice depended on.

A memo is no cache of files but of an answer: the lock was judged, the target chosen, the environment made. It holds as
long as every file that the answer came from has the same content, and the machine shows the same GPUs.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import asdict

from envspec import __version__
from envspec.base.documents import read_json
from envspec.base.places import stranger, this_user
from envspec.install.environments.in_use import ACTIVATE, Ready

FOLDER = "runs-v1"
"""The folder of memos, below envspec's cache."""
_VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "ENVSPEC_CONFIG", "ENVSPEC_DEFAULT_TARGET", "ENVSPEC_ENVIRONMENTS_DIR", "HOME",
    "MODULEPATH", "SLURM_JOB_ID", "XDG_CONFIG_HOME", "XDG_DATA_HOME",
)  # fmt: skip
"""The variables that an answer depends on. Of a job's number it matters only that there is one."""
_RELATIVE = ("ENVSPEC_CONFIG", "ENVSPEC_ENVIRONMENTS_DIR")
"""Those that are taken from where the command was started."""
_MOST_FILES = 20_000
"""The greatest number of files of a project that are compared: beyond, it is built each time."""
_MOST_BYTES = 64 * 1024 * 1024
"""The part of a file that is read for its digest, in bytes: more than any spec, lock or configuration has."""
_SKIPPED = ("__pycache__", "node_modules", "build", "dist")


def key_of(spec: str, locks_dir: str | None, target: str | None, env: Mapping[str, str]) -> str:
    """Return the key of a question: a spec (absolute path), the folder of its locks, a target, and this machine."""
    values = {name: env.get(name) for name in _VARIABLES}
    values |= {name: os.path.abspath(value) for name in _RELATIVE if (value := values[name])}
    values["SLURM_JOB_ID"] = "a job" if values["SLURM_JOB_ID"] else None
    question = [__version__, spec, locks_dir, target, values, _machine()]
    return hashlib.sha256(json.dumps(question).encode("utf-8", "surrogateescape")).hexdigest()


def recall(cache: str, key: str) -> Ready | None:
    """Give the environment of an earlier run, if nothing has changed since; else None."""
    try:
        path = os.path.join(cache, FOLDER, f"{key}.json")
        with open(path, "rb") as file:
            # what others could have written would have this user run their programs
            if stranger(os.fstat(file.fileno()), this_user()):
                return None
            memo = read_json(file.read())
        if any(digest_of(path) != digest for path, digest in memo["files"].items()):
            return None
        if any(tree_of(path) != digest for path, digest in memo["trees"].items()):
            return None
        ready = Ready(**memo["ready"])
        return ready if _is_there(ready) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


class Sources(Struct, frozen=True):
    """The inputs of an answer: digests of files and of folders, by their absolute paths. Taken before they are read:
    what changes meanwhile makes the memo void."""

    files: Mapping[str, str | None]
    trees: Mapping[str, str | None]

    @staticmethod
    def of(files: Iterable[str], trees: Iterable[str] = ()) -> Sources:
        return Sources({path: digest_of(path) for path in files}, {path: tree_of(path) for path in trees})


def remember(cache: str, key: str, ready: Ready, sources: Sources) -> None:
    """Store an answer with its sources. An unwritable cache is no error: the next run finds out again."""
    if None in sources.trees.values():
        return
    memo = {"files": dict(sources.files), "trees": dict(sources.trees), "ready": asdict(ready)}
    folder = os.path.join(cache, FOLDER)
    partial = os.path.join(folder, f"{key}.{secrets.token_hex(4)}.partial")
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        try:
            # the spec's variables may hold secrets
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(memo, file)
            os.replace(partial, os.path.join(folder, f"{key}.json"))
        except OSError:
            os.unlink(partial)


def digest_of(path: str) -> str | None:
    """Compute a plain file's digest; None for a file that can't be read. A folder's digest is the time at which a name
    was last added or removed, as by installing a package or another version of it. Never waits, as for the writer of a
    pipe. The end of an unusually long file counts by the file's size and time alone."""
    try:
        if os.path.isdir(path):
            return str(os.stat(path).st_mtime_ns)
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            digest = hashlib.sha256(file.read(_MOST_BYTES))
            if status.st_size > _MOST_BYTES:
                digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
            return digest.hexdigest()
    except OSError:
        return None


def tree_of(path: str) -> str | None:
    """Compute a digest of the names, sizes and times of a folder's files: a changed digest shows that a build from the
    folder may give something else. None for a folder with too many files."""
    files: list[tuple[str, int, int]] = []
    folders = [path]
    while folders:
        folder = folders.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                # a virtual environment is no input of a build
                if not os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
                    folders.append(entry.path)
                continue
            with suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                files.append((entry.path, status.st_size, status.st_mtime_ns))
        if len(files) > _MOST_FILES:
            return None
    return hashlib.sha256(json.dumps(sorted(files)).encode("utf-8", "surrogateescape")).hexdigest()


def _is_there(ready: Ready) -> bool:
    """Return whether an environment still is where it was, with a Python that this machine has."""
    python = os.path.join(ready.prefix, "bin", "python")
    return (
        not any(stranger(os.stat(path), this_user()) for path in (ready.prefix, os.path.dirname(ready.prefix)))
        and os.path.isfile(os.path.join(ready.prefix, ACTIVATE))
        and (os.path.exists(python) or not os.path.islink(python))
    )


def _machine() -> list[str]:
    """Describe what this machine shows of its system, driver and GPUs, without asking the driver.

    In a container the kernel shows GPUs that the container may not use: so the device files count.
    """
    system = os.uname()
    libc = ""
    with suppress(AttributeError, ValueError, OSError):
        libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
    facts = [system.sysname, system.machine, libc, str(os.path.exists("/dev/dxg"))]
    driver = "/proc/driver/nvidia"
    with suppress(OSError):
        with open(f"{driver}/version", encoding="utf-8", errors="replace") as file:
            facts.append(file.read())
        for gpu in sorted(os.listdir(f"{driver}/gpus")):
            with open(f"{driver}/gpus/{gpu}/information", encoding="utf-8", errors="replace") as file:
                facts += [gpu, *(line for line in file if line.startswith("Model:"))]
        facts += sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
    return facts
