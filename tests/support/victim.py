"""A project that someone hostile wrote, and what it mustn't reach: a folder beside it with files of the user's own."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.installs import pip_pin, write_lock
from support.machine import Machine, Ran
from support.packages import wheel

ALPHA = wheel("alpha", "1.0")


def files_below(folder: Path) -> dict[str, str]:
    """Everything below a folder by relative path: links by what they lead to, files by their bytes and rights."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            text = f"link to {os.readlink(path)}"
        elif path.is_dir():
            text = "folder"
        else:
            text = f"{path.stat().st_mode:o} {path.read_bytes()!r}"
        found[path.relative_to(folder).as_posix()] = text
    return found


@dataclass(frozen=True)
class Hostile:
    """`machine`'s project is the repository; `victim` lies outside of it."""

    machine: Machine
    victim: Path
    before: dict[str, str]

    @property
    def folder(self) -> Path:
        return self.machine.folder

    @property
    def lock(self) -> Path:
        return self.machine.lock_path()

    def link(self, path: str, to: str | Path | None = None) -> Path:
        """Put a link at a path of the repository, in place of what is there; to the victim unless `to` says more."""
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists() or place.is_symlink():
            place.rename(self.machine.base / f"was-{place.name}")
        place.symlink_to(self.victim if to is None else to)
        return place

    def unharmed(self) -> bool:
        return files_below(self.victim) == self.before

    def run(self, *arguments: str) -> Ran:
        """Run envspec, which mustn't do anything to the victim nor wait for anybody."""
        ran = self.machine.envspec(*arguments, seconds=60)
        assert self.unharmed(), f"{arguments} reached the victim"
        return ran

    def refused(self, named: str, *arguments: str) -> Ran:
        """Run what must be refused, by the name of what stands in the way."""
        ran = self.run(*arguments)
        assert ran.status == 2, ran.out + ran.err
        assert named in ran.error and ran.hint, ran.err
        return ran


def hostile(base: Path, default: str | None = None) -> Hostile:
    """A project with a fresh lock of one target, `cpu`, and a victim."""
    machine = Machine(base / "machine", default)
    write_lock(machine, {"cpu": [pip_pin(ALPHA)]}, python="3.12", platform="linux-64")
    victim = base / "victim"
    victim.mkdir()
    for name in ("requirements.txt", "precious.txt", "devcontainer.json", "envspec.lock", "Dockerfile", "0"):
        (victim / name).write_text("the user's own\n", encoding="utf-8")
    return Hostile(machine, victim, files_below(victim))


def git(folder: Path, *arguments: str) -> str:
    """Git with an identity and no configuration of anyone's."""
    env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder)}
    own = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *own, *arguments], cwd=folder, env=env, check=True, text=True, capture_output=True
    ).stdout
