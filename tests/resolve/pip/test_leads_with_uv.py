"""Who requires, leads: uv and the shipped facts of torch, with stand-ins of the packages around it."""

import pytest
from resolutions import CUDA, LINUX, lock, targets
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel
from support.torch_packages import stand_ins
from support.uv_questions import questions

from envspec.lock.model import Lock
from envspec.resolve.workflow.keep import Upgrade

pytestmark = pytest.mark.e2e

C126 = targets(t=CUDA.format("12.6"))
BEFORE = "2026-11-20"


def spec(*lines: str, on: str = C126, extra: str = "") -> str:
    return cpu(*lines, targets=on, extra=extra)


def versions(locked: Lock) -> dict[str, str]:
    (target,) = locked
    return {pin.name: pin.version.partition("+")[0] for pin in target.pins}


@pytest.fixture
def torch(index: Index) -> Index:
    """What torch 2.9.1, 2.10.0 and 2.12.1 for CUDA 12.6 require, setuptools below 82 for the newest alone, and newer
    ones of that."""
    for version in ("2.9.1", "2.10.0", "2.12.1"):
        index.add(*stand_ins("cu126", version, skip=["setuptools"]))
    for version, day in (("81.0.0", "2026-02-06"), ("82.0.0", "2026-04-01"), ("84.2.1", "2026-11-12")):
        index.add(wheel("setuptools", version), uploaded=f"{day}T00:00:00Z")
    return index


@pytest.mark.slow
@pytest.mark.parametrize("beside", [("setuptools",), ("setuptools", "wheel"), ()])
def test_naming_what_torch_requires_costs_no_release_of_torch(
    machine: Machine, torch: Index, beside: tuple[str, ...]
) -> None:
    torch.add(wheel("wheel", "0.46.1"))
    for lines in (("torch", *beside), (*beside, "torch")):
        machine.spec(spec(*lines))
        found = versions(lock(machine))
        assert (found["torch"], found["setuptools"]) == ("2.12.1", "81.0.0"), lines


@pytest.mark.slow
def test_nor_does_what_builds_alone_need(machine: Machine, torch: Index) -> None:
    """As flash-attn's build-dependencies; and an upgrade does what `outdated` says."""
    builds = "build-dependencies = { other = ['torch', 'ninja', 'setuptools'] }"
    torch.add(wheel("other", "1.0", "torch"), wheel("ninja", "1.13"))
    machine.spec(spec("torch", "other", extra=builds))
    before = lock(machine)
    assert (versions(before)["torch"], versions(before)["setuptools"]) == ("2.12.1", "81.0.0")
    assert lock(machine, before, Upgrade(everything=True)) == before


@pytest.mark.slow
def test_what_pins_torch_leads_it(machine: Machine, torch: Index) -> None:
    """As vLLM, sglang and whisperX: their newest that fits, and torch as they require, not a server of 2023."""
    torch.add(wheel("server", "0.2.5"), uploaded="2023-11-01T00:00:00Z")
    torch.add(wheel("server", "0.19", "torch==2.10.0"), uploaded="2026-04-01T00:00:00Z")
    torch.add(wheel("server", "0.33", "torch==2.14.1"), uploaded="2026-11-01T00:00:00Z")
    for lines in (("torch", "server"), ("server", "torch")):
        machine.spec(spec(*lines))
        with questions() as asked:
            found = versions(lock(machine))
        assert (found["server"], found["torch"]) == ("0.19", "2.10.0"), lines
        assert max(map(len, asked.values())) <= 3


@pytest.mark.slow
def test_an_extra_of_the_specs_leads_too(machine: Machine, torch: Index) -> None:
    torch.add(wheel("server", "0.2.5", extras=["gpu"]), uploaded="2023-11-01T00:00:00Z")
    torch.add(wheel("server", "0.19", 'torch==2.10.0; extra == "gpu"', extras=["gpu"]), uploaded="2026-04-01T00:00:00Z")
    machine.spec(spec("torch", "server[gpu]"))
    assert (found := versions(lock(machine)))["server"] == "0.19" and found["torch"] == "2.10.0"


@pytest.mark.slow
def test_a_companion_without_a_build_holds_torch_and_is_told(machine: Machine, torch: Index) -> None:
    """torchaudio ends at 2.10 for CUDA 12.6, as far as the facts have its files."""
    ran = machine.envspec("lock", machine.spec(spec("torch", "torchaudio")), status=0)
    found = machine.versions("t")
    assert (found["torch"], found["torchaudio"]) == ("2.10.0+cu126", "2.10.0+cu126")
    assert "warning: t: torch 2.10.0 is locked, not " in ran.err and "torchaudio" in ran.err


@pytest.mark.by_day(1)
@pytest.mark.parametrize("names", [("torch", "jax"), ("jax", "torch"), ("tensorflow", "torch")])
def test_of_two_frameworks_the_specs_first_is_held(machine: Machine, index: Index, names: tuple[str, str]) -> None:
    """Where their newest don't go together, and neither would be behind."""
    for name, core in zip(names, ("core<2", "core>=2"), strict=True):
        for version, day, line in (("2.8.0", "2026-05-01", "core"), ("2.8.1", "2026-06-01", core)):
            index.add(wheel(name, version, line), uploaded=f"{day}T00:00:00Z")
    index.add(wheel("core", "1.0"), wheel("core", "2.0"))
    ran = machine.envspec("lock", machine.spec(spec(*names, on="[targets.t]\nplatform = 'osx-arm64'\n")), status=0)
    found = machine.versions("t")
    assert (found[names[0]], found[names[1]]) == ("2.8.1", "2.8.0"), ran.err


def cloud(index: Index) -> None:
    """boto3 and botocore of each month, and s3fs, which leads to a botocore of its time since 2021."""
    for month in range(1, 12):
        day, version = f"2026-{month:02}-02T00:00:00Z", f"1.{month}.0"
        index.add(wheel("botocore", version), wheel("boto3", version, f"botocore=={version}"), uploaded=day)
    index.add(wheel("s3fs", "0.4.2", "botocore"), uploaded="2020-03-31T00:00:00Z")
    index.add(wheel("s3fs", "2026.10.0", "aiobotocore"), uploaded="2026-10-20T00:00:00Z")
    index.add(wheel("aiobotocore", "3.1", "botocore<1.10"), uploaded="2026-10-01T00:00:00Z")


def test_none_falls_behind_to_bring_another_forward(machine: Machine, index: Index) -> None:
    cloud(index)
    for names in (("boto3", "s3fs"), ("s3fs", "boto3")):
        ran = machine.envspec("lock", machine.spec(spec(*names, on=targets(t=LINUX))), status=0)
        found = machine.versions("t")
        assert (found["s3fs"], found["boto3"]) == ("2026.10.0", "1.9.0"), found
        assert "warning" not in ran.err, ran.err


@pytest.mark.slow
def test_what_the_spec_bounds_and_what_is_kept_is_not_told(machine: Machine, index: Index) -> None:
    cloud(index)
    bounded = spec("boto3==1.11.0", "s3fs<1", on=targets(t=LINUX))
    assert "warning" not in machine.envspec("lock", machine.spec(bounded), status=0).err
    only = spec("boto3==1.11.0", "s3fs", on=targets(t=LINUX))
    kept = machine.envspec("lock", machine.spec(only), status=0)
    assert machine.versions("t")["s3fs"] == "0.4.2" and "warning" not in kept.err, kept.err
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade-package", "s3fs", status=0)
    said = "s3fs 0.4.2 is locked, not 2026.10.0: newer ones don't go with botocore 1.11.0"
    assert f"warning: t: {said}" in ran.err, ran.err


def test_one_cause_is_one_warning(machine: Machine, index: Index) -> None:
    """A Python that newer releases left."""
    for name in ("a", "b", "c"):
        index.add(wheel(name, "1.0"), uploaded="2023-01-01T00:00:00Z")
        index.add(wheel(name, "2.0", requires_python=">=3.13"), uploaded="2026-01-01T00:00:00Z")
    ran = machine.envspec("lock", machine.spec(spec("a", "b", "c", on=targets(t=LINUX))), status=0)
    assert [line for line in ran.err.splitlines() if "warning" in line] == [
        "warning: t: a 1.0 (not 2.0), b 1.0 (not 2.0) and c 1.0 (not 2.0) are locked: newer ones want another Python "
        "than 3.12"
    ]


def test_no_solve_is_made_for_a_warning(machine: Machine, index: Index) -> None:
    index.add(wheel("a", "1.0"), uploaded="2023-01-01T00:00:00Z")
    index.add(wheel("a", "2.0", requires_python=">=3.13"), uploaded="2026-01-01T00:00:00Z")
    with questions() as asked:
        ran = machine.envspec("lock", machine.spec(spec("a", on=targets(t=LINUX))), status=0)
    assert "warning: t: a 1.0 is locked, not 2.0" in ran.err
    assert sum(map(len, asked.values())) == 1
