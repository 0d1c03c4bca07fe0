"""Conda packages of a bundle that somebody changed on their way. `install.sh` can't look through them: the Python that
would do it is one of them. So none reaches the installer that isn't, by its sha256, one that `envspec bundle` looked
through. No conda tool can be had here: a program that writes down what it is given stands for one.
"""

import hashlib
import json
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.conda_archives import Channel, data_package
from support.installs import SPEC, write_lock
from support.machine import Machine

from envspec.install.bundle import SUMS

pytestmark = pytest.mark.e2e

TOOL, LIB = data_package("tool", "1.0"), data_package("lib", "1.0")
EVIL = replace(TOOL, files={**TOOL.files, "../../evil.txt": b"x"}).content()


@dataclass(frozen=True)
class Bundle:
    folder: Path
    digest: str

    @property
    def tool(self) -> Path:
        return next(self.folder.glob("conda/*/*/tool-*"))

    def rehash(self) -> None:
        """Make SHA256SUMS fit what lies there, as whoever forges a bundle would."""
        paths = [line[66:] for line in (self.folder / SUMS).read_text().splitlines()]
        sums = (hashlib.sha256((self.folder / path).read_bytes()).hexdigest() for path in paths)
        (self.folder / SUMS).write_text("".join(f"{sha}  {path}\n" for sha, path in zip(sums, paths, strict=True)))


@pytest.fixture
def make(machine: Machine, tmp_path: Path) -> Callable[..., Bundle]:
    channel = Channel(tmp_path / "own").add(TOOL, LIB)

    def bundled(name: str, *options: str) -> Bundle:
        write_lock(machine, [channel.pin(TOOL), channel.pin(LIB)], channels=[channel.url])
        ran = machine.envspec("bundle", SPEC, "-o", f"{name}.tar", "--json", *options, status=0)
        with tarfile.open(machine.folder / f"{name}.tar") as tar:
            tar.extractall(tmp_path / name, filter="data")
        return Bundle(tmp_path / name, str(json.loads(ran.out)["digest"]))

    return bundled


def install(bundle: Bundle, tmp_path: Path, *options: str, without: str = "") -> tuple[int, str, list[str]]:
    """Run install.sh; gives its status, what it says, and the files that reach the conda tool."""
    tools, given = tmp_path / "tools", tmp_path / "given"
    tools.mkdir(exist_ok=True)
    for name in ("sh", "cat", "sed", "grep", "find", "ls", "mktemp", "rm", "dirname", "sha256sum", "shasum"):
        (tools / name).unlink(missing_ok=True)
        if name not in without.split() and (program := shutil.which(name)):
            (tools / name).symlink_to(program)
    (tools / "micromamba").write_text(f'#!/bin/sh\nfor last; do :; done\ncat "$last" >{given}\n')
    (tools / "micromamba").chmod(0o755)
    command = ["sh", str(bundle.folder / "install.sh"), *options, str(tmp_path / "env")]
    env = {"PATH": str(tools), "HOME": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    lines = given.read_text().splitlines() if given.exists() else []
    return ran.returncode, ran.stderr, [line.removeprefix("file://") for line in lines if line.startswith("file://")]


@pytest.mark.slow
def test_the_honest_bundle(make: Callable[..., Bundle], tmp_path: Path) -> None:
    bundle = make("new")
    status, told, given = install(bundle, tmp_path, "--expect", bundle.digest)
    assert status == 0 and len(given) == 2, told


def test_a_package_that_was_changed(make: Callable[..., Bundle], tmp_path: Path) -> None:
    bundle = make("new")
    bundle.tool.write_bytes(EVIL)
    status, told, given = install(bundle, tmp_path)
    assert status == 2 and "damaged or missing" in told and not given
    bundle.rehash()
    status, told, given = install(bundle, tmp_path, "--expect", bundle.digest)
    assert status == 2 and "this is another bundle" in told and not given


def test_a_package_that_was_exchanged_for_a_link(make: Callable[..., Bundle], tmp_path: Path) -> None:
    bundle = make("new")
    (tmp_path / "evil").write_bytes(EVIL)
    place = bundle.tool
    place.unlink()
    place.symlink_to(tmp_path / "evil")
    status, told, given = install(bundle, tmp_path)
    assert status == 2 and "isn't a plain file" in told and not given


@pytest.mark.by_day(1)
@pytest.mark.parametrize("line", ["../../evil/tool-1.0-0.tar.bz2", "own/noarch/other-1.0-0.tar.bz2#00"])
def test_a_list_that_names_another_file(make: Callable[..., Bundle], tmp_path: Path, line: str) -> None:
    """The list is the forger's, and so are the sums: what isn't in them isn't given on all the same."""
    bundle = make("new")
    with (bundle.folder / "conda" / "explicit.txt").open("a") as file:
        file.write(line + "\n")
    status, told, given = install(bundle, tmp_path)
    assert status == 2 and "damaged or missing" in told and not given
    bundle.rehash()
    status, told, given = install(bundle, tmp_path)
    assert status == 2 and "isn't of this bundle" in told and not given


@pytest.mark.slow
def test_the_folder_of_an_earlier_bundle(make: Callable[..., Bundle], tmp_path: Path) -> None:
    """Nobody takes its sums, and a file of the right name isn't enough: it's the one of that hash, or none."""
    old = make("old")
    new = make("new", "--since", "old.tar")
    forged = tmp_path / "forged"
    shutil.copytree(old.folder, forged)
    Bundle(forged, "").tool.write_bytes(EVIL)
    status, told, given = install(new, tmp_path, "--expect", new.digest, "--with", str(forged))
    assert status == 2 and f"  {old.tool.relative_to(old.folder)}\n" in told and not given
    options = ("--expect", new.digest, "--with", str(forged), "--with", str(old.folder))
    status, told, given = install(new, tmp_path, *options)
    assert status == 0, told
    assert sorted(Path(line.partition("#")[0]).read_bytes() for line in given) == sorted(
        [TOOL.content(), LIB.content()]
    )


@pytest.mark.parametrize("has_conda", [True, False])
def test_a_machine_that_cannot_take_hashes(make: Callable[..., Bundle], tmp_path: Path, has_conda: bool) -> None:
    """Nothing else compares the hash of a Python, of a project's wheel or of a build's variables."""
    bundle = make("new")
    bundle.tool.write_bytes(EVIL)
    if not has_conda:
        (bundle.folder / "conda" / "explicit.txt").unlink()
    status, told, given = install(bundle, tmp_path, without="sha256sum shasum")
    assert status == 2 and "neither sha256sum nor shasum found: put one of them on PATH" in told and not given
