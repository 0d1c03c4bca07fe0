"""`envspec doctor`: what it prints, when it says no, and what it refuses."""

import json
from pathlib import Path

import jsonschema
import pytest
from cli_project import Envspec
from msgspec.structs import replace
from support.documents import valid
from support.golden import golden

import envspec.cli
import envspec.prove.doctor.gather
from envspec.prove.doctor.machine import Device, Machine, Nvidia, Pythons

pytest_plugins = ["cli_fixtures"]

SPEC = """\
[env]
python = "3.12"
[pip]
dependencies = ["torch==2.9.*"]
[targets.volta]
platform = "linux-64"
cuda = "12.6"
gpus = ["V100"]
[targets.hopper]
platform = "linux-64"
cuda = "13.0"
gpus = ["H100"]
[targets.cpu]
platform = "linux-64"
"""

MACHINE = Machine(
    platform="linux-64",
    glibc="2.36",
    pythons=Pythons("3.12.4", "/usr/bin/python3.12", headers=True),
    nvidia=Nvidia(("0000:01:00.0",), "570.86.15", "answered", (Device("NVIDIA H100 80GB HBM3", "9.0", 80 << 30),)),
)
BARE = replace(MACHINE, nvidia=Nvidia())


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.toml").write_text(SPEC)
    return "demo.toml"


def on(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command find this machine."""
    monkeypatch.setattr(envspec.prove.doctor.gather, "gather", lambda: machine)
    monkeypatch.setattr(envspec.prove.doctor.gather, "gather_hardware", lambda: machine)


def test_a_spec_on_described_hardware(spec: str, envspec: Envspec) -> None:
    told = envspec("doctor", spec, "--gpu", "H100", "--driver", "535.104", "--glibc", "2.31")
    assert (told.code, told.err) == (1, "")
    assert golden(Path(__file__).parent / "golden" / "doctor.txt", told.out) == told.out


def test_a_feasible_one(spec: str, envspec: Envspec) -> None:
    told = envspec("doctor", spec, "--gpu", "sm_90", "--driver", "580.82.07")
    assert told.code == 0
    assert told.out.splitlines()[2] == "hopper  feasible    torch 2.9.1, 2.9.0"


def test_described_hardware_leaves_the_machine_alone(
    spec: str, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look() -> Machine:
        raise AssertionError("the machine was looked at")

    monkeypatch.setattr("envspec.prove.doctor.gather.gather_hardware", look)
    assert envspec("doctor", spec, "--driver", "580.82.07").code == 0
    monkeypatch.setenv("ENVSPEC_TRACEBACK", "1")
    assert "AssertionError: the machine was looked at" in envspec("doctor", spec).err


def test_one_target(spec: str, envspec: Envspec) -> None:
    told = envspec("doctor", spec, "--target", "hopper", "--gpu", "V100")
    assert told.code == 1
    assert [line.split()[0] for line in told.out.splitlines()[1:]] == ["hopper", "error:", "remedy:"]
    assert "error: demo.toml:11:8: CUDA 13.0 has dropped Volta" in told.out


def test_a_spec_on_this_machine(spec: str, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    on(MACHINE, monkeypatch)
    told = envspec("doctor", spec)
    assert told.code == 1
    lines = told.out.splitlines()
    assert lines[0].startswith("driver  ok       570.86.15: CUDA 12.8 and older natively")
    assert "demo.toml on NVIDIA H100 80GB HBM3, driver 570.86.15, glibc 2.36, linux-64" in lines
    assert "hopper  infeasible" in lines


def test_a_spec_on_a_machine_without_gpu(spec: str, envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    on(BARE, monkeypatch)
    told = envspec("doctor", spec)
    assert told.code == 0
    assert "driver  none     no NVIDIA GPU here:" in told.out
    assert "judges CUDA targets by the GPUs that they name  [no-gpu-here]" in told.out


def test_a_broken_driver_is_an_error_for_cuda_targets_only(
    spec: str, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(replace(MACHINE, nvidia=Nvidia(("0000:01:00.0",))), monkeypatch)
    assert envspec("doctor", spec).code == 1
    Path(spec).write_text(SPEC[: SPEC.index("[targets.volta]")] + SPEC[SPEC.index("[targets.cpu]") :])
    assert envspec("doctor", spec).code == 0


def test_this_machine(envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    on(BARE, monkeypatch)
    told = envspec("doctor")
    assert told.code == 0
    lines = told.out.splitlines()
    assert (
        lines[0] == "driver           none     no NVIDIA GPU here: no NVIDIA device on the PCI bus and no driver loaded"
    )
    assert "  warning: there is no /dev/shm  [shm-missing]" in lines
    assert "    remedy: mount /dev/shm: DataLoader workers need it" in lines


def test_an_error_of_the_machine_is_exit_1(envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    on(replace(MACHINE, nvidia=replace(MACHINE.nvidia, nvml="Driver/library version mismatch")), monkeypatch)
    told = envspec("doctor")
    assert told.code == 1
    assert "NVML             error    doesn't answer" in told.out


@pytest.mark.slow
def test_the_real_machine(envspec: Envspec) -> None:
    told = envspec("doctor", "--json")
    document = valid(told.out, "doctor")
    assert told.code == (0 if document["ok"] else 1)
    assert len(document["checks"]) == 14


@pytest.mark.parametrize("machine", [MACHINE, BARE])
def test_json(spec: str, envspec: Envspec, monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    on(machine, monkeypatch)
    for arguments in ((), (spec,), (spec, "--gpu", "V100", "--driver", "470.57.02")):
        told = envspec("doctor", *arguments, "--json")
        document = valid(told.out, "doctor")
        assert told.code == (0 if document["ok"] else 1)
    assert document["hardware"] == {"gpus": ["V100"], "driver": "470.57.02", "glibc": None, "platform": None}
    volta = document["targets"][0]
    assert (volta["target"], volta["status"], volta["torch"]) == ("volta", "infeasible", [])
    assert [(found["code"], found["file"], found["line"]) for found in volta["findings"]] == [
        ("driver-forward-compatibility", "demo.toml", 5)
    ]
    del document["targets"][0]["findings"]
    with pytest.raises(jsonschema.ValidationError):
        valid(json.dumps(document), "doctor")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["demo.toml", "--gpu", "H1000"], '--gpu: unknown GPU "H1000"', 'did you mean "H100", "H800" or "H200"?'),
        (["demo.toml", "--gpu", ""], '--gpu: unknown GPU ""', 'of a newer GPU, name the compute capability ("sm_90")'),
        (["demo.toml", "--driver", "new"], '--driver: "new" is not a driver version', "for example 570.86.15"),
        (["demo.toml", "--driver", "1.2.3.4"], '--driver: "1.2.3.4" is not a driver version', "for example"),
        (["demo.toml", "--driver", "\x1b[2J"], '--driver: "\\x1b[2J" is not a driver version', "for example"),
        (["demo.toml", "--driver", "٥٧٠"], '--driver: "٥٧٠" is not a driver version', "for example"),
        (["demo.toml", "--glibc", "3"], '--glibc: "3" is not a glibc version', "for example 2.28"),
        (["demo.toml", "--target", "hoper"], "demo.toml has no target hoper", "did you mean hopper?"),
        (["demo.toml", "--target", "x"], "demo.toml has no target x", "its targets: volta, hopper, cpu"),
        (["--gpu", "H100"], "--gpu, --driver and --glibc need a SPEC", "`envspec builds torch --gpu H100`"),
        (["--gpu", "NVIDIA GH200 480GB"], "--gpu, --driver", "`envspec builds torch --gpu 'NVIDIA GH200 480GB'`"),
        (["--driver", "570"], "--gpu, --driver and --glibc need a SPEC", "`envspec builds torch` shows"),
        (["--target", "x"], "--target needs a SPEC", "envspec doctor specs/NAME.toml --target NAME"),
        (["missing.toml"], "missing.toml", ""),
    ],
)
def test_wrong_input(spec: str, envspec: Envspec, arguments: list[str], error: str, hint: str) -> None:
    told = envspec("doctor", *arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"error: {error}")
    assert f"hint: {hint}" in told.err
