"""`envspec link` of the lock `cpu-py311`, and of extensions beside its real torch: equal to what importing says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.compiled import Compiler, needs_compiler, platform_wheel
from support.smoke_env import ROOT

from envspec.binaries.elf import X86_64
from envspec.prove.link.judge import judge
from envspec.prove.link.model import LinkedPackage
from envspec.prove.link.store import read_wheel
from envspec.prove.link.system import System, runtime_of_glibc

pytestmark = [pytest.mark.slow, pytest.mark.network, needs_compiler]

HAS = "_ZN3c104warnERKNS_7WarningE"
LACKS = "_ZN3c1015SymbolicShapeV9Ev"
TORCH = ("libtorch_cpu.so", "libc10.so")
IMPORTS = """
import ctypes, pathlib, sys
import torch
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.so*")):
    ctypes.CDLL(str(path))
"""


@pytest.mark.nightly
def test_the_shipped_lock_links_as_it_imports(smoke_env: Path) -> None:
    words = [sys.executable, "-m", "envspec", "link", "specs/cpu-py311.toml", "--json"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (target,) = json.loads(done.stdout)["targets"]
    assert target["findings"] == []
    assert {one["name"]: one["torch_abi"] for one in target["packages"]} == {
        "markupsafe": None,
        "numpy": None,
        "torch": "unstable",
    }
    (site,) = smoke_env.glob("lib/python*/site-packages")
    env = {"PATH": os.defpath, "LD_BIND_NOW": "1"}
    python = smoke_env / "bin" / "python"
    loaded = subprocess.run([python, "-c", IMPORTS, site], capture_output=True, text=True, check=False, env=env)
    assert loaded.returncode == 0, loaded.stderr


@pytest.mark.parametrize(("symbol", "fits"), [(HAS, True), (LACKS, False)])
def test_extensions_beside_the_real_torch(smoke_env: Path, tmp_path: Path, symbol: str, fits: bool) -> None:
    (site,) = smoke_env.glob("lib/python*/site-packages")
    flags = ["-L", str(site / "torch" / "lib"), "-Wl,--allow-shlib-undefined", "-Wl,--unresolved-symbols=ignore-all"]
    extension = Compiler(tmp_path).extension("_C.so", uses=[symbol], needs=TORCH, flags=flags)
    packages = [_installed("torch", site), _extension(extension, tmp_path)]
    findings = judge(packages, System((2, 28), runtime_of_glibc((2, 28)), "3.11", False, None, "debian:bookworm-slim"))
    assert [finding.evidence.names for finding in findings] == ([] if fits else [(symbol,)])
    env = {"PATH": os.defpath, "LD_BIND_NOW": "1"}
    code = "import ctypes, sys, torch; ctypes.CDLL(sys.argv[1])"
    words = [str(smoke_env / "bin" / "python"), "-c", code, str(extension)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode == 0) is fits, done.stderr
    assert fits or f"undefined symbol: {symbol}" in done.stderr


def _extension(path: Path, folder: Path) -> LinkedPackage:
    made = platform_wheel("acme", "1.0", files={"acme/_C.so": path})
    place = folder / made.file
    place.write_bytes(made.content)
    return LinkedPackage("acme", "1.0", made.file, read_wheel(place, X86_64))


def _installed(name: str, site: Path) -> LinkedPackage:
    """A package as its wheel would say it, from the files that were installed of it."""
    from envspec.binaries.elf import MAGIC, read_dynamic
    from envspec.prove.link.model import ElfFile, WheelFacts, concerns

    files = []
    for path in sorted((site / name).rglob("*.so*")):
        with path.open("rb") as stream:
            assert stream.read(4) == MAGIC
            if facts := read_dynamic(stream, X86_64, concerns):
                files.append(ElfFile(path.relative_to(site).as_posix(), facts))
    return LinkedPackage(name, "2.13.0+cpu", f"{name}.whl", WheelFacts(tuple(files)))
