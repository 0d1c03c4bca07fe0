"""The pip half: uv installs the files that the lock pins, every one by its hash, and nothing else.

envspec has fetched and looked through each file before uv sees it (`envspec.install.collect`), and uv has no network.
Two kinds of packages need more: a source's build requirements come through the index proxy, and a git checkout through
git. No command line has credentials.
"""

from __future__ import annotations

import glob
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from envspec.base import programs
from envspec.base.errors import ToolError
from envspec.base.progress import Progress
from envspec.base.redact import redact
from envspec.binaries.wheel import InstalledWheel, paths_of_wheel, untrue_rows
from envspec.install.build import WheelBuilder, refuse_code, refuse_other_build, refuse_other_wheels
from envspec.install.collect import Collector, Paths, with_plain_names
from envspec.install.inside import cannot_exist, stays_inside
from envspec.install.installed import Dist, files_of, leave_unsaid, record_direct_url, recorded_files, site_packages
from envspec.install.interpreter import python_of
from envspec.lock.conda_files import artifact_of, file_key
from envspec.lock.formats.requirements import build_constraints
from envspec.lock.model import Pin
from envspec.lock.shared_paths import overwrites, pip_order, shared_paths, waves
from envspec.lock.toml_text import inline_strings, key, value
from envspec.resolve.uv.errors import failure
from envspec.resolve.uv.program import Uv, end

_ERROR = re.compile(r"^error:", re.MULTILINE)
_SUBDIRECTORY = re.compile(r"subdirectory=[A-Za-z0-9_./-]+")
_PATIENCE = {"UV_HTTP_TIMEOUT": "86400"}
"""The index proxy fetches a file whole before it answers, and gives up who is too slow by itself."""


class PipInstaller(Struct, frozen=True):
    """uv for one prefix.

    collector  brings the files
    builder    builds what is compiled against the environment
    scratch    an empty folder for uv's input
    held       the descriptor that holds the prefix; uv inherits it, so that where a system can't end a uv whose envspec
               was killed, others stay out until it has ended
    loose      uv's variables for builds of which the lock doesn't say with what
    """

    uv: Uv
    prefix: Path
    collector: Collector
    builder: WheelBuilder
    scratch: Path
    held: int
    progress: Progress
    loose: Mapping[str, str]

    def install(
        self, label: str, pins: Sequence[Pin], damaged: Collection[str], done: Callable[[Sequence[Pin]], None]
    ) -> tuple[str, ...]:
        """Install pins of the target `label`, replacing whatever version is there. `done` is called with those that are
        in place. Returns the faults of their files that did no harm.

        `damaged` are names whose files had changed: they may have been uv's own, for it links out of its cache, so that
        these are unpacked anew.

        Raises IndexFailure for a file that isn't there, has another hash or can't be unpacked safely, ToolError,
        StorageError, InputError.
        """
        files = self._collect([pin for pin in pins if pin.git is None])
        refuse_other_wheels(self.builder.rules.target, pins, files)
        groups: dict[tuple[str, int, bool], list[Pin]] = {}
        wave = self._waves(pins, files)
        compiled = [pin for pin in pins if self.builder.rules.builds(pin)]
        for pin in pins:
            if pin in compiled:
                continue
            # a source by itself: no other has its build's constraints
            source = "" if pin.is_wheel else pin.name
            groups.setdefault((source, wave.get(pin.name, 0), pin.name in damaged), []).append(pin)
        for (source, number, fresh), group in sorted(groups.items()):
            self.progress.phase(
                f"pip: the source of {source}" if source else f"pip: {len(group)} wheel{'s' * (len(group) > 1)}"
            )
            place = self.scratch / f"{f'source-{source}' if source else f'wheels-{number}'}{'-anew' * fresh}"
            # uv keeps what it builds by its source alone, whatever it was built with
            cache = ["--cache-dir", str(place / "cache")] if fresh or source else []
            self._install(label, group, files, place, cache)
            self._record_origins(group, done)
        for pin in self.builder.rules.in_order(compiled):
            self._install_source(label, pin, files, fresh=pin.name in damaged)
            self._record_origins([pin], done)
        return tuple(self._mend_records(pins, files))

    def _mend_records(self, pins: Sequence[Pin], files: Paths) -> Iterator[str]:
        """Remove the wrong values of wheels' RECORDs from the environment's, and yield a note on each."""
        for pin in pins:
            path = files[file_key(pin)] if pin.is_wheel and file_key(pin) in files else None
            if path is None or not (places := untrue_rows(path)):
                continue
            leave_unsaid(pin, places, self.prefix, self.builder.rules.target.inputs.python)
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            yield (
                f"{artifact_of(pin).file} says a wrong size of its {min(places)}{more} in its RECORD: the file of this"
                f" hash is installed, and other tools may call {pin.name} damaged; tell its publisher"
            )

    def _waves(self, pins: Sequence[Pin], files: Paths) -> Mapping[str, int]:
        """Number the wheels that overwrite files of others by when they are installed: uv installs those of one call
        side by side."""
        wheels = {pin.name: files[file_key(pin)] for pin in pins if pin.is_wheel and file_key(pin) in files}
        order = [name for name in pip_order(self.builder.rules.target) if name in wheels]
        parts = waves(order, overwrites(shared_paths((name, paths_of_wheel(wheels[name])) for name in order)))
        return {name: number for number, names in enumerate(parts) for name in names}

    def _refuse_other_builds(self, pins: Sequence[Pin]) -> None:
        """Refuse what uv built into the environment for another CUDA than the target's: the next run builds it anew."""
        target = self.builder.rules.target
        for pin in pins:
            if not pin.is_wheel:
                site = site_packages(self.prefix, target.inputs.python)
                refuse_other_build(target, pin, InstalledWheel(site, files_of(pin, self.prefix, target.inputs.python)))

    def _record_origins(self, pins: Sequence[Pin], done: Callable[[Sequence[Pin]], None]) -> None:
        self._refuse_other_builds(pins)
        for pin in pins:
            record_direct_url(pin, self.prefix, self.builder.rules.target.inputs.python)
        done(pins)

    def _install_source(self, label: str, pin: Pin, files: Paths, *, fresh: bool) -> None:
        """Install a source that is compiled against the environment, which has all its wheels by now."""
        place = self.scratch / f"built-{pin.name}"
        place.mkdir(exist_ok=True)
        # what uv keeps of a wheel's file is of its path and time, and the cache of a build would be another torch's
        cache = ["--cache-dir", str(place / "cache")] if fresh or pin.git else []
        command = ["--no-deps", f"--reinstall-package={pin.name}", "--no-config", *cache]
        if pin.git:
            command += ["--no-build-isolation", f"{pin.name} @ git+{pin.git.address}"]
        else:
            wheel = self.builder.wheel(pin, files[file_key(pin)])
            # by name: of a path, uv would record that it came from there
            command += ["--no-index", "--offline", "--find-links", str(wheel.parent), pin.name]
        python = python_of(self.prefix)
        more = {**_PATIENCE, **(self.builder.variables(python) if pin.git else {})}
        status, output = self._run(["pip", "install", "--python", str(python), *command], place, more)
        if status:
            raise failure(status, output, label=label, offline=self.uv.offline)

    def _collect(self, pins: Sequence[Pin]) -> Paths:
        return self.collector.collect(pins) if pins else {}

    def _install(
        self, label: str, pins: Sequence[Pin], files: Paths, place: Path, options: Sequence[str], *, again: bool = True
    ) -> None:
        place.mkdir(exist_ok=True)
        built_with = self._collect([wheel for pin in pins for wheel in self.builder.rules.target.build_wheels(pin)])
        for pin in (pin for pin in pins if pin.is_inert):
            refuse_code(pin, files[file_key(pin)])
        files = with_plain_names(pins, files, place / "variants")
        (place / "requirements.txt").write_text("".join(_requirements(pins, files)), encoding="utf-8")
        (place / "uv.toml").write_text(self._configuration(pins, files, built_with), encoding="utf-8")
        command = [
            "pip", "install", "--config-file", "uv.toml", "--python", str(python_of(self.prefix)),
            "--no-deps", "--requirements", "requirements.txt",
            "--only-binary", ":all:", *(f"--no-binary={pin.name}" for pin in pins if not pin.is_wheel),
            *(f"--reinstall-package={pin.name}" for pin in pins), *options,
        ]  # fmt: skip
        git = any(pin.git for pin in pins)
        if not git:
            command.append("--require-hashes")
        # of a lock before there were build environments, whose reader was warned: its build asks the index
        loose = not all(pin.is_wheel or pin.built_with is not None for pin in pins)
        more = self.loose if loose else {} if git else self.uv.cut_off("127.0.0.1")
        if not loose and not all(pin.is_wheel for pin in pins):
            (place / "build-constraints.txt").write_text(build_constraints(pins), encoding="utf-8")
            command += ["--build-constraints", "build-constraints.txt", "--require-build-hashes"]
        # git and such builds alone go to the network
        command += [] if loose else ["--no-index"]
        command += [] if (git or loose) and not self.uv.offline else ["--offline"]
        status, output = self._run(command, place, more)
        if status == 0:
            return
        # what it did so far comes first
        problem = _ERROR.search(output)
        error = failure(status, output[problem.start() :] if problem else output, label=label, offline=self.uv.offline)
        if again and "Hash mismatch" in error.message:
            # something in the cache isn't what was fetched any more
            fresh = replace(self.collector, again=True).collect([pin for pin in pins if pin.git is None])
            return self._install(label, pins, fresh, place, options, again=False)
        raise error

    def _configuration(self, pins: Sequence[Pin], files: Paths, built_with: Paths) -> str:
        own = (files[file_key(pin)] for pin in pins if _is_of_an_index(pin))
        folders = dict.fromkeys(str(path.parent) for path in (*own, *built_with.values()))
        links = f"find-links = {inline_strings(folders)}\n"
        return links + "".join(f"{key(name)} = {value(setting)}\n" for name, setting in self.uv.settings.items())

    def _run(self, command: Sequence[str], place: Path, more: Mapping[str, str]) -> tuple[int, str]:
        """Run uv and report its progress; return its status and its output."""
        env = {**self.uv.environment(), **more}
        lines: list[str] = []
        try:
            process = programs.start(
                [self.uv.executable, *command], env, place,
                streams=programs.Streams(stdout=subprocess.DEVNULL), pass_fds=[self.held], first=_die_with_parent(),
            )  # fmt: skip
        except OSError as error:
            raise ToolError(f"uv can't be started: {error}", hint="reinstall envspec: uv comes with it") from None
        assert process.stderr is not None  # a pipe, as asked for
        reader = threading.Thread(target=self._listen, args=(process.stderr, lines), daemon=True)
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
        return process.returncode, "".join(lines)

    def _listen(self, stream: IO[bytes], lines: list[str]) -> None:
        with stream:
            for line in (raw.decode(errors="replace") for raw in stream):
                lines.append(line)
                words = line.lstrip()
                if words.startswith(("Downloading", "Downloaded", "Prepared", "Installed", "Building", "Built")):
                    self.progress.advance(detail=" ".join(redact(line).split()))


def _die_with_parent() -> Callable[[], object] | None:
    """Make Linux kill this child when its parent is killed; runs in the child before exec."""
    if sys.platform != "linux":
        return None
    import ctypes

    prctl = ctypes.CDLL(None).prctl
    # PR_SET_PDEATHSIG of prctl(2)
    return lambda: prctl(1, signal.SIGKILL)


def pip_check(prefix: Path, uv: Uv, variants: Collection[str] = ()) -> tuple[str, ...]:
    """List the findings of `pip check` for a prefix, one line each; none without a Python. `variants` are the packages
    whose METADATA may have markers about variants, which uv doesn't read yet: the lock's own judgement covers them."""
    python = python_of(prefix)
    if not python.exists():
        return ()
    ran = uv.run(["pip", "check", "--no-config", "--python", str(python)], cwd=Path("/"))
    if ran.returncode == 0:
        return ()
    lines = [line.strip() for line in ran.stderr.splitlines()]
    unread = tuple(f"The package `{name}` is broken or incomplete" for name in variants)
    problems = tuple(line for line in lines if line.startswith("The package"))
    return tuple(line for line in problems if not line.startswith(unread)) if problems else (" ".join(lines)[:500],)


def uninstall(dist: Dist, prefix: Path, retained: Collection[str] = ()) -> None:
    """Remove a pip package: the files in its RECORD except `retained`, their bytecode, and folders that become empty.

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
        if str(path) in retained:
            continue
        try:
            path.unlink(missing_ok=True)
        except (OSError, ValueError) as error:
            if not (cannot_exist(error) or path.is_dir()):
                raise
            continue
        for parent in path.parents:
            if parent in folders or prefix not in parent.parents:
                break
            folders.add(parent)
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


def _is_of_an_index(pin: Pin) -> bool:
    """Return whether a pin's file has a name by the rules of indexes. A file at a URL may have any name."""
    return pin.git is None and pin.url is None


def _within(url: str) -> str:
    """Give the fragment that names a project's folder in an archive, where the URL of a pin has one."""
    fragment = url.partition("#")[2]
    return f"#{fragment}" if _SUBDIRECTORY.fullmatch(fragment) and ".." not in fragment.split("/") else ""


def _requirements(pins: Sequence[Pin], files: Paths) -> Iterator[str]:
    for pin in pins:
        if pin.git:
            yield f"{pin.name} @ git+{pin.git.address}\n"
            continue
        direct = f"{pin.name} @ {files[file_key(pin)].as_uri()}{_within(pin.url)}" if pin.url else ""
        what = direct or f"{pin.name}=={pin.version}"
        yield f"{what} --hash=sha256:{artifact_of(pin).sha256}\n"
