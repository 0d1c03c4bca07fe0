"""A small project with a spec and its lock, made by hand: what the commands that read locks are tried on."""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace
from support.golden import golden
from support.packages import Dist
from support.sound import sound_target

from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Artifact, Lock, Pin
from envspec.lock.store import LockFolder
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec


class Told(NamedTuple):
    """How a command ended: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


Envspec = Callable[..., Told]
"""The command line, called in this process: the fixture `envspec`."""

SPEC = """\
[env]
name = "demo"
python = "3.12"

[pip]
dependencies = ["app>=1", "torch==2.9.*"]

[targets.cpu]
platform = "linux-64"

[targets.cu126-volta]
platform = "linux-64"
cuda = "12.6"
gpus = ["V100"]

[targets.cu128-hopper]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100"]
"""

TWO = """\
[env]
name = "demo"
python = "3.12"
[pip]
dependencies = ["app", "lib"]
[targets.a]
platform = "linux-64"
"""

TORCH = {
    "cpu": ("2.9.1+cpu", "pytorch/cpu"),
    "cu126-volta": ("2.9.1+cu126", "pytorch/cu126"),
    "cu128-hopper": ("2.9.1+cu128", "pytorch/cu128"),
}


def told_whole(name: str, told: Told) -> bool:
    """Whether a command that is done and silent on stderr printed what its golden file says."""
    assert (told.code, told.err) == (0, "")
    return golden(Path(__file__).parent / "golden" / name, told.out) == told.out


def pin(
    name: str, version: str, *dependencies: str, index: str = "pypi", direct: bool = False, licence: str | None = "MIT"
) -> Pin:
    file = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
    artifact = Artifact(file, hashlib.sha256(f"{index} {file}".encode()).hexdigest(), 1000)
    return Pin("pip", name, version, index, artifact, dependencies, direct, licence)


def demo_pins(target: str) -> tuple[Pin, ...]:
    """The pins of a target of SPEC: with a cycle (ping, pong), an extra (lib[fast]), markers, and torch by its CUDA."""
    version, index = TORCH[target]
    cuda = ('nvidia-cublas-cu12==12.8.4.1; platform_system == "Linux"',) if target != "cpu" else ()
    pins = [
        pin("app", "1.4", "lib[fast]<3,>=2", "torch>=2", 'tomli; python_version < "3.11"', direct=True, licence=None),
        pin("fsspec", "2026.9.0", licence="BSD-3-Clause"),
        pin("lib", "2.5", 'speedup>=1; extra == "fast"', "ping", "fsspec"),
        pin("ping", "1.0", "pong"),
        pin("pong", "1.0", "ping>=1", 'fsspec>=0.8; python_version >= "3.8"'),
        pin("speedup", "1.1"),
        pin("torch", version, "fsspec>=0.8", *cuda, index=index, direct=True, licence="BSD-3-Clause"),
    ]
    if cuda:
        pins.append(pin("nvidia-cublas-cu12", "12.8.4.1", licence="LicenseRef-NVIDIA-Proprietary"))
    return tuple(sorted(pins, key=lambda p: p.name))


def lock_of(spec: Spec, pins: Callable[[str], Iterable[Pin]]) -> Lock:
    targets = sorted(spec.targets, key=lambda target: target.name)
    locked = (sound_target(t.name, target_inputs(spec, t), pins(t.name)) for t in targets)
    return Lock(spec.name, spec_inputs(spec), tuple(locked))


@dataclass(frozen=True)
class Project:
    """A folder with specs/ and locks/."""

    folder: Path

    def spec(self, text: str = SPEC, name: str = "demo") -> str:
        """Write a spec; gives its path, relative to the folder."""
        path = self.folder / "specs" / f"{name}.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace('name = "demo"', f'name = "{name}"'), encoding="utf-8")
        return f"specs/{name}.toml"

    def lock(self, pins: Callable[[str], Iterable[Pin]] = demo_pins, name: str = "demo") -> Lock:
        """Write a fresh lock of a spec, and what is rendered from it."""
        spec = load_spec(self.folder / "specs" / f"{name}.toml")
        lock = lock_of(spec, pins)
        LockFolder(self.folder / "locks", name).write(lock)
        return lock

    @property
    def lock_path(self) -> Path:
        return self.folder / "locks" / "demo" / "envspec.lock"

    def files(self) -> dict[str, bytes]:
        """Every file of the project, by relative path."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }


def without(pins: Iterable[Pin], *names: str) -> tuple[Pin, ...]:
    return tuple(p for p in pins if p.name not in names)


def changed(pins: Iterable[Pin], name: str, **fields: object) -> tuple[Pin, ...]:
    """With other fields of one package; another version has another file."""
    return tuple(_renamed(replace(p, **fields), p) if p.name == name else p for p in pins)


def _renamed(new: Pin, old: Pin) -> Pin:
    if new.artifact is None or new.artifact != old.artifact or new.version == old.version:
        return new
    file = new.artifact.file.replace(f"-{old.version}-", f"-{new.version}-")
    return replace(new, artifact=replace(new.artifact, file=file))


def served(dist: Dist, *dependencies: str, index: str = "pypi") -> Pin:
    """A pin of a file that an index serves."""
    made = pin(dist.name, dist.version, *dependencies, index=index, direct=True)
    return replace(made, artifact=Artifact(dist.file, dist.sha256, len(dist.content)))


def without_settings(monkeypatch: pytest.MonkeyPatch, home: Path, *more: str) -> None:
    """A user who has set nothing: no variable of these tools, or beginning with one of `more`, and another home."""
    for name in list(os.environ):
        if name.startswith(("UV_", "PIP_", "ENVSPEC_", "XDG_", *more)) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
