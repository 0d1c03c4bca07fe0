"""A real git repository with a spec, its lock and what is rendered from it; a state of all these is one value."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace
from support import in_process
from support.sound import sound_target

from envspec.facts.torch_builds import variant_of
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Artifact, Lock, Pin
from envspec.lock.store import LockFolder
from envspec.spec.parse import parse_spec

ROOT = Path(__file__).resolve().parents[3]
LOCK = "locks/demo/envspec.lock"
SPEC = "specs/demo.toml"

# Lines between what branches change, so that git merges the spec itself without trouble.
_GAP = "#\n" * 4


def pin(name: str, version: str, *dependencies: str, index: str = "pypi", content: str = "") -> Pin:
    file = f"{name}-{version}-py3-none-any.whl"
    return Pin(
        "pip",
        name,
        version,
        index,
        Artifact(file, hashlib.sha256(f"{file}{content}".encode()).hexdigest(), 1000),
        tuple(sorted(dependencies)),
        licence="MIT",
    )


def conda(name: str, version: str, *dependencies: str, provides: tuple[str, ...] = ()) -> Pin:
    file = f"{name}-{version}-h0_0.conda"
    artifact = Artifact(file, hashlib.sha256(file.encode()).hexdigest(), 1000, hashlib.md5(file.encode()).hexdigest())
    return Pin(
        "conda",
        name,
        version,
        "conda-forge/linux-64",
        artifact,
        tuple(sorted(dependencies)),
        build="h0_0",
        provides=provides,
    )


class State(Struct, frozen=True):
    """What one commit says. `pins` are those of each target, by name."""

    requirements: tuple[str, ...]
    targets: Mapping[str, str]
    pins: Mapping[str, Mapping[str, Pin]]
    exclude_newer: str = ""
    conda_requirements: tuple[str, ...] = ()

    def bump(self, *pins: Pin, only: str | None = None) -> State:
        """With these pins, new or in place of those of their names."""
        return self._with({name: {**had, **{p.name: p for p in pins}} for name, had in self._chosen(only).items()})

    def drop(self, *names: str, only: str | None = None) -> State:
        return self._with(
            {target: {n: p for n, p in had.items() if n not in names} for target, had in self._chosen(only).items()}
        )

    def ask(self, *requirements: str) -> State:
        return replace(self, requirements=(*self.requirements, *requirements))

    def unask(self, *requirements: str) -> State:
        return replace(self, requirements=tuple(r for r in self.requirements if r not in requirements))

    def target(self, name: str, keys: str, like: str | None = None) -> State:
        """With a target of these keys in the spec; a new one has the pins of another."""
        pins = {**self.pins, name: self.pins[like or name]}
        return replace(self, targets={**self.targets, name: keys}, pins=pins)

    def without_target(self, name: str) -> State:
        return replace(
            self,
            targets={n: keys for n, keys in self.targets.items() if n != name},
            pins={n: pins for n, pins in self.pins.items() if n != name},
        )

    def _chosen(self, only: str | None) -> dict[str, Mapping[str, Pin]]:
        return {name: pins for name, pins in self.pins.items() if only in (None, name)}

    def _with(self, changed: Mapping[str, Mapping[str, Pin]]) -> State:
        return replace(self, pins={**self.pins, **changed})

    def spec_text(self) -> str:
        lines = ["[env]", 'name = "demo"', 'python = "3.12"']
        lines += [f'exclude-newer = "{self.exclude_newer}"'] if self.exclude_newer else []
        lines += ["[pip]", "dependencies = ["]
        # each package has its own place, so that two branches that add one don't meet
        for letter in "abcdefghijklmnopqrstuvwxyz":
            lines += [f"  # {letter}", "  #", "  #", "  #"]
            lines += [f'  "{requirement}",' for requirement in self.requirements if requirement[0] == letter]
        lines += ["]"]
        if self.conda_requirements:
            lines += ["[conda]", 'channels = ["conda-forge"]', "dependencies = ["]
            lines += [f'  "{requirement}",\n  #\n  #\n  #\n' for requirement in self.conda_requirements]
            lines += ["]"]
        for name in ("cpu", "cu126", "cu128"):
            lines += [_GAP + f"# {name}\n" + _GAP]
            lines += [f"[targets.{name}]\n{self.targets[name]}"] if name in self.targets else []
        return "\n".join(lines) + "\n"

    def lock(self) -> Lock:
        spec = parse_spec(self.spec_text(), SPEC)
        targets = [
            sound_target(
                target.name,
                target_inputs(spec, target),
                (_for_cuda(pin, target.cuda) for pin in self.pins[target.name].values()),
            )
            for target in sorted(spec.targets, key=lambda target: target.name)
        ]
        return Lock("demo", spec_inputs(spec), tuple(targets))


def _for_cuda(pin: Pin, cuda: str | None) -> Pin:
    """torch as the PyTorch index of the target's CUDA has it."""
    variant = variant_of(cuda)
    local = f"{pin.version.partition('+')[0]}+{variant}"
    return replace(pin, version=local, index=f"pytorch/{variant}") if pin.name == "torch" else pin


CPU = 'platform = "linux-64"'
CU126 = 'platform = "linux-64"\ncuda = "12.6"\ngpus = ["A100"]'
CU128 = 'platform = "linux-64"\ncuda = "12.8"\ngpus = ["H100"]'

_COMMON = {
    p.name: p
    for p in (
        pin("app", "1.0", "lib>=2", "fsspec"),
        pin("fsspec", "2025.1"),
        pin("lib", "2.0"),
        pin("numpy", "2.1"),
        pin("tqdm", "4.1"),
    )
}
BASE = State(
    requirements=("app>=1", "numpy", "torch==2.9.*"),
    targets={"cpu": CPU, "cu128": CU128},
    pins={
        "cpu": {**_COMMON, "torch": pin("torch", "2.9.0+cpu", "fsspec", "tqdm", index="pytorch/cpu")},
        "cu128": {**_COMMON, "torch": pin("torch", "2.9.0+cu128", "fsspec", "tqdm", index="pytorch/cu128")},
    },
)


class Repository:
    """A clone with the branch `main`. `env` has envspec where git's drivers find it, and no settings of the user's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder.parent / "home"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_EDITOR": "true",
            "GIT_PAGER": "cat",
            **{
                f"GIT_{who}_{what}": "test@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
            },
        }
        self.git("init", "-q", "-b", "main")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False, timeout=60
        )

    def git(self, *arguments: str, code: int | None = 0) -> str:
        """stdout and stderr of git, which must end with `code`, if that is one."""
        ran = self.run("git", *arguments)
        assert code in (None, ran.returncode), f"git {arguments} -> {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran.stdout + ran.stderr

    def envspec(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line, in this process where it can be; what git starts is a process."""
        if not in_process.can_run(self.env):
            return self.run(sys.executable, "-m", "envspec", *arguments)
        ran = in_process.run(arguments, cwd=self.folder, env=self.env, seconds=60)
        return subprocess.CompletedProcess(arguments, *ran)

    def write(self, state: State) -> None:
        path = self.folder / SPEC
        path.parent.mkdir(exist_ok=True)
        path.write_text(state.spec_text())
        LockFolder(self.folder / "locks", "demo").write(state.lock())

    def commit(self, state: State | None = None, message: str = "change") -> None:
        if state is not None:
            self.write(state)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def branches(self, base: State | None, ours: State, theirs: State) -> None:
        """`main` with ours and `topic` with theirs, both from a commit with base, or from one without a lock."""
        if base is None:
            self.commit(message="start")
        else:
            self.commit(base)
        self.git("switch", "-q", "-c", "topic")
        self.commit(theirs, "theirs")
        self.git("switch", "-q", "main")
        self.commit(ours, "ours")

    @property
    def lock_path(self) -> Path:
        return self.folder / LOCK

    def unmerged(self) -> set[str]:
        return set(self.git("diff", "--name-only", "--diff-filter=U").split())
