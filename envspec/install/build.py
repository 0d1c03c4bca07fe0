"""Wheels of packages that are compiled against the environment: built once a set of all that shapes them.

A build sees wheels of the lock and nothing else: an environment of its own with what the spec's `build-dependencies`
name and what that requires, or, with `no-build-isolation`, the environment itself. It knows the target's GPUs, never
those of the machine. What is built is kept under a key of the source, of every package that the build saw, and of
Python, platform, glibc and GPUs: another torch is another wheel.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from envspec.artifacts.sdist.static_source import runs_code
from envspec.base.cache import touch
from envspec.base.documents import Unreadable, read_toml
from envspec.base.errors import AnswerNo, EnvspecError, InputError, LockError, ToolError
from envspec.base.finding import Finding
from envspec.base.progress import Progress
from envspec.base.storage import storage_error
from envspec.binaries.build_notes import build_notes
from envspec.binaries.device_code import device_code
from envspec.binaries.wheel import OpenWheel, UnreadableWheel, open_wheel
from envspec.export.environment import build_variables, refuse_unknown_gpus
from envspec.facts.torch_builds import is_own_build
from envspec.install.collect import Paths
from envspec.install.host import InstallHost
from envspec.install.interpreter import make_virtual_environment, python_of
from envspec.install.model import identity
from envspec.lock.conda_files import artifact_of
from envspec.lock.formats.requirements import build_constraints
from envspec.lock.graph import Graph
from envspec.lock.model import LockedTarget, Pin
from envspec.lock.variant_build import built_version
from envspec.net.file_store import sha256_of
from envspec.packages.archive_entries import TarMember
from envspec.packages.edges import markers_of
from envspec.packages.names import requirement_name
from envspec.packages.requirement import is_requirement
from envspec.resolve.pip.answer import prefix
from envspec.resolve.uv.errors import build_failure, machine_error
from envspec.resolve.uv.program import Uv
from envspec.rules.case import hint_to_keep, of_target
from envspec.rules.pins import judge_build
from envspec.rules.wheel_code import WheelBuild
from envspec.spec.model import Spec

FOLDER = "built-v1"
"""The folder of built wheels, below envspec's cache."""
_DEFAULT_REQUIRES = ("setuptools",)
"""The build requirements of a source without [build-system] (PEP 517)."""
_BYTES_A_JOB = 4 << 30
"""Memory for one compiler at a time: CUDA's takes up to 4 GB for templates of attention kernels."""
_TEXT = 1 << 20
EPOCH = "315532800"
"""1980-01-01, the first day that a wheel's entries can have, as seconds since 1970."""


class BuildRules(Struct, frozen=True):
    """A spec's rules for builds, for one target.

    needs  by package, what its build sees
    whole  packages whose builds see the whole environment
    """

    target: LockedTarget
    needs: Mapping[str, tuple[str, ...]]
    whole: frozenset[str]

    @staticmethod
    def of(spec: Spec, target: LockedTarget) -> BuildRules:
        terms = spec.terms_of(target.name)
        needs = {name: tuple(line.text for line in lines) for name, lines in terms.build_dependencies.items()}
        # a virtual environment doesn't see conda's packages
        conda = frozenset(needs) if any(pin.kind == "conda" for pin in target.pins) else frozenset()
        return BuildRules(target, needs, terms.no_build_isolation | conda)

    def concerns(self, pin: Pin) -> bool:
        """Return whether a package is built by these rules."""
        return pin.kind == "pip" and not pin.is_wheel and (pin.name in self.needs or pin.name in self.whole)

    def builds(self, pin: Pin) -> bool:
        """Return whether a package's wheel is built from a file of an index; what git and URLs give, uv builds."""
        return self.concerns(pin) or (pin.built_with is not None and pin.git is None and pin.url is None)

    def visible_pins(self, pin: Pin) -> tuple[Pin, ...]:
        """List the pins that the build of a package sees, by name: what the lock has for it, or what the spec says."""
        if pin.built_with is not None:
            return self.target.build_wheels(pin)
        if pin.name in self.whole:
            return tuple(visible for visible in self.target.pins if visible.is_wheel or visible.kind == "conda")
        graph = Graph.of(self.target, self.needs[pin.name])
        return tuple(
            graph.pins[node] for node in sorted(graph.outgoing) if node.kind == "pip" and node.name != pin.name
        )

    def key(self, pin: Pin, host: InstallHost) -> str:
        """Return the key of all that shapes a built wheel."""
        inputs = self.target.inputs
        parts = {
            "source": identity(pin),
            "sees": [
                (visible.kind, visible.name, visible.version, identity(visible)) for visible in self.visible_pins(pin)
            ],
            "whole": pin.name in self.whole,
            "python": inputs.python,
            "host": (host.platform, host.glibc),
            "variables": sorted(build_variables(self.target).items()),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def keys(self, host: InstallHost) -> dict[str, str]:
        """Return the key of each package of the target that is built here."""
        return {pin.name: self.key(pin, host) for pin in self.target.pins if self.builds(pin)}

    def in_order(self, pins: Sequence[Pin]) -> list[Pin]:
        """Put pins in an order in which each comes after those that it requires."""
        left = {pin.name: pin for pin in pins}
        ordered: list[Pin] = []
        while left:
            needed = {name: self._requirements(pin) & left.keys() - {name} for name, pin in left.items()}
            # of packages that require each other, the first by name
            name = min(left, key=lambda candidate: (len(needed[candidate]), candidate))
            ordered.append(left.pop(name))
        return ordered

    def _requirements(self, pin: Pin) -> set[str]:
        lines = (*pin.dependencies, *self.needs.get(pin.name, ()))
        return {node.name for node in Graph.of(self.target, lines).outgoing}


class BuiltWheels(Struct, frozen=True):
    """The wheels that were built before, below envspec's `cache`, each under the key of all that shaped it."""

    cache: Path

    def find(self, key: str) -> Path | None:
        """Find a wheel that was built before; None if it isn't whole. Raises OSError."""
        place = self._place(key)
        for note in place.glob("*.whl.sha256"):
            wheel = note.with_suffix("")
            if wheel.is_file() and note.read_text(encoding="ascii") == sha256_of(wheel):
                touch(place)
                return wheel
        return None

    def keep(self, key: str, built: Path) -> Path:
        """Keep a wheel that lies alone in a folder; gives its place. Raises StorageError."""
        place = self._place(key)
        try:
            (built.parent / f"{built.name}.sha256").write_text(sha256_of(built), encoding="ascii")
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                # what lay there wasn't whole, or another envspec was faster
                shutil.rmtree(place)
            # the scratch folder may be on another disk
            moved = place.with_name(f"{place.name}.{secrets.token_hex(4)}.partial")
            shutil.move(built.parent, moved)
            moved.replace(place)
        except OSError as error:
            raise storage_error(error, place, option="ENVSPEC_CACHE_DIR") from None
        return place / built.name

    def _place(self, key: str) -> Path:
        return self.cache / FOLDER / key


class WheelBuilder(Struct, frozen=True):
    """A builder of wheels for one prefix.

    collect  brings the files of pins
    cache    envspec's cache
    scratch  an empty folder
    """

    rules: BuildRules
    uv: Uv
    prefix: Path
    host: InstallHost
    collect: Callable[[Sequence[Pin]], Paths]
    cache: Path
    scratch: Path
    progress: Progress

    def wheel(self, pin: Pin, source: Path) -> Path:
        """Give the wheel of a source, built now or before. Raises InputError, ToolError, StorageError."""
        if self.rules.concerns(pin) or any(build_pin.name == "torch" for build_pin in pin.built_with or ()):
            refuse_unknown_gpus(pin.name, self.rules.target)
        wheels, key = BuiltWheels(self.cache), self.rules.key(pin, self.host)
        cached = wheels.find(key)
        if cached is not None:
            return cached
        refuse_code(pin, source)
        if pin.built_with is None:
            self._refuse_missing_requirements(pin, source)
        try:
            folder = Path(tempfile.mkdtemp(dir=self.scratch))
            if pin.built_with is not None:
                built = self._build(
                    pin, source, self._base(folder / "env"), folder, self._isolation_options(pin, folder)
                )
            elif pin.name in self.rules.whole:
                built = self._build(pin, source, python_of(self.prefix), folder)
            else:
                python = self.environment(pin.name, self.rules.visible_pins(pin), folder / "env")
                built = self._build(pin, source, python, folder)
        except OSError as error:
            raise storage_error(error, self.scratch, option="ENVSPEC_CACHE_DIR") from None
        with built.open("rb") as file, open_wheel(file) as wheel:
            refuse_other_build(self.rules.target, pin, wheel)
        return wheels.keep(key, built)

    def variables(self, python: Path) -> dict[str, str]:
        """Return the variables of a build beside uv's own."""
        return variables_of(self.rules.target, self.uv, python)

    def _refuse_missing_requirements(self, pin: Pin, source: Path) -> None:
        """Refuse a build whose own requirements the lock doesn't have: it would fail without naming them."""
        inputs = self.rules.target.inputs
        holds = markers_of(inputs.platform, inputs.full_python).hold
        seen = {name for visible in self.rules.visible_pins(pin) for name in (visible.name, *visible.provides)}
        lines = [line for line in _requires(source) if is_requirement(line) and holds(line)]
        missing = [line for line in lines if requirement_name(line) not in seen]
        if missing:
            dependencies = json.dumps([*self.rules.needs.get(pin.name, ()), *missing])
            own = f"add to [pip], then lock again: build-dependencies = {{ {pin.name} = {dependencies} }}"
            message = f"the build of {pin.name} {pin.version} needs {', '.join(missing)}, which it wouldn't see"
            raise InputError(message, hint=own)

    def environment(self, name: str, seen: Sequence[Pin], folder: Path) -> Path:
        """Make the environment of an isolated build, of the lock's wheels, each by its hash; gives its Python. `name`
        is whose build it is. Raises InputError, ToolError."""
        wheels = [pin for pin in seen if pin.is_wheel]
        files = self.collect([pin for pin in seen if pin.artifact])
        built = [self.wheel(pin, files[pin.index, artifact_of(pin).file]) for pin in seen if self.rules.builds(pin)]
        other = [pin.name for pin in seen if not pin.is_wheel and not self.rules.builds(pin)]
        if other:
            hint = f'add to [pip]: no-build-isolation = ["{name}"]'
            raise InputError(f"the build of {name} needs {', '.join(other)}, which is a source itself", hint=hint)
        python = self._base(folder)
        lines = [f"{pin.name} @ {files[pin.index, artifact_of(pin).file].as_uri()}" for pin in wheels]
        lines = [f"{line} --hash=sha256:{artifact_of(pin).sha256}" for line, pin in zip(lines, wheels, strict=True)]
        lines += [f"{wheel.name.split('-')[0]} @ {wheel.as_uri()} --hash=sha256:{sha256_of(wheel)}" for wheel in built]
        requirements = folder / "requirements.txt"
        requirements.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self._uv(
            [
                *("pip", "install", "--no-config", "--python", str(python), "--no-deps", "--no-index", "--offline"),
                *("--require-hashes", "--only-binary", ":all:", "--requirements", str(requirements)),
            ],
            folder,
            {},
            f"the environment for the build of {name}",
        )
        return python

    def _base(self, folder: Path) -> Path:
        """Make an empty environment of the Python that builds are for; gives its own."""
        make_virtual_environment(
            folder, self.rules.target.inputs.python, self.uv.env, self.uv, interpreter=python_of(self.prefix)
        )
        return python_of(folder)

    def _isolation_options(self, pin: Pin, folder: Path) -> list[str]:
        """Give uv's options for a build that gets the lock's files for it, each by its hash, and nothing else."""
        try:
            files = self.collect(self.rules.visible_pins(pin))
        except EnvspecError as error:
            raise prefix(error, f"the build of {pin.name}") from None
        constraints = folder / "built-with.txt"
        constraints.write_text(build_constraints([pin]), encoding="utf-8")
        links = dict.fromkeys(f"--find-links={path.parent}" for path in files.values())
        return ["--no-index", "--build-constraints", str(constraints), "--require-hashes", *links]

    def _build(
        self, pin: Pin, source: Path, python: Path, folder: Path, sees: Sequence[str] = ("--no-build-isolation",)
    ) -> Path:
        # what it is built with was fetched meanwhile
        self.progress.phase(f"building {pin.name} {pin.version}")
        out = folder / "out"
        temporary = folder / "tmp"
        temporary.mkdir()
        # what the lock has for a build is all that it gets
        cut_off = self.uv.cut_off("127.0.0.1") if pin.built_with is not None else {}
        self._uv(
            [
                *("build", "--wheel", *sees, "--no-config", "--offline"),
                *("--python", str(python), "--out-dir", str(out), str(source)),
            ],
            folder,
            # the same files make the same wheel, as far as its backend knows how
            {"SOURCE_DATE_EPOCH": EPOCH, **self.variables(python), **cut_off, "TMPDIR": str(temporary)},
            f"the build of {pin.name} {pin.version}",
        )
        wheels = list(out.glob("*.whl"))
        if len(wheels) != 1:
            message = f"the build of {pin.name} {pin.version} made {len(wheels)} wheels instead of one"
            raise ToolError(message, hint="report this to the package's authors")
        # uv leaves a .gitignore
        for other in out.iterdir():
            if other != wheels[0]:
                other.unlink()
        return wheels[0]

    def _uv(self, command: Sequence[str], folder: Path, more: Mapping[str, str], what: str) -> None:
        done = self.uv.run(command, cwd=folder, more=more)
        if killed := machine_error(done.returncode, done.stderr, what):
            raise killed
        if done.returncode:
            raise ToolError(
                f"{what} failed: {build_failure(done.stderr)}",
                hint="a missing module belongs in [pip] build-dependencies; a missing program (a compiler, nvcc, swig) "
                "on this machine, and for images in [image] build-apt",
            )


def refuse_code(pin: Pin, source: Path) -> None:
    """Refuse to build a source that the lock calls inert, but whose build may run code of its own: the spec doesn't
    permit that build. Raises LockError, IndexFailure."""
    if pin.is_inert and runs_code(source, pin.name, pin.version):
        raise LockError(
            f"{source.name}: the lock says that its build runs no code of its own, and it may run some",
            hint="look at who changed the lock; `envspec lock SPEC --upgrade-package "
            f"{pin.name}` judges the source anew",
        )


def variables_of(target: LockedTarget, uv: Uv, python: Path) -> dict[str, str]:
    """Return the variables of builds for a target beside uv's own: its GPUs, as many compilers as fit, no package of
    this machine. `python` is the one of the environment that they see."""
    env = uv.environment()
    jobs = {} if env.get("MAX_JOBS") else {"MAX_JOBS": str(_jobs())}
    own = dict(build_variables(target))
    if env.get("CUDA_HOME"):
        own.pop("CUDA_HOME", None)
    path = f"{python.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    return {**jobs, **own, "PATH": path, "PYTHONNOUSERSITE": "1", "PYTHONPATH": ""}


def _jobs() -> int:
    """Count the compilers that fit into this machine's memory and cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores, memory // _BYTES_A_JOB))


def _requires(source: Path) -> tuple[str, ...]:
    """Read the [build-system] requires of an sdist that was looked through before."""
    try:
        with tarfile.open(source, tarinfo=TarMember) as archive:
            for member in archive:
                if member.isfile() and member.name.count("/") == 1 and member.name.endswith("/pyproject.toml"):
                    file = archive.extractfile(member)
                    table = read_toml(file.read(_TEXT).decode("utf-8", "replace")) if file else {}
                    system = table.get("build-system", {})
                    lines = system.get("requires", _DEFAULT_REQUIRES) if isinstance(system, dict) else ()
                    return tuple(filter(lambda line: isinstance(line, str), lines)) if lines else ()
    except (tarfile.TarError, OSError, EOFError, Unreadable):
        return ()
    return _DEFAULT_REQUIRES


def refuse_other_build(target: LockedTarget, pin: Pin, wheel: OpenWheel) -> None:
    """Refuse a source's built wheel that is for another CUDA than the target's, or for none: a lock only knows the
    source's requirements. Raises AnswerNo, ToolError for a wheel that can't be read."""
    try:
        finding = _other_build(target, pin, wheel)
    except UnreadableWheel as error:
        raise ToolError(f"{pin.name} was built into a wheel that can't be read: {error}") from None
    if finding is not None:
        raise AnswerNo(
            f"{pin.name} was built here, and isn't what the target is for: {finding.message}",
            hint="give its build the CUDA of the target: `[image] build-env`, or the variables and the toolkit of "
            "this machine; a build that was refused isn't kept",
        )


def refuse_other_wheels(target: LockedTarget, pins: Iterable[Pin], files: Paths) -> None:
    """Refuse the user's own builds, fetched as wheels, that are for another CUDA than the target's, or for none. `lock`
    accepts no such wheel, and `check`, which has no wheel, can't see it. A wheel that can't be read passes, as in
    `lock`. Raises AnswerNo."""
    for pin in pins:
        if pin.kind != "pip" or not pin.is_wheel or not is_own_build(pin.version, pin.index):
            continue
        file = artifact_of(pin).file
        with files[pin.index, file].open("rb") as content, suppress(UnreadableWheel), open_wheel(content) as wheel:
            finding = _other_build(target, pin, wheel)
            if finding is not None:
                ways = [f"`envspec lock SPEC --upgrade-package {pin.name}` takes one that is", hint_to_keep(finding)]
                message = f"{file} isn't what the target {target.name} is for: {finding.message}"
                raise AnswerNo(message, hint="; ".join(filter(None, ways)))


def _other_build(target: LockedTarget, pin: Pin, wheel: OpenWheel) -> Finding | None:
    """Judge a wheel by its binaries; give the first error that the spec doesn't accept. Raises UnreadableWheel."""
    inputs = target.inputs
    if inputs.cuda is None or not any(wheel.find(r".*\.(?:so|pyd|dll)")):
        return None
    case = of_target(inputs.platform, inputs.python, inputs.cuda, inputs.gpus, None, inputs.glibc or "")
    build = WheelBuild(build_notes(wheel), device_code(wheel))
    findings = judge_build(case, pin.name, {locked.name: built_version(locked) for locked in target.pins}, build)
    refused = (
        finding for finding in findings if finding.severity == "error" and not inputs.accepts(finding.code, pin.name)
    )
    return next((replace(finding, package=pin.name) for finding in refused), None)
