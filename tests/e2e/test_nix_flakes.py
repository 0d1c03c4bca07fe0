"""The repository's flake and the exported one, by Nix itself: every target evaluates, environments are built and used.

nixpkgs itself can't be had in a test: `nixpkgs-stand-in` has as much of it as the flakes use, on the host's own tools.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from flakes import checkout as checkout, fetched, locks as locks, machine as machine
from msgspec.structs import replace
from support.nix import STAND_IN, Nix

from envspec.lock.model import Lock, LockedTarget
from envspec.lock.write import dumps

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nix") is None, reason="nix isn't installed"),
    pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the locks are for Linux"),
]


SYSTEMS = {"linux-64": "x86_64-linux", "linux-aarch64": "aarch64-linux"}


def buildable(target: LockedTarget) -> bool:
    return not any(pin.kind == "conda" for pin in target.pins)


def from_git(locks: Mapping[str, Lock]) -> set[str]:
    """Targets with a source from git: Nix fetches it as it evaluates, and its host can't be had everywhere."""
    return {
        f"{lock.name}-{target.name}"
        for lock in locks.values()
        for target in lock
        if any(pin.git for pin in target.pins)
    }


def drv_paths(locks: Mapping[str, Lock]) -> str:
    """Give the function for the derivations of all packages but those from git."""
    names = " ".join(f'"{name}"' for name in sorted(from_git(locks)))
    return f"packages: builtins.mapAttrs (_: package: package.drvPath) (removeAttrs packages [ {names} ])"


# --- The repository's flake -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["flake.nix", "envspec/carried/environment.nix", STAND_IN])
def test_parses(root: Path, file: str | Path) -> None:
    subprocess.run(["nix-instantiate", "--parse", root / file], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.by_commit(2)
@pytest.mark.slow
@pytest.mark.parametrize("system", sorted(SYSTEMS.values(), reverse=True))
def test_every_target_evaluates(machine: Nix, checkout: Path, locks: dict[str, Lock], system: str) -> None:
    names = {
        f"{lock.name}-{target.name}": buildable(target)
        for lock in locks.values()
        for target in lock
        if SYSTEMS[target.inputs.platform] == system
    }
    found = machine.evaluate(f"packages.{system}", drv_paths(locks), cwd=checkout)
    built = {name for name, built in names.items() if built} | {"envspec", "default"}
    assert set(found) == built - from_git(locks)
    rest = machine.evaluate(f"legacyPackages.{system}", "builtins.attrNames", cwd=checkout)
    assert set(rest) == {name for name, built in names.items() if not built}
    assert len(set(found.values())) == len(found) - 1  # the default is envspec


@pytest.mark.slow
def test_the_development_shell_and_the_app_evaluate(machine: Nix, checkout: Path) -> None:
    assert machine.evaluate("devShells.x86_64-linux.default.drvPath", cwd=checkout)
    assert machine.evaluate("apps.x86_64-linux.default.program", cwd=checkout).endswith("/bin/envspec")


@pytest.mark.slow
def test_every_file_is_fetched_by_the_locks_hash(machine: Nix, checkout: Path, locks: dict[str, Lock]) -> None:
    drvs = machine.evaluate("packages.x86_64-linux", drv_paths(locks), cwd=checkout)
    for lock in locks.values():
        for target in lock:
            name = f"{lock.name}-{target.name}"
            if name not in drvs:
                continue
            own = {
                pin.artifact.file: (pin.artifact.sha256, pin.index.partition("/")[0])
                for pin in target.pins
                if pin.artifact
            }
            built_with = {one.file: (one.sha256, "pypi") for pin in target.pins for one in pin.built_with or ()}
            assert fetched(machine, drvs[name]) == {**own, **built_with}


@pytest.mark.slow
def test_conda_is_told_of(machine: Nix, checkout: Path) -> None:
    ran = machine.flake("build", f'path:{checkout}#"hpc-v2.7-cu129-hopper"', cwd=checkout)
    assert ran.returncode
    assert "error: hpc-v2.7, target cu129-hopper has conda packages" in ran.stderr
    assert "envspec install" in ran.stderr


@pytest.mark.slow
def test_a_python_that_nixpkgs_lacks_is_told_of(machine: Nix, checkout: Path) -> None:
    machine.nixpkgs({"pythons": ["3.11", "3.12"]})
    assert "mm-v2.1-cu118" not in machine.evaluate("packages.x86_64-linux", "builtins.attrNames", cwd=checkout)
    ran = machine.flake("build", f'path:{checkout}#"mm-v2.1-cu118"', cwd=checkout)
    assert "error: mm-v2.1, target cu118 needs Python 3.10, and this nixpkgs has no python310" in ran.stderr


@pytest.mark.slow
def test_an_unknown_index_is_told_of(machine: Nix, checkout: Path) -> None:
    machine.nixpkgs({"pytorch": None})
    ran = machine.flake("build", f"path:{checkout}#cpu-py311-cpu", cwd=checkout)
    assert "error: cpu-py311, target cpu has files from pytorch/cpu: say where these indexes have" in ran.stderr
    assert '{ "pytorch/cpu" = "https://…"; }' in ran.stderr
    for index in ("pytorch", '"pytorch/cpu"'):
        (checkout / "indexes.nix").write_text(f'{{ {index} = "https://mirror.invalid/torch"; }}\n', encoding="utf-8")
        drv = machine.evaluate("packages.x86_64-linux.cpu-py311-cpu.drvPath", cwd=checkout)
        assert fetched(machine, drv)["torch-2.13.0+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"][1] == "mirror"


@pytest.mark.slow
def test_a_lock_with_wheels_code_evaluates_to_the_same(machine: Nix, checkout: Path, locks: dict[str, Lock]) -> None:
    name = "packages.x86_64-linux.cpu-py311-cpu.drvPath"
    before = machine.evaluate(name, cwd=checkout)
    lock = locks["cpu-py311"]
    coded = tuple(
        replace(one, pins=tuple(replace(pin, code=("sm_90",)) if pin.is_wheel else pin for pin in one.pins))
        for one in lock
    )
    text = dumps(replace(lock, targets=coded))
    (checkout / "locks" / "cpu-py311" / "envspec.lock").write_text(text, encoding="utf-8")
    assert "code = [" in text and machine.evaluate(name, cwd=checkout) == before


@pytest.mark.slow
def test_a_newer_lock_is_refused(machine: Nix, checkout: Path) -> None:
    path = checkout / "locks" / "cpu-py311" / "envspec.lock"
    path.write_text(re.sub("lock-version = .", "lock-version = 9", path.read_text("utf-8")), encoding="utf-8")
    ran = machine.flake("eval", f"path:{checkout}#packages.x86_64-linux.cpu-py311-cpu.drvPath", cwd=checkout)
    assert "envspec.lock has lock-version 9; this environment.nix reads 5" in ran.stderr
