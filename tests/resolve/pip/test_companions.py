"""Companions of torch: their bounds count while solving, wherever torch and they come from."""

import json

import pytest
from support.channel import LocalChannel, Record, cuda_versions, pythons
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel
from support.torch_packages import stand_ins

from envspec.facts.corrections import corrections
from envspec.lock.model import LockedTarget, SpecInputs
from envspec.lock.rules.case import LockedCase
from envspec.lock.rules.requirements import stray_pins, unmet

LINUX = "platform = 'linux-64'"
CUDA = "platform = 'linux-64'\ncuda = '{}'\ngpus = ['A100']"
RUNTIME = ("nvidia-cuda-runtime-cu12", "12.8.90")


def targets(**lines: str) -> str:
    return "\n".join(f"[targets.{name}]\n{text}" for name, text in lines.items())


def versions(target: LockedTarget | None) -> dict[str, str]:
    assert target is not None
    case = LockedCase(target, SpecInputs())
    assert [*unmet(case), *stray_pins(case)] == []
    family = ("torch", "torchaudio", "torchvision")
    return {pin.name: pin.version for pin in target.pins if pin.name in family and pin.kind == "pip"}


def family_of_pypi(index: Index) -> None:
    """PyPI's torch and torchaudio as its METADATA has them: torchaudio 2.11.0 names no torch."""
    index.add(
        wheel(*RUNTIME), wheel("torch", "2.10.0", "==".join(RUNTIME)), wheel("torch", "2.9.1", "==".join(RUNTIME))
    )
    index.add(wheel("torchaudio", "2.9.1", "torch==2.9.1"), wheel("torchaudio", "2.10.0", "torch==2.10.0"))
    index.add(wheel("torchaudio", "2.11.0"))


def test_what_is_left_out_holds_for_every_build_of_a_version_alone() -> None:
    known = corrections()
    for version in ("2.11.0", "2.11.0+cpu", "2.11.0+cu126", "2.11.0+cu130"):
        assert known.missing_requirements("torchaudio", version, ()) == ("torch>=2.11.0",)
    assert (
        known.missing_requirements("torchaudio", "2.10.0", ())
        == known.missing_requirements("torchvision", "2.11.0", ())
        == ()
    )


@pytest.mark.e2e
@pytest.mark.parametrize("asked", [["torch==2.10.0", "torchaudio"], ["torch==2.10.0", "speech"]])
def test_torchaudio_goes_with_the_torch_of_pypi(machine: Machine, index: Index, asked: list[str]) -> None:
    family_of_pypi(index)
    index.add(wheel("speech", "1.0", "torch>=1.9", "torchaudio>=1.9"))
    machine.spec(cpu(*asked, targets=targets(t=CUDA.format("12.8"))))
    assert versions(machine.locked().target("t")) == {"torch": "2.10.0", "torchaudio": "2.10.0"}


@pytest.mark.slow
@pytest.mark.e2e
def test_torchaudio_goes_with_the_torch_of_the_pytorch_index(machine: Machine, index: Index) -> None:
    """The facts of cu129 hold torchaudio 2.11.0, which names no torch."""
    index.add(*stand_ins("cu129", "2.10.0"), wheel("speech", "1.0", "torch>=1.9", "torchaudio>=1.9"))
    machine.spec(cpu("torch==2.10.0", "speech", targets=targets(t=CUDA.format("12.9"))))
    assert versions(machine.locked().target("t")) == {"torch": "2.10.0+cu129", "torchaudio": "2.10.0+cu129"}


@pytest.mark.slow
@pytest.mark.e2e
def test_what_was_left_out_is_an_edge_of_the_lock_and_told(machine: Machine, index: Index) -> None:
    """Nothing else asks for torch here: torchaudio's own METADATA would leave it out."""
    index.add(*stand_ins("cu129", "2.11.0"), *stand_ins("cu129", "2.13.0"), *stand_ins("cu129", "2.12.1"))
    ran = machine.envspec("lock", machine.spec(cpu("torchaudio", targets=targets(t=CUDA.format("12.9")))), status=0)
    assert "note: t: torch>=2.11.0 added, because torchaudio 2.11.0 works with torch 2.11 and later" in ran.err
    assert 'without-corrections = ["torchaudio-torch"]' in ran.err
    target = machine.locked().target("t")
    assert target is not None
    pin = target.pin("torchaudio")
    assert pin is not None and pin.dependencies == ("torch>=2.11.0",)
    assert set(versions(target)) == {"torch", "torchaudio"}
    assert machine.envspec("check", "specs/demo.toml").status == 0


@pytest.mark.e2e
def test_switched_off_the_pair_is_not_locked_either(machine: Machine, index: Index) -> None:
    family_of_pypi(index)
    text = cpu("torch==2.10.0", "torchaudio", targets=targets(t=CUDA.format("12.8")))
    machine.spec(text.replace("[pip]", '[pip]\nwithout-corrections = ["torchaudio-torch"]'))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0 and "note: t: torchaudio 2.10.0 is locked, " in ran.err
    assert versions(machine.lock().target("t"))["torchaudio"] == "2.10.0"


@pytest.mark.e2e
def test_an_index_of_the_specs_own_says_what_its_torchaudio_needs(machine: Machine, index: Index) -> None:
    """Somebody's own build of 2.11.0 isn't the one whose METADATA is known to lack something."""
    family_of_pypi(index)
    with Index() as own:
        own.add(wheel("torchaudio", "2.11.0", "numpy"))
        index.add(wheel("numpy", "2.0"))
        text = cpu("torchaudio", targets=targets(t=LINUX))
        lines = f'[pip]\nindexes = {{ own = "{own.url}" }}\nsources = {{ torchaudio = "own" }}'
        assert versions(machine.locked(spec=text.replace("[pip]", lines)).target("t")) == {"torchaudio": "2.11.0"}


@pytest.mark.e2e
def test_torchaudio_goes_with_condas_torch(machine: Machine, index: Index) -> None:
    pytest.importorskip("rattler")
    channel = LocalChannel(machine.base / "channel" / "mine")
    torch = Record("pytorch", "2.10.0", "cpu_0", ("python >=3.10",))
    channel.write([*pythons("3.12.11"), *cuda_versions("12.8"), torch])
    machine.configure(f'mine = "{channel.folder}"')
    family_of_pypi(index)
    machine.spec(
        f"""
[env]
python = "3.12"
[conda]
channels = ["mine"]
dependencies = {json.dumps(["pytorch"])}
[pip]
dependencies = {json.dumps(["torchaudio"])}
[targets.t]
platform = "linux-64"
"""
    )
    assert versions(machine.locked().target("t")) == {"torchaudio": "2.10.0"}


@pytest.mark.e2e
def test_what_a_target_of_its_own_accord_would_not_say_is_told(machine: Machine, index: Index) -> None:
    """Extras that bring nothing and wheels for CUDA, in one lock of a CPU target."""
    index.add(
        wheel("top", "1.0", "helper[fast]", "vllm"), wheel("helper", "1.0", 'beta; extra == "quick"', extras=["quick"])
    )
    index.add(wheel("vllm", "0.11.0", "ray"), wheel("ray", "2.0", "cupy-cuda12x"), wheel("cupy-cuda12x", "13.6.0"))
    ran = machine.envspec("lock", machine.spec(cpu("top", "helper[nosuch]", targets=targets(t=LINUX))), status=0)
    warnings = [line.partition(": t: ")[2] for line in ran.err.splitlines() if line.startswith("warning: ")]
    assert sorted(warnings) == [
        "ray 2.0 requires cupy-cuda12x, which has no use in a CPU target",
        "the spec asks for helper[nosuch], but helper 1.0 has no such extra",
        "top asks for helper[fast], but helper 1.0 has no such extra",
        "vllm 0.11.0 is made for CUDA, and this is a CPU target: its wheels on PyPI are CUDA builds",
    ]


@pytest.mark.slow
@pytest.mark.e2e
def test_a_hole_of_the_facts_parts_the_targets_and_is_told(machine: Machine, index: Index) -> None:
    """torch 2.12.0 for CUDA 12.6 is in nobody's records; CUDA 12.9 has 2.12.1, which this spec leaves out."""
    index.add(*stand_ins("cu126", "2.10.0"), *stand_ins("cu130", "2.10.0"), *stand_ins("cu130", "2.12.0"))
    runtime = ("nvidia-cuda-runtime", "13.0.96")
    index.add(
        wheel(*runtime), wheel("torch", "2.12.0", "==".join(runtime)), wheel("torch", "2.11.0", "==".join(runtime))
    )
    lines = targets(c126=CUDA.format("12.6"), c130=CUDA.format("13.0"))
    ran = machine.envspec("lock", machine.spec(cpu("torch>=2.10,<=2.12.0", targets=lines)), status=0)
    found = machine.locked()
    assert versions(found.target("c126")) == {"torch": "2.10.0+cu126"}
    assert versions(found.target("c130")) == {"torch": "2.12.0"}
    assert "warning: c126: torch 2.10.0 is locked, not 2.12.0: envspec's own facts have no file of" in ran.err
    assert "2.10.0 is the newest that all targets could have" in ran.err
    assert "hint: if this machine reaches the PyTorch index, --refresh asks it" in ran.err
