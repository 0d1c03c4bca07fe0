"""A spec's own project in an environment: built with the lock's packages, and installed last, without dependencies.

A compiled project is built once: its wheel is valid for as long as its files and the inputs of its build stay.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import ToolError
from envspec.base.progress import Progress
from envspec.base.redact import redact
from envspec.export.environment import VERSIONED, build_names, build_variables, is_compiled, refuse_unknown_builds
from envspec.install.build import EPOCH, BuiltWheels, WheelBuilder, variables_of
from envspec.install.host import InstallHost
from envspec.install.interpreter import python_of
from envspec.install.model import identity
from envspec.lock.graph import Graph
from envspec.lock.model import LockedTarget
from envspec.net.file_store import sha256_of
from envspec.resolve.uv.errors import build_failure, machine_error
from envspec.resolve.uv.program import Uv
from envspec.spec.model import Project, Spec
from envspec.spec.project import project_location

_MARK = "project:"
"""The prefix of the identity of a project's wheel."""
_BYTES, _A_FILE = 256 << 20, 8 << 10
"""Bytes of a project's files that are read to see whether it changed, and what each file costs beside its bytes."""


class BuiltProject(Struct, frozen=True):
    """A project's wheel, and its identity: two wheels of the same files have the same."""

    name: str
    wheel: Path
    identity: str


class ProjectBuild(Struct, frozen=True):
    """A project to build for a target.

    python   of the environment that it is built in
    scratch  a folder for the wheel
    """

    spec: Spec
    project: Project
    target: LockedTarget
    python: Path
    uv: Uv
    scratch: Path
    progress: Progress


def build_project_once(build: ProjectBuild, wheels: BuiltWheels, host: InstallHost) -> BuiltProject:
    """Give the wheel of a project, built as `build_project` does or before. Its scratch lies where `wheels` do."""
    key = project_key(build.spec, build.project, build.target, host)
    if key is not None and (cached := wheels.find(key)) is not None:
        return _describe_wheel(build.project, cached)
    built = build_project(build)
    if key is None:
        return built
    for other in built.wheel.parent.iterdir():
        # uv leaves a .gitignore
        if other != built.wheel:
            other.unlink()
    return replace(built, wheel=wheels.keep(key, built.wheel))


def project_key(spec: Spec, project: Project, target: LockedTarget, host: InstallHost) -> str | None:
    """Return the key of all that shapes a compiled project's wheel: its files, the environment, Python, platform, GPUs.

    None for a project that is built at once, for a project whose version is git's, and for a folder that is too large
    to be read each time. Raises OSError.
    """
    names = build_names(project)
    if not is_compiled(project) or names & VERSIONED:
        return None
    files = _files_digest(project_location(spec).path)
    if files is None:
        return None
    parts = {
        "files": files,
        "sees": [(pin.kind, pin.name, pin.version, identity(pin)) for pin in target.pins],
        "python": target.inputs.python,
        "host": (host.platform, host.glibc),
        "variables": sorted(build_variables(target).items()),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _files_digest(folder: Path) -> str | None:
    """Digest a project's files: names and content. What tools keep beside it (.git, .venv, caches) doesn't count."""
    digest, left = hashlib.sha256(), _BYTES
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_own(Path(where, name)))
        for name in sorted(files):
            path = Path(where, name)
            if not path.is_file():
                continue
            left -= path.stat().st_size + _A_FILE
            if left < 0:
                return None
            digest.update(f"{path.relative_to(folder)}\0{path.stat().st_mode & 0o111}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _is_own(folder: Path) -> bool:
    aside = folder.name.startswith(".") or folder.name == "__pycache__" or folder.name.endswith(".egg-info")
    return not aside and not (folder / "pyvenv.cfg").exists()


def build_project(build: ProjectBuild) -> BuiltProject:
    """Build the wheel of a project with the build backend of an environment, without network. Raises ToolError,
    InputError for a project that is compiled for unknown GPUs, and SpecError for a folder outside the spec's."""
    project, target, python, uv, scratch = build.project, build.target, build.python, build.uv, build.scratch
    refuse_unknown_builds(project, target)
    build.progress.phase(f"building {project.name}")
    location = project_location(build.spec)
    with location.open():
        # no link on the way
        pass
    out = Path(tempfile.mkdtemp(dir=scratch))
    # setuptools would build in the project's own folder, and pack what is left there of modules that are gone
    settings = scratch / "setuptools.cfg"
    settings.write_text(f"[build]\nbuild_base = {scratch / 'build'}\n", encoding="utf-8")
    done = uv.run(
        [
            *("build", "--wheel", "--no-build-isolation", "--no-config", "--offline"),
            *("--python", str(python), "--out-dir", str(out), str(location.path)),
        ],
        cwd=out,
        # the same files make the same wheel
        more={"SOURCE_DATE_EPOCH": EPOCH, "DIST_EXTRA_CONFIG": str(settings), **variables_of(target, uv, python)},
    )
    wheels = list(out.glob("*.whl"))
    if killed := machine_error(done.returncode, done.stderr, f"{project.file}: the build of {project.name}"):
        raise killed
    if done.returncode or len(wheels) != 1:
        hint = "a missing module belongs in [build-system] requires, which the lock then has"
        raise ToolError(f"{project.file}: the build of {project.name} failed: {build_failure(done.stderr)}", hint=hint)
    return _describe_wheel(project, wheels[0])


def _describe_wheel(project: Project, wheel: Path) -> BuiltProject:
    with zipfile.ZipFile(wheel) as archive:
        record = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
        lines = sorted(archive.read(record).decode("utf-8", "replace").splitlines())
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return BuiltProject(project.name, wheel, f"{_MARK}{digest}")


def build_for_bundle(spec: Spec, project: Project, builder: WheelBuilder) -> Path:
    """Build the wheel of a project for another machine, in an environment of its build requirements. Raises as
    `build_project`."""
    target = builder.rules.target
    reached = Graph.of(target, build_names(project)).outgoing
    seen = [pin for pin in target.pins if pin.kind == "pip" and pin.name in {node.name for node in reached}]
    python = builder.environment(project.name, seen, builder.scratch / "env")
    build = ProjectBuild(spec, project, target, python, builder.uv, builder.scratch, builder.progress)
    return build_project(build).wheel


def install_project(built: BuiltProject, prefix: Path, uv: Uv, scratch: Path) -> None:
    """Install a project's wheel in place of an older one. Raises ToolError."""
    done = uv.run(
        [
            *("pip", "install", "--no-config", "--no-deps", "--no-index", "--offline", "--quiet"),
            *("--cache-dir", str(scratch / "cache"), "--reinstall"),
            # by name: of a path, uv would record that it came from there
            *("--python", str(python_of(prefix)), "--find-links", str(built.wheel.parent), built.name),
        ],
        cwd=scratch,
    )
    if killed := machine_error(done.returncode, done.stderr, f"{built.name}: uv"):
        raise killed
    if done.returncode:
        message = " ".join(redact(done.stderr).split())[-600:]
        raise ToolError(f"{built.name} can't be installed: {message}", hint="check its build backend's settings")
