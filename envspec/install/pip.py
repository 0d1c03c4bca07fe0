"""The pip half: uv installs what the lock pins, every file by its hash, and nothing else.

Each index gets its own run of uv, with that index alone: a package comes from its index in the lock, and no index sees
another's package names. uv reads the indexes from a configuration file: no command line has credentials.
"""

from __future__ import annotations

import glob
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, NoReturn
from urllib.parse import urlsplit

from envspec.errors import EnvspecError, IndexFailure, InputError, ToolError, Unsatisfiable
from envspec.install.collect import at_hand
from envspec.install.inside import cannot_exist, stays_inside
from envspec.install.installed import Dist, recorded_files
from envspec.install.interpreter import python_of
from envspec.install.model import InstallProgress
from envspec.lock.formats.requirements import requirements_txt
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.toml_text import inline_strings, key, string, value
from envspec.packages.requirement import canonical_name
from envspec.redact import has_credentials, redact
from envspec.settings import Settings, split_credentials
from envspec.uv.errors import failure
from envspec.uv.processes import end
from envspec.uv.program import Uv

_PYTORCH = "pytorch/"
_ERROR = re.compile(r"^error:", re.MULTILINE)
_TELLS_ENTRIES = {"RUST_LOG": "uv_extract=warn,uv_distribution=info", "UV_LOG_CONTEXT": "1"}
"""The environment variables with which uv 0.13 logs the wheels that it unpacks, and the entries that it leaves out:

     uv_distribution::distribution_database::wheel wheel=app==1.0
        0.095172s WARN uv_extract::stream Skipping unsafe file name: ../evil
"""
_UNPACKING = re.compile(r"\bwheel=(\S+)")
_UNSAFE = re.compile(r"Skipping unsafe file name: (.*)")
_OWN_SOURCE = ("git", "url")
"""The index names of pins with their own source; their build requirements come from PyPI."""


@dataclass(frozen=True)
class PipInstaller:
    """uv for one prefix.

    indexes   the spec's named indexes: name → URL
    default   the URL of "pypi", None for uv's default
    held      the descriptor that locks the prefix. uv inherits it: on a system that can't end uv when envspec is
              killed, other runs wait until uv has ended
    """

    uv: Uv
    prefix: Path
    settings: Settings
    indexes: Mapping[str, str]
    default: str | None
    held: int
    progress: InstallProgress

    def install(
        self,
        lock: Lock,
        target: LockedTarget,
        pins: Sequence[Pin],
        folder: Path,
        done: Callable[[Sequence[Pin]], None],
    ) -> None:
        """Install pins of `target`, replacing whatever version is there.

        Takes an empty folder for uv's input. Calls `done` with the pins of each index once they are installed. Raises
        IndexFailure for a file that is missing or has another hash, ToolError, StorageError, InputError.
        """
        for number, (index, group) in enumerate(sorted(_by_index(pins).items())):
            self.progress.phase(f"pip: {len(group)} from {'their own URLs' if index in _OWN_SOURCE else index}")
            place = folder / str(number)
            self._install(index, lock, replace(target, pins=tuple(group)), place)
            done(group)

    def _install(self, index: str, lock: Lock, part: LockedTarget, place: Path) -> None:
        """Install the packages of one index."""
        url, _ = self._source(index, part.pins)
        status, told, entries = self._run(self._command(index, lock, part, place), place)
        if entries:
            self._refuse(index, lock, part, place, _UNPACKING.findall(told))
        if status:
            # what it did so far comes first
            problem = _ERROR.search(told)
            text = told[problem.start() :] if problem else told
            raise _refusal(failure(status, text, label=part.name, offline=self.uv.offline, index=url), index)

    def _command(self, index: str, lock: Lock, part: LockedTarget, place: Path) -> list[str]:
        """Give uv's arguments for one index, and write uv's input into `place`, a new folder."""
        place.mkdir()
        pins = part.pins
        (place / "requirements.txt").write_text(requirements_txt(lock, part), encoding="utf-8")
        url, how = self._source(index, pins)
        configuration = place / "uv.toml"
        configuration.touch(mode=0o600)
        configuration.write_text(self._configuration(index, url), encoding="utf-8")
        command = [
            "pip", "install", "--config-file", "uv.toml", "--python", str(python_of(self.prefix)),
            "--no-deps", "--requirements", "requirements.txt", *how,
            "--only-binary", ":all:", *(f"--no-binary={pin.name}" for pin in pins if not pin.is_wheel),
            *(f"--reinstall-package={pin.name}" for pin in pins),
        ]  # fmt: skip
        if index != "git":
            command.append("--require-hashes")
        if self.uv.offline:
            command.append("--offline")
        # uv writes addresses into its cache; it leaves logins out of them, but no tokens
        if url is not None and has_credentials(split_credentials(url)[0]):
            self._private.mkdir(mode=0o700, parents=True, exist_ok=True)
            command += ["--cache-dir", str(self._private)]
        return command

    @property
    def _private(self) -> Path:
        """Make a cache for uv that only its user can read."""
        return self.settings.cache_dir / "uv-private"

    def _refuse(self, index: str, lock: Lock, part: LockedTarget, place: Path, unpacking: Collection[str]) -> NoReturn:
        """Raise IndexFailure for the wheels with entries that lead out, by name, and remove them from the prefix, where
        uv may have put them already, and from uv's cache, from which uv would install them silently.

        `unpacking` are the wheels that uv was unpacking. uv unpacks several at once and doesn't name the one with the
        entry, so each is tried alone, without uv's cache.
        """
        self.progress.phase("looking for the refused wheel")
        doubtful = {canonical_name(name.partition("==")[0]) for name in unpacking}
        found: list[tuple[str, str]] = []
        for number, pin in enumerate(pin for pin in part.pins if pin.name in doubtful):
            alone = place / str(number)
            command = self._command(index, lock, replace(part, pins=(pin,)), alone)
            entries = self._run([*command, "--no-cache", "--target", "unpacked"], alone)[2]
            if entries:
                found.append((f"{pin.name} {pin.version}", entries[0]))
                self._forget(pin.name)
        told = "; ".join(f"the wheel of {name} has the entry {entry!r}" for name, entry in found)
        raise IndexFailure(
            f"{told or f'a wheel of {index} has an entry'}: it leads out of the environment",
            hint="don't install this wheel: it is hostile or broken; report it to its publisher",
        )

    def _forget(self, name: str) -> None:
        for folder in (self.prefix / "lib").glob("python*/site-packages"):
            for info in folder.glob("*.dist-info"):
                installed, _, version = info.name.removesuffix(".dist-info").rpartition("-")
                if canonical_name(installed) == name:
                    uninstall(Dist(name, version, info), self.prefix)
        for option in ([], ["--cache-dir", str(self._private)] if self._private.is_dir() else None):
            if option is not None:
                self.uv.run(["cache", "clean", "--quiet", *option, name], cwd=Path("/"))

    def _source(self, index: str, pins: Sequence[Pin]) -> tuple[str | None, list[str]]:
        """Give the URL of an index (None for uv's default), and the options that select it for uv."""
        if index not in _OWN_SOURCE and all(at_hand(pin, self.settings.find_links) for pin in pins):
            return None, ["--no-index"]
        if index.startswith(_PYTORCH):
            variant = index.removeprefix(_PYTORCH)
            mirror = self.settings.pytorch_mirror(variant)
            return (mirror, []) if mirror else (self.default, [f"--torch-backend={variant}"])
        if index == "pypi" or index in _OWN_SOURCE:
            return self.default, []
        if index not in self.indexes:
            raise InputError(
                f'the lock has files from the index "{index}", which the spec doesn\'t name',
                hint=f'add it to the spec, [pip] indexes = {{ {index} = "https://…" }}, or lock again',
            )
        return self.indexes[index], []

    def _configuration(self, index: str, url: str | None) -> str:
        lines = [f"{key(name)} = {value(item)}" for name, item in self.uv.settings.items()]
        if self.settings.find_links:
            lines.append(f"find-links = {inline_strings(map(_absolute, self.settings.find_links))}")
        if url is not None:
            name = "pypi" if index in _OWN_SOURCE else index.replace("/", "-")
            lines += ["[[index]]", f"name = {string(name)}", f"url = {string(url)}", "default = true"]
        return "\n".join(lines) + "\n"

    def _run(self, command: Sequence[str], place: Path) -> tuple[int, str, list[str]]:
        """Run uv and show its progress; give its status, its output, and the wheel entries that it would leave out. The
        first such entry ends uv before it installs.
        """
        env = {**self.uv.environment(), **_TELLS_ENTRIES}
        said: list[str] = []
        entries: list[str] = []
        try:
            process = subprocess.Popen(
                [self.uv.executable, *command],
                cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                text=True, encoding="utf-8", errors="replace", pass_fds=[self.held], preexec_fn=_die_with_parent(),
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"uv can't be started: {error}", hint="reinstall envspec: uv comes with it") from None
        assert process.stderr is not None  # a pipe, as asked for
        reader = threading.Thread(target=self._listen, args=(process.stderr, process.pid, said, entries), daemon=True)
        try:
            reader.start()
            process.wait()
        finally:
            if process.poll() is None:
                end(process.pid)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                process.kill()
                process.wait()
            reader.join(5)
        return process.returncode, "".join(said), entries

    def _listen(self, stream: IO[str], pid: int, said: list[str], entries: list[str]) -> None:
        with stream:
            for line in stream:
                said.append(line)
                if unsafe := _UNSAFE.search(line):
                    entries.append(unsafe[1])
                    end(pid)
                words = line.lstrip()
                if words.startswith(("Downloading", "Downloaded", "Prepared", "Installed", "Building", "Built")):
                    self.progress.advance(detail=" ".join(redact(line).split()))


def _die_with_parent() -> Callable[[], None] | None:
    """Make Linux kill this child when its parent is killed; runs in the child before exec."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    # PR_SET_PDEATHSIG of prctl(2)
    return lambda: prctl(1, signal.SIGKILL)


def pip_check(prefix: Path, uv: Uv) -> tuple[str, ...]:
    """List the findings of `pip check` for a prefix, one line each; none without a Python."""
    python = python_of(prefix)
    if not python.exists():
        return ()
    ran = uv.run(["pip", "check", "--no-config", "--python", str(python)], cwd=Path("/"))
    if ran.returncode == 0:
        return ()
    lines = [line.strip() for line in ran.stderr.splitlines()]
    return tuple(line for line in lines if line.startswith("The package")) or (" ".join(lines)[:500],)


def uninstall(dist: Dist, prefix: Path) -> None:
    """Remove a pip package: the files in its RECORD, their bytecode, and folders that become empty.

    RECORD goes last, so that an interrupted removal can be repeated. Files that RECORD lists outside the prefix, by
    name or through links, stay. Raises OSError.
    """
    info = dist.folder
    try:
        listed = [path for path, _ in recorded_files(info)]
    except ValueError:
        # of what it had besides, nobody knows; the folder goes, so that the package can come anew
        listed = [path for path in info.iterdir() if not path.is_dir()]
    folders: set[Path] = {info}
    for path in listed:
        if prefix not in path.parents or path == info / "RECORD" or not stays_inside(path, prefix):
            continue
        try:
            path.unlink(missing_ok=True)
        except (OSError, ValueError) as error:
            if not (cannot_exist(error) or path.is_dir()):
                raise
            continue
        folders.update(parent for parent in path.parents if prefix in parent.parents)
        if path.suffix == ".py":
            caches = path.parent / "__pycache__"
            for compiled in caches.glob(f"{glob.escape(path.stem)}.*.pyc"):
                if stays_inside(compiled, prefix):
                    compiled.unlink(missing_ok=True)
            folders.add(caches)
    (info / "RECORD").unlink(missing_ok=True)
    for folder in sorted(folders - {info.parent, *info.parent.parents}, key=lambda path: -len(path.parts)):
        if stays_inside(folder, prefix):
            with suppress(OSError):
                folder.rmdir()


def _by_index(pins: Collection[Pin]) -> dict[str, list[Pin]]:
    groups: dict[str, list[Pin]] = {}
    for pin in pins:
        groups.setdefault(pin.index, []).append(pin)
    return groups


def _refusal(error: EnvspecError, index: str) -> EnvspecError:
    """Reword uv's error: uv speaks of versions, and a lock of files."""
    if isinstance(error, Unsatisfiable):
        return IndexFailure(
            f'the index "{index}" doesn\'t have what the lock pins: {error.message}',
            hint="check that the lock was made from this index, and that the index still has the file",
        )
    return error


def _absolute(link: str) -> str:
    return link if urlsplit(link).scheme else os.path.abspath(os.path.expanduser(link))
