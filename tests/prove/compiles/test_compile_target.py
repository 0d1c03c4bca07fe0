"""What a target's compilers make: with a stand-in ptxas, which is a script, and with NVIDIA's own from PyPI."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs
from support.cubins import cubin
from support.machine import ROOT
from support.packages import wheel

from envspec.facts import triton
from envspec.facts.compute_capability import order, sm_of
from envspec.facts.gpus import capabilities
from envspec.lock.model import Artifact, LockedTarget, Pin
from envspec.lock.read import load
from envspec.prove.compiles import build
from envspec.prove.compiles.build import Compiled, Compiler, architectures_for, compile_target, compilers, holders

HOPPER = load(ROOT / "locks" / "mm-v2.9" / "envspec.lock").target("cu128-hopper")
TRITON = "triton/backends/nvidia/bin/ptxas"


def compiled(folder: Path, *architectures: str, **programs: str) -> Compiled:
    """What a target makes whose triton has these programs, and nothing else has a compiler."""
    assert HOPPER is not None
    files = {f"triton/backends/nvidia/bin/{name.replace('_', '-')}": text.encode() for name, text in programs.items()}
    dist = wheel("triton", "3.6.0", files=files)
    (folder / dist.file).write_bytes(dist.content)
    pin = Pin("pip", "triton", "3.6.0", "pypi", Artifact(dist.file, dist.sha256, len(dist.content)))
    target = structs.replace(HOPPER, pins=(pin,), architectures=architectures)
    scratch = folder / "scratch"
    scratch.mkdir()
    return compile_target(target, {("pypi", dist.file): folder / dist.file}, scratch)


def ptxas(folder: Path, does: str) -> str:
    """A ptxas that says it is of 12.8."""
    (folder / "sm_90a.cubin").write_bytes(cubin(90, abi=8, specific=True))
    (folder / "sm_80.cubin").write_bytes(cubin(80, abi=8))
    return f'#!/bin/sh\n[ "$1" = --version ] && echo "release 12.8, V12.8.93" && exit\n{does}\n'


def test_machine_code_for_the_gpu_is_a_proof(tmp_path: Path) -> None:
    found = compiled(tmp_path, "sm_90", ptxas=ptxas(tmp_path, f'cp {tmp_path}/sm_90a.cubin "$4"'))
    (one,) = found.compilations
    assert (one.release, one.gpu, one.requested, one.made, one.ok) == ("12.8", "sm_90", "sm_90a", "sm_90a", True)
    assert found.ok and found.absent == ("nvrtc", "nvjitlink")


@pytest.mark.parametrize(
    ("does", "made", "told"),
    [
        ("cp {0}/sm_80.cubin \"$4\"", "sm_80", None),
        ("echo \"Value 'sm_90a' is not defined\"; exit 1", None, "Value 'sm_90a' is not defined"),
        ("echo no cubin > \"$4\"", None, "it wrote no machine code"),
        ("exit 0", None, "it wrote no machine code"),
        ("kill -9 $$", None, "status -9"),
    ],
    ids=["another architecture", "an error", "no cubin", "nothing", "killed"],
)  # fmt: skip
def test_all_else_is_none(tmp_path: Path, does: str, made: str | None, told: str | None) -> None:
    found = compiled(tmp_path, "sm_90", ptxas=ptxas(tmp_path, does.replace("{0}", str(tmp_path))))
    (one,) = found.compilations
    assert (one.made, one.error, one.ok, found.ok) == (made, told, False, False)


def test_a_compiler_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "TIMEOUT", 0.5)
    found = compiled(tmp_path, "sm_90", ptxas=ptxas(tmp_path, "exec sleep 20"))
    assert [one.error for one in found.compilations] == ["it gave no answer for 0.5 s"]


def test_a_program_that_is_none_is_told(tmp_path: Path) -> None:
    found = compiled(tmp_path, "sm_90", ptxas="not a program")
    (one,) = found.compilations
    assert not found.ok and one.error and one.error.startswith("it can't be run here: OSError")


def test_a_target_without_compilers_proves_nothing(tmp_path: Path) -> None:
    found = compiled(tmp_path, "sm_90")
    assert not found.ok and found.absent == ("ptxas", "nvrtc", "nvjitlink")


def test_which_ptxas_triton_takes() -> None:
    old, new = (Compiler("ptxas", "triton", "3.6.0", "f", (f"{TRITON}{more}",)) for more in ("", "-blackwell"))
    gpus = ("sm_80", "sm_90", "sm_100", "sm_120")
    assert architectures_for(old, (old, new), gpus) == {"sm_80": "sm_80", "sm_90": "sm_90a"}
    assert architectures_for(new, (old, new), gpus) == {"sm_100": "sm_100a", "sm_120": "sm_120a"}
    assert architectures_for(old, (old,), gpus) == {
        "sm_80": "sm_80",
        "sm_90": "sm_90a",
        "sm_100": "sm_100a",
        "sm_120": "sm_120a",
    }


@pytest.mark.parametrize(
    ("name", "members", "found"),
    [
        ("nvrtc", ("nvidia/cu13/lib/libnvrtc-builtins.so.13.0", "nvidia/cu13/lib/libnvrtc.so.13"), 1),
        ("nvrtc", ("torch/lib/libnvrtc-672ee683.so.11.2", "torch/lib/libnvrtc-builtins-2dc4bf68.so.11.8"), 1),
        ("nvrtc", ("nvidia/cuda_nvrtc/lib/libnvrtc-builtins.so.12.8",), 0),
        ("nvrtc", ("nvidia/cuda_nvrtc/lib/libnvrtc.alt.so.12",), 0),
        ("nvjitlink", ("nvidia/nvjitlink/lib/libnvJitLink.so.12",), 1),
        ("ptxas", ("triton/common/../third_party/cuda/bin/ptxas", "triton/bin/ptxas/x"), 1),
        ("ptxas", ("triton/backends/nvidia/bin/cuobjdump", "other/bin/ptxas"), 0),
    ],
)
def test_where_compilers_lie(name: str, members: tuple[str, ...], found: int) -> None:
    pin = Pin("pip", "x", "1", "pypi", Artifact("x.whl", "0" * 64, 1))
    assert len(compilers(name, pin, members)) == found  # type: ignore[arg-type]


def test_every_shipped_gpu_target_of_pip_has_all_three() -> None:
    for name in ("mm-v2.9", "llm-v2.9", "team-v2.9", "deit-v2.6"):
        for target in load(ROOT / "locks" / name / "envspec.lock"):
            assert set(holders(target)) == ({"ptxas", "nvrtc", "nvjitlink"} if target.inputs.cuda else set()), (
                target.name
            )


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.e2e
@pytest.mark.parametrize("version", [triton.releases()[-1].version, "3.5.1"])
def test_the_table_of_triton_is_what_its_compilers_say(tmp_path: Path, version: str) -> None:
    """Every capability of the tables, by the ptxas in triton's wheel on PyPI."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(tmp_path)]
    tags = ["--python-version", "3.12", "--platform", "manylinux_2_28_x86_64", "--platform", "manylinux_2_27_x86_64"]
    subprocess.run([*pip, *tags, f"triton=={version}"], check=True)
    (path,) = tmp_path.glob("*.whl")
    row = triton.release(version)
    assert HOPPER is not None and row is not None
    pin = Pin("pip", "triton", version, "pypi", Artifact(path.name, "0" * 64, path.stat().st_size))
    known = [one for one in capabilities() if order(one) >= (7, 0)]
    target: LockedTarget = structs.replace(HOPPER, pins=(pin,), architectures=tuple(map(sm_of, known)))
    (tmp_path / "scratch").mkdir()
    found = compile_target(target, {("pypi", path.name): path}, tmp_path / "scratch")
    measured = {one.gpu for one in found.compilations if one.ok}
    assert measured == {sm_of(one) for one in row.capabilities}
    releases = {one.gpu: one.release for one in found.compilations}
    assert all(releases[sm_of(one)] == row.cuda_for(one) for one in known), json.dumps(releases)
