"""Reading a machine: file systems laid out here, programs written here, and the real machine at last."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from envspec.prove.doctor.examine import examine, findings_about_conda
from envspec.prove.doctor.gather import (
    CommandOutput,
    ask_nvml,
    ask_program,
    closed_files,
    gather,
    gather_conda,
    gather_hardware,
    kernel_driver,
    pci_devices,
    read_nvidia,
)
from envspec.prove.doctor.machine import Device, Nvidia

VERSION = """\
NVRM version: NVIDIA UNIX {flavour}x86_64 Kernel Module  {version}  Tue Sep  9 12:00:00 UTC 2026
GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)
"""


def write(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def program(folder: Path, name: str, script: str) -> None:
    write(folder / name, f"#!/bin/sh\n{script}\n", 0o755)


def silent() -> tuple[str, tuple[Device, ...], str | None]:
    return "no-library", (), None


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The file system of a machine with an H100 and a Matrox."""
    write(tmp_path / "proc/driver/nvidia/version", VERSION.format(flavour="", version="570.86.15"))
    write(tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 1\n")
    for address, vendor, kind in (("0000:01:00.0", "0x10de", "0x030200"), ("0000:02:00.0", "0x102b", "0x030000")):
        write(tmp_path / "sys/bus/pci/devices" / address / "vendor", f"{vendor}\n")
        write(tmp_path / "sys/bus/pci/devices" / address / "class", f"{kind}\n")
    return tmp_path


def test_the_kernels_files_do_without_nvml(root: Path) -> None:
    found = read_nvidia(root, None, silent)
    expected = Nvidia(("0000:01:00.0",), "570.86.15", "no-library", (Device("NVIDIA H100 80GB HBM3"),))
    assert found == expected


@pytest.mark.parametrize("flavour", ["", "Open Kernel Module for "])
@pytest.mark.parametrize("version", ["570.86.15", "535.104.05", "470.57"])
def test_kernel_driver(tmp_path: Path, flavour: str, version: str) -> None:
    write(tmp_path / "proc/driver/nvidia/version", VERSION.format(flavour=flavour, version=version))
    assert kernel_driver(tmp_path) == version


def test_an_empty_machine(tmp_path: Path) -> None:
    assert read_nvidia(tmp_path, "0", silent) == Nvidia(visible="0")


def test_nvidias_other_devices_are_no_gpus(tmp_path: Path) -> None:
    write(tmp_path / "sys/bus/pci/devices/0000:03:00.0/vendor", "0x10de")
    write(tmp_path / "sys/bus/pci/devices/0000:03:00.0/class", "0x068000")
    assert pci_devices(tmp_path) == ()


def test_closed_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-modeset"):
        write(root / "dev" / name, "")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith(("nvidia1", "nvidia-modeset")))
    assert closed_files(root) == ("/dev/nvidia1",)


class Failure(Exception):
    def __init__(self, value: int, text: str) -> None:
        super().__init__(text)
        self.value = value


def library(**parts: object) -> SimpleNamespace:
    """NVML with one H100; `parts` replace what it has."""
    whole: dict[str, object] = {
        "NVMLError": Failure,
        "NVML_ERROR_LIBRARY_NOT_FOUND": 12,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlSystemGetDriverVersion": lambda: b"570.86.15",
        "nvmlDeviceGetName": lambda handle: "NVIDIA H100 80GB HBM3",
        "nvmlDeviceGetCudaComputeCapability": lambda handle: (9, 0),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=80 << 30),
        "nvmlDeviceGetMigMode": lambda handle: (1, 1),
    }
    return SimpleNamespace(**{**whole, **parts})


def fails(value: int, text: str) -> object:
    def call(*arguments: object) -> None:
        raise Failure(value, text)

    return call


def test_nvml_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library())
    device = Device("NVIDIA H100 80GB HBM3", "9.0", 80 << 30, mig=True)
    assert ask_nvml() == ("answered", (device,), "570.86.15")


def test_nvml_without_memory_or_mig(monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = fails(3, "Not Supported")
    parts = library(nvmlDeviceGetMemoryInfo=refuses, nvmlDeviceGetMigMode=refuses)
    monkeypatch.setitem(sys.modules, "pynvml", parts)
    assert ask_nvml()[1] == (Device("NVIDIA H100 80GB HBM3", "9.0"),)


@pytest.mark.parametrize(
    ("parts", "state"),
    [
        ({"nvmlInit": fails(12, "NVML Shared Library Not Found")}, "no-library"),
        ({"nvmlInit": fails(18, "Driver/library version mismatch")}, "Driver/library version mismatch"),
        ({"nvmlDeviceGetCount": fails(999, "Unknown Error")}, "Unknown Error"),
    ],
)
def test_nvml_fails(monkeypatch: pytest.MonkeyPatch, parts: dict[str, object], state: str) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library(**parts))
    assert ask_nvml() == (state, (), None)


def test_nvml_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert ask_nvml() == ("no-module", (), None)


def test_asking_programs(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path)}
    program(tmp_path, "good", "echo $1 $LC_ALL")
    program(tmp_path, "bad", "echo no daemon >&2; echo more >&2; exit 3")
    program(tmp_path, "mute", "exit 3")
    write(tmp_path / "broken", "#!/no/such/shell\n", 0o755)
    assert ask_program("good", "a", env=env) == CommandOutput("a C\n")
    assert ask_program("bad", env=env) == CommandOutput("", "no daemon")
    assert ask_program("mute", env=env) == CommandOutput("", "exit status 3")
    assert ask_program("missing", env=env) is None
    broken = ask_program("broken", env=env)
    assert broken is not None and broken.problem == "No such file or directory"


def test_a_program_that_hangs_ends_with_its_children(tmp_path: Path) -> None:
    program(tmp_path, "hang", "/bin/sleep 60 & /bin/sleep 60")
    started = time.monotonic()
    answer = ask_program("hang", env={"PATH": str(tmp_path)}, seconds=0.3)
    assert answer == CommandOutput("", "no answer within 0 s")
    assert time.monotonic() - started < 10


def test_gathering_a_made_up_machine(tmp_path: Path) -> None:
    home, bin_, cuda = tmp_path / "home", tmp_path / "bin", tmp_path / "cuda"
    program(
        bin_,
        "docker",
        '[ "$1" = --version ] && echo "Docker version 28.2.2, build x" && exit; echo no daemon >&2; exit 1',
    )
    program(bin_, "apptainer", "echo apptainer version 1.4.2")
    program(
        bin_, "sinfo", '[ "$1" = --version ] && echo "slurm 24.05.2" && exit; echo "gpu* gpu:h100:8"; echo "cpu (null)"'
    )
    program(bin_, "gcc", "echo gcc 13.2.0; echo more")
    program(bin_, "python3.12", "")
    program(bin_, "unshare", "echo unshare: denied >&2; exit 1")
    program(
        bin_,
        "ldconfig",
        'echo "	libcudart.so.12 (libc6,x86-64) => /usr/lib/libcudart.so.12"; echo "	libc.so.6 => /lib/libc.so.6"',
    )
    row = "/dev/sda1 1000 0 2000 0 5* 0 10 0"
    program(
        bin_,
        "quota",
        f'echo "Disk quotas for user x:"; echo "Filesystem blocks quota limit grace files quota limit"; echo "{row}"',
    )
    for name in ("libcudart.so.12", "libcublas.so.12", "libstdc++.so.6"):
        write(cuda / name, "")
    (cuda / "libcudart.so").symlink_to(cuda / "libcudart.so.12")
    write(cuda / "stubs" / "libcuda.so", "")
    site = home / ".local/lib/python3.12/site-packages"
    for name in ("torch-2.1.0.dist-info", "nvidia_cublas_cu12-12.1.dist-info", "requests-2.0.dist-info", "torch"):
        (site / name).mkdir(parents=True)
    write(home / ".condarc", "channels:\n  - conda-forge\n  - defaults\nchannel_priority: disabled\n")
    env = {
        "PATH": str(bin_),
        "HOME": str(home),
        "LD_LIBRARY_PATH": f"{cuda}:{cuda}/stubs::{tmp_path}/missing",
        "LD_PRELOAD": "/opt/libnccl.so.2 /opt/libother.so",
        "CONDA_PREFIX": str(tmp_path / "conda"),
        "VIRTUAL_ENV": "/venv",
        "PYTHONPATH": "/leak",
        "SCRATCH": str(tmp_path),
    }
    machine = gather(env)
    docker, apptainer = machine.containers
    assert (docker.name, docker.version, docker.problem) == ("docker", "28.2.2", "no daemon")
    assert (apptainer.name, apptainer.version, apptainer.problem) == ("apptainer", "1.4.2", None)
    assert machine.slurm is not None
    assert (machine.slurm.version, machine.slurm.partitions) == ("24.05.2", {"gpu": "gpu:h100:8", "cpu": ""})
    assert machine.compiler is not None and machine.compiler.version == "gcc 13.2.0"
    assert machine.pythons.versions == ("3.12",)
    assert [(u.python, u.packages) for u in machine.pythons.user_sites] == [
        ("3.12", ("nvidia-cublas-cu12 12.1", "torch 2.1.0"))
    ]
    assert (machine.pythons.path, machine.pythons.no_user_site) == ("/leak", False)
    assert (machine.namespaces.works, machine.namespaces.problem) == (False, "unshare: denied")
    assert [(library.path.removeprefix(str(cuda)), library.via) for library in machine.libraries] == [
        ("/libcublas.so.12", "LD_LIBRARY_PATH"),
        ("/libcudart.so", "LD_LIBRARY_PATH"),
        ("/stubs/libcuda.so", "LD_LIBRARY_PATH"),
        ("/opt/libnccl.so.2", "LD_PRELOAD"),
        ("/usr/lib/libcudart.so.12", "ldconfig"),
    ]
    (quota,) = machine.quotas
    assert (quota.filesystem, quota.used, quota.limit, quota.files, quota.file_limit) == (
        "/dev/sda1",
        1000,
        2000,
        5,
        10,
    )
    assert machine.conda.prefix == str(tmp_path / "conda")
    assert machine.conda.channels == {str(home / ".condarc"): ("conda-forge", "defaults")}
    assert machine.conda.priority == {str(home / ".condarc"): "disabled"}
    assert [(space.role, space.path) for space in machine.spaces][1:] == [
        ("home", str(home)),
        ("scratch", str(tmp_path)),
    ]


def test_gathering_without_any_program(tmp_path: Path) -> None:
    machine = gather({"PATH": str(tmp_path), "HOME": str(tmp_path / "none")})
    assert machine.containers == () and machine.slurm is None and machine.compiler is None
    assert machine.namespaces.works is None
    assert examine(machine)


def test_this_machine_is_read() -> None:
    machine = gather_hardware()
    assert machine.platform.startswith(("linux-", "osx-", "win-"))
    assert machine.pythons.version.startswith(f"{sys.version_info[0]}.{sys.version_info[1]}.")
    if sys.platform == "linux":
        assert machine.glibc is None or machine.glibc.startswith("2.")


@pytest.mark.parametrize(
    ("text", "channels", "priority"),
    [
        ("", None, None),
        ("channels: [conda-forge, 'defaults']", ("conda-forge", "defaults"), None),
        ('channels:\n- "conda-forge"  # first\n', ("conda-forge",), None),
        ("ssl_verify: true\nchannel_priority: Strict", None, "strict"),
        ("channel_priority: false", None, "false"),
        ("# channels:\n#  - x\n", None, None),
        ("custom_channels:\n  channels: [x]\n", None, None),
        ("channels: {a: b}\n", None, None),
    ],
)
def test_what_a_file_says(text: str, channels: tuple[str, ...] | None, priority: str | None, tmp_path: Path) -> None:
    path = tmp_path / ".condarc"
    path.write_text(text)
    found = gather_conda({"HOME": str(tmp_path)})
    assert found.channels.get(str(path)) == channels
    assert found.priority.get(str(path)) == priority
    assert not found.unread


def test_every_file_that_conda_reads_is_looked_at(tmp_path: Path) -> None:
    for name in ("xdg/conda", "home/.conda", "prefix"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / ".condarc").write_text("channels: [a]\n")
    (tmp_path / "mine").write_text("channels: [$MINE]\n")
    env = {"HOME": "home", "XDG_CONFIG_HOME": "xdg", "CONDA_PREFIX": "prefix", "CONDARC": "mine"}
    found = gather_conda({key: str(tmp_path / value) for key, value in env.items()})
    assert [Path(path).relative_to(tmp_path).as_posix() for path in found.channels] == [
        *("xdg/conda/.condarc", "home/.conda/.condarc", "prefix/.condarc", "mine")
    ]


def test_a_file_that_is_no_yaml_is_named(tmp_path: Path) -> None:
    (tmp_path / ".condarc").write_text("channels: [\n")
    (finding,) = findings_about_conda(gather_conda({"HOME": str(tmp_path)}))
    assert finding.code == "condarc-unread" and str(tmp_path / ".condarc") in finding.message
