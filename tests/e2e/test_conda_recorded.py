"""Recorded conda-forge: Python × pytorch × CUDA, what solves, with which build, and what is refused and why."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support.matrix import first_by_day

from envspec.artifacts.conda_channels import ChannelAddress
from envspec.base.errors import AnswerNo, Infeasible
from envspec.facts.conda_builds import builds
from envspec.lock.judge import judge, judge_target
from envspec.lock.model import LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.lock.read import load
from envspec.packages.conflict import Unsatisfiable
from envspec.resolve.conda.request import CondaRequest, conda_request_for, virtual_packages
from envspec.resolve.conda.solve import CondaResolver

pytestmark = pytest.mark.e2e
rattler = pytest.importorskip("rattler")

# (platform, Python, match specs, CUDA, the beginning of pytorch's build)
SOLVES = [
    ("linux-64", "3.11", ("pytorch 2.4.0.*", "torchvision 0.19.1.*"), "11.8", "cuda118"),
    ("linux-64", "3.12", ("pytorch 2.3.1.*",), "12.4", "cuda120"),
    ("linux-64", "3.12", ("pytorch 2.4.0.*",), "12.4", "cuda120"),
    ("linux-64", "3.10", ("pytorch 2.5.1.*",), "12.6", "cuda126"),
    ("linux-64", "3.13", ("pytorch 2.5.1.*",), "12.6", "cuda126"),
    ("linux-64", "3.11", ("pytorch-gpu 2.6.0.*",), "12.6", "cuda126"),
    ("linux-64", "3.12", ("pytorch 2.7.0.*", "torchvision"), "12.6", "cuda126"),
    ("linux-64", "3.10", ("pytorch 2.7.1.*", "torchvision"), "12.6", "cuda126"),
    ("linux-64", "3.13", ("pytorch 2.7.1.*",), "12.6", "cuda126"),
    ("linux-64", "3.12", ("pytorch 2.7.1.*", "torchvision"), "12.8", "cuda126"),
    ("linux-64", "3.12", ("pytorch-gpu 2.7.1.*", "torchvision"), "12.9", "cuda129"),
    ("linux-64", "3.11", ("pytorch 2.8.0.*", "torchvision"), "12.9", "cuda129"),
    ("linux-64", "3.13", ("pytorch 2.9.1.*", "torchvision"), "12.9", "cuda129"),
    ("linux-64", "3.12", ("pytorch 2.10.0.*", "torchvision"), "12.9", "cuda129"),
    ("linux-64", "3.14", ("pytorch 2.12.1.*",), "13.3", "cuda130"),
    ("linux-64", "3.12", ("pytorch 2.7.1.*", "torchvision"), None, "cpu"),
    ("linux-aarch64", "3.11", ("pytorch 2.6.0.*",), "12.6", "cuda126"),
    ("linux-aarch64", "3.12", ("pytorch-gpu 2.9.1.*",), "12.9", "cuda129"),
    ("osx-arm64", "3.12", ("pytorch",), None, "cpu"),
]

# (Python, match specs, CUDA, the error, what its message says, what its hint says; empty: none, or its own)
REFUSED = [
    ("3.12", ("pytorch 2.9.1.*",), "12.8", Infeasible, "is the CPU build", "2.9.1 for CUDA 12.9; pytorch "),
    ("3.12", ("pytorch-gpu 2.9.*",), "12.6", Unsatisfiable, "cuda-version 12.6.*", "pytorch-gpu 2.7.1"),
    ("3.12", ("pytorch-gpu",), "11.8", Unsatisfiable, "11.8", "for CUDA 12.6"),
    ("3.12", ("pytorch-gpu",), None, Unsatisfiable, "__cuda", ""),
    ("3.14", ("pytorch 2.5.*",), "12.6", Unsatisfiable, "python", ""),
    ("3.12", ("pytorch 2.7.1.*", "cuda-version 12.4.*"), "12.6", Unsatisfiable, "cuda-version", ""),
]


@pytest.fixture(scope="module")
def channel(recorded_data: Path) -> Path:
    return recorded_data / "conda-forge"


@pytest.fixture(scope="module")
def resolver(channel: Path, tmp_path_factory: pytest.TempPathFactory) -> CondaResolver:
    gateway = rattler.Gateway(cache_dir=tmp_path_factory.mktemp("repodata"))
    return CondaResolver(gateway, (ChannelAddress("conda-forge", channel.as_uri()),))


@cache
def recorded(folder: Path, subdir: str) -> dict[str, Any]:
    tables = json.loads((folder / subdir / "repodata.json").read_text(encoding="utf-8"))
    return {**tables["packages"], **tables["packages.conda"]}


def request(
    python: str, specs: tuple[str, ...], cuda: str | None, platform: str = "linux-64", **more: Any
) -> CondaRequest:
    return CondaRequest(
        platform, python, specs, ("conda-forge",), cuda=cuda, architectures=("sm_90",) if cuda else (),
        glibc="2.28" if platform.startswith("linux") else None, **more,
    )  # fmt: skip


def by_name(pins: tuple[Pin, ...]) -> dict[str, Pin]:
    return {pin.name: pin for pin in pins}


def assert_as_recorded(pins: tuple[Pin, ...], channel: Path) -> None:
    for pin in pins:
        name, _, subdir = pin.index.rpartition("/")
        assert name == "conda-forge" and pin.artifact is not None
        record = recorded(channel, subdir)[pin.artifact.file]
        assert (pin.name, pin.version, pin.build) == (record["name"], record["version"], record["build"])
        assert (pin.artifact.sha256, pin.artifact.md5) == (record["sha256"], record["md5"])
        assert pin.artifact.size == record.get("size")
        assert pin.dependencies == tuple(sorted(set(record["depends"])))
        assert pin.licence == record.get("license")


def assert_holds(pins: tuple[Pin, ...], request: CondaRequest) -> None:
    """Every match spec is answered, by packages or by the target's machines."""
    virtual = {name for name, _, _ in virtual_packages(request)}
    names = {pin.name for pin in pins}
    for pin in pins:
        for depend in pin.dependencies:
            assert depend.split()[0].lower() in names | virtual, f"{pin.name}: {depend}"
    inputs = TargetInputs(
        request.platform, request.python, request.glibc, request.cuda, conda_requirements=request.specs
    )
    shared = SpecInputs(channels=("conda-forge",))
    flaws = judge_target(LockedTarget("t", inputs, pins), shared)
    # what is solved here by itself has its own idea of which builds it asked for
    assert [flaw for flaw in flaws if flaw.code.startswith("requirement-") and flaw.package != "pip"] == []


@pytest.mark.parametrize(("platform", "python", "specs", "cuda", "build"), first_by_day(7, SOLVES))
def test_solves(
    resolver: CondaResolver, channel: Path, platform: str, python: str, specs: tuple[str, ...], cuda: str | None,
    build: str,
) -> None:  # fmt: skip
    asked = request(python, specs, cuda, platform)
    pins = resolver.resolve({"t": asked}, {})["t"]
    found = by_name(pins)
    assert str(found["pytorch"].build).startswith(build)
    assert found["python"].version.startswith(f"{python}.")
    assert found["pytorch"].provides == ("torch",)
    if cuda:
        assert found["cuda-version"].version == cuda
        assert not [pin.name for pin in pins if "cpu" in str(pin.build).split("_")]
    else:
        assert "cuda-version" not in found
        assert not [pin.name for pin in pins if "cuda" in str(pin.build)]
    assert_as_recorded(pins, channel)
    assert_holds(pins, asked)


@pytest.mark.parametrize(("python", "specs", "cuda", "error", "says", "hints"), REFUSED)
def test_is_refused_with_a_reason(
    resolver: CondaResolver, python: str, specs: tuple[str, ...], cuda: str | None, error: type[AnswerNo], says: str,
    hints: str,
) -> None:  # fmt: skip
    with pytest.raises(error) as caught:
        resolver.resolve({"t": request(python, specs, cuda)}, {})
    assert str(caught.value).startswith("t: ")
    assert says in caught.value.message
    assert hints in (caught.value.hint or "")
    assert len(caught.value.message.splitlines()) <= 15


def test_the_tables_and_the_channel_agree(channel: Path) -> None:
    """Every recorded pytorch build is one of those that the GPU facts describe, CUDA and platform alike."""
    unknown = []
    for platform in ("linux-64", "linux-aarch64"):
        for record in recorded(channel, platform).values():
            if record["name"] != "pytorch" or not record["version"].startswith("2."):
                continue
            variant = record["build"].partition("_")[0].partition("py")[0]
            variants = {build.variant for build in builds(record["version"], platform=platform)}
            if variants and variant not in variants:
                unknown.append((platform, record["version"], variant))
    assert unknown == []


@pytest.mark.slow
def test_a_large_environment(resolver: CondaResolver, channel: Path) -> None:
    specs = (
        "pytorch * cuda129*", "torchvision", "transformers", "jupyterlab", "openssh", "pandas", "scikit-learn",
        "matplotlib",
    )  # fmt: skip
    asked = request("3.12", specs, "12.9", with_pip=True)
    pins = resolver.resolve({"t": asked}, {})["t"]
    assert len(pins) > 300
    assert_as_recorded(pins, channel)
    assert_holds(pins, asked)


def test_arrow_is_held_to_cuda_unless_named(resolver: CondaResolver) -> None:
    """Not only torch: Arrow has CPU and CUDA builds too, and rattler alone takes the CPU ones."""
    pins = by_name(resolver.resolve({"t": request("3.12", ("pyarrow",), "12.6")}, {})["t"])
    assert str(pins["libarrow"].build).endswith("cuda") and str(pins["pyarrow-core"].build).endswith("cuda")
    named = request("3.12", ("pyarrow", "pyarrow-core * *cpu*"), "12.6")
    pins = by_name(resolver.resolve({"t": named}, {})["t"])
    assert str(pins["libarrow"].build).endswith("cpu")


@pytest.mark.slow
def test_four_targets_at_once(resolver: CondaResolver) -> None:
    asked = {
        "cu126": request("3.12", ("pytorch 2.7.1.*", "torchvision"), "12.6"),
        "cu129": request("3.12", ("pytorch 2.7.1.*", "torchvision"), "12.9"),
        "cpu": request("3.12", ("pytorch 2.7.1.*", "torchvision"), None),
        "arm": request("3.12", ("pytorch 2.8.0.*",), "12.9", "linux-aarch64"),
    }
    found = {name: by_name(pins) for name, pins in resolver.resolve(asked, {}).items()}
    assert {name: str(pins["pytorch"].build)[:7] for name, pins in found.items()} == {
        "cu126": "cuda126", "cu129": "cuda129", "cpu": "cpu_mkl", "arm": "cuda129",
    }  # fmt: skip
    shared = ("numpy", "python", "networkx", "sympy", "filelock")
    assert {name: len({pins[name].version for pins in found.values()}) for name in shared} == dict.fromkeys(shared, 1)
    again = resolver.resolve(asked, {})
    assert {name: by_name(pins) for name, pins in again.items()} == found


def test_the_shipped_lock_is_of_recorded_records(root: Path, channel: Path) -> None:
    lock = load(root / "locks" / "hpc-v2.7" / "envspec.lock")
    assert [target.name for target in lock] == ["cu126-ampere", "cu128-gh200", "cu129-hopper"]
    for target in lock:
        conda = tuple(pin for pin in target.pins if pin.kind == "conda")
        assert {"ffmpeg", "openssh", "python"} <= set(by_name(conda))
        assert_as_recorded(conda, channel)
    assert judge(lock) == ()
    builds_of_torch = {t.name: pin.build for t in lock if (pin := t.pin("pytorch", "conda"))}
    assert {name: str(build)[:7] for name, build in builds_of_torch.items()} == {
        "cu126-ampere": "cuda126", "cu129-hopper": "cuda129",
    }  # fmt: skip


@pytest.mark.slow
def test_the_shipped_conda_half_is_what_solves(root: Path, resolver: CondaResolver) -> None:
    """Solved anew, with nothing kept: the same records."""
    lock = load(root / "locks" / "hpc-v2.7" / "envspec.lock")
    asked = {t.name: conda_request_for(lock.inputs, t.inputs, t.architectures) for t in lock}
    found = resolver.resolve(asked, {})
    for target in lock:
        conda = {pin.name: pin for pin in target.pins if pin.kind == "conda"}
        assert by_name(found[target.name]) == conda
