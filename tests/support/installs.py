"""Locks for the tests of `envspec install`, made from packages that lie in a loopback index and a channel folder."""

import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Artifact, Lock, Pin
from envspec.lock.store import LockFolder
from envspec.packages.names import requirement_name
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec
from support.index import Index
from support.machine import Machine, Ran
from support.packages import Dist
from support.sound import sound_target

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SUBDIR = {("Linux", "x86_64"): "linux-64", ("Linux", "aarch64"): "linux-aarch64", ("Darwin", "arm64"): "osx-arm64"}[
    platform.system(), platform.machine()
]
GLIBC = "2.17"
SPEC = "specs/demo.toml"


def pip_pin(dist: Dist, index: str = "pypi") -> Pin:
    return Pin("pip", dist.name, dist.version, index, Artifact(dist.file, dist.sha256, len(dist.content)), direct=True)


def brought_in(dist: Dist, by: Dist) -> list[Pin]:
    """The pins of a package that the spec asks for, and of one that it requires."""
    return [replace(pip_pin(by), dependencies=(dist.name,)), replace(pip_pin(dist), direct=False)]


def write_lock(
    machine: Machine,
    targets: Mapping[str, Sequence[Pin]] | Sequence[Pin],
    *,
    python: str = PYTHON,
    platform: str = SUBDIR,
    glibc: str | None = GLIBC,
    channels: Sequence[str] = (),
    pip: str = "",
    name: str = "demo",
) -> Lock:
    """A spec with targets that ask for these pins, and its lock. One target, `here`, unless they are given by name.

    `pip` is more text for the spec's [pip] table.
    """
    by_target = targets if isinstance(targets, Mapping) else {"here": targets}
    lines = ["[env]", f"python = '{python}'", "[pip]", "dependencies = []", pip, "[conda]"]
    lines += [f"channels = {list(channels)!r}", "dependencies = []"]
    for target, pins in by_target.items():
        lines += [f"[targets.{target}]", f"platform = '{platform}'"]
        lines += [f"glibc = '{glibc}'"] if glibc else []
        for kind in ("pip", "conda"):
            asked = [
                _requirement(pin) for pin in pins if pin.kind == kind and (pin.direct or not _is_needed(pin, pins))
            ]
            lines += [f"[targets.{target}.{kind}]", f"dependencies = {asked!r}"] if asked else []
    spec = load_spec(machine.folder / machine.spec("\n".join(lines) + "\n", name))
    locked = [
        sound_target(target.name, target_inputs(spec, target), _built(spec, target.name, by_target[target.name]))
        for target in spec.targets
    ]
    lock = Lock(name, spec_inputs(spec), tuple(sorted(locked, key=lambda target: target.name)))
    LockFolder(machine.locks, name).write(lock)
    return lock


def serve_lock(machine: Machine, index: Index, *dists: Dist, **options: Any) -> Lock:
    """Put packages into an index, and write the lock of all of them, with `options` of `write_lock`."""
    index.add(*dists)
    return write_lock(machine, [pip_pin(dist) for dist in dists], **options)


def _built(spec: Spec, target: str, pins: Sequence[Pin]) -> list[Pin]:
    """The pins, with what sources are built with: nothing, unless they say it themselves or see the lock's packages."""
    own = spec.terms_of(target).built_against_lock
    return [
        pin
        if pin.kind != "pip" or pin.is_wheel or pin.built_with is not None or pin.name in own
        else replace(pin, built_with=())
        for pin in pins
    ]


def _is_needed(pin: Pin, pins: Sequence[Pin]) -> bool:
    """Whether another package brings it in; what nobody does, the spec asks for."""
    names = {requirement_name(text) for one in pins for text in one.dependencies if one is not pin}
    return requirement_name(pin.name) in names


def _requirement(pin: Pin) -> str:
    if pin.git:
        return f"{pin.name} @ git+{pin.git.url}@{pin.git.commit}"
    if pin.url:
        return f"{pin.name} @ {pin.url}"
    return f"{pin.name} =={pin.version}" if pin.kind == "conda" else f"{pin.name}=={pin.version}"


def uv_alone(folder: Path) -> Path:
    """A folder for PATH that has uv and nothing else."""
    from uv import find_uv_bin

    alone = folder / "uv-alone"
    alone.mkdir()
    (alone / "uv").symlink_to(find_uv_bin())
    return alone


def tree(prefix: Path) -> dict[str, tuple[int, int]]:
    """Every file of a prefix with its inode and time of change: what a run that changes nothing leaves as it is."""
    found = {}
    for path in sorted(prefix.rglob("*")):
        if not path.is_dir() and "__pycache__" not in path.parts:
            stat = path.lstat()
            found[str(path.relative_to(prefix))] = (stat.st_ino, stat.st_mtime_ns)
    return found


@pytest.fixture
def prefix(machine: Machine) -> Path:
    return machine.folder / "env"


Install = Callable[..., Ran]


@pytest.fixture
def install(machine: Machine, prefix: Path) -> Install:
    """`envspec install` of the spec `demo` into `prefix`; it must end with `status`."""

    def call(*arguments: str, status: int = 0, env: dict[str, str] | None = None) -> Ran:
        return machine.envspec("install", SPEC, "--prefix", str(prefix), *arguments, env=env, status=status)

    return call


def python(prefix: Path, code: str) -> str:
    """What a program says that runs in the environment."""
    command = [str(prefix / "bin" / "python"), "-c", code]
    env = {"PATH": os.defpath, "HOME": str(prefix)}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout.strip()


def pip_check(prefix: Path) -> str:
    command = [sys.executable, "-m", "pip", "--python", str(prefix / "bin" / "python"), "check"]
    env = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env).stdout.strip()


def changed(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> set[str]:
    """The paths that came, went or were written, without what every run writes down."""
    paths = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    return {
        path for path in paths if not path.startswith("etc/envspec/") and path not in (".lock", "conda-meta/history")
    }
