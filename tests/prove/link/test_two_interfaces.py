"""Real wheels of torch's two interfaces, beside torches of both CUDA majors: symbols judge, whatever a label says.

torchaudio 2.11.0 uses the stable ABI alone, torchvision and older torchaudio the one that changes with every release.
"""

import json
import lzma
from functools import cache

import pytest
from support.machine import ROOT
from test_shipped_facts import TORCH_2_6, TORCH_2_9, packages

from envspec.base.documents import decode
from envspec.prove.link.judge import judge
from envspec.prove.link.model import LinkedPackage, WheelFacts
from envspec.prove.link.system import System, runtime_of_glibc, torch_abi


@cache
def recorded() -> dict[str, WheelFacts]:
    found = json.loads(lzma.decompress((ROOT / "tests" / "data" / "linked" / "wheels.json.xz").read_bytes()))
    return {file: decode(json.dumps(entry), WheelFacts) for file, entry in found.items()}


def wheel(name: str, version: str) -> LinkedPackage:
    ((file, facts),) = [one for one in recorded().items() if one[0].startswith(f"{name}-{version}-")]
    return LinkedPackage(name.replace("_", "-"), version, file, facts)


def torch(release: str) -> tuple[str, list[LinkedPackage]]:
    """Give a torch's CUDA, and its wheel with those of its CUDA libraries."""
    shipped = {"2.6.0": ("12.4", TORCH_2_6), "2.9.1": ("12.8", TORCH_2_9)}
    if release in shipped:
        return shipped[release][0], packages(*shipped[release][1])
    return "13.0", [wheel("torch", release), wheel("nvidia_cuda_runtime", "13.0.96")]


FITS = {
    # stable, for torch 2.11 and later, CUDA 13
    ("torchaudio", "2.11.0"): {"2.11.0", "2.15.0"},
    # unstable, for torch 2.9 with CUDA 12, and for 2.11 with CUDA 13
    ("torchaudio", "2.9.1"): {"2.9.1"},
    ("torchvision", "0.24.1"): {"2.9.1"},
    ("torchvision", "0.26.0"): {"2.11.0"},
}


def test_the_wheels_use_the_interface_that_they_stand_for() -> None:
    said = {name: torch_abi(wheel(*name).facts) for name in FITS}
    assert said == {name: "stable" if name == ("torchaudio", "2.11.0") else "unstable" for name in FITS}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("release", ["2.6.0", "2.9.1", "2.11.0", "2.15.0"])
@pytest.mark.parametrize("name", FITS, ids=" ".join)
def test_one_wheel_of_each_kind_under_torches_of_both_cuda_majors(name: tuple[str, str], release: str) -> None:
    cuda, stack = torch(release)
    system = System((2, 28), runtime_of_glibc((2, 28)), "3.12", True, cuda, "debian:bookworm-slim")
    found = [one for one in judge([*stack, wheel(*name)], system) if one.package == name[0] and one.severity == "error"]
    assert (not found) == (release in FITS[name]), found
    for one in found:
        assert one.remedy and one.code in ("library-missing", "symbol-missing")
    libraries = {library for one in found if one.code == "library-missing" for library in one.evidence.names}
    built_for = "13" if name in {("torchaudio", "2.11.0"), ("torchvision", "0.26.0")} else "12"
    # torchvision brings the CUDA runtime that its image functions need
    same_major = cuda.startswith(built_for) or name[0] == "torchvision"
    assert libraries == (set() if same_major else {f"libcudart.so.{built_for}"})
    if built_for == "12" and release == "2.6.0":
        assert any("c10::" in one.message for one in found)
