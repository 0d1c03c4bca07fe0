"""Every check of a machine, as a pure function on machines written down here."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.prove.doctor import nvidia
from envspec.prove.doctor.examine import (
    CHECKS,
    HARDWARE,
    compiler,
    conda,
    containers as check_containers,
    examine,
    glibc,
    leaks,
    shared_memory,
    slurm,
    space as check_space,
    user_namespaces,
)
from envspec.prove.doctor.machine import (
    Conda,
    Device,
    ForeignLibrary,
    Machine,
    Nvidia,
    Pythons,
    Quota,
    Slurm,
    Space,
    Tool,
    UserNamespaces,
    UserSite,
)
from envspec.prove.doctor.result import Result

GIB = 1 << 30
H100 = Device("NVIDIA H100 80GB HBM3", "9.0", 80 * GIB)
GOOD = Machine(
    platform="linux-64",
    glibc="2.36",
    pythons=Pythons("3.12.4", "/usr/bin/python3.12", ("3.11", "3.12"), headers=True),
    nvidia=Nvidia(("0000:01:00.0",), "570.86.15", "answered", (H100, H100)),
    shm=64 * GIB,
    spaces=(Space("home", "/home/ada", 500 * GIB, 1000 * GIB, 9_000_000),),
    containers=(Tool("apptainer", "/usr/bin/apptainer", "1.4.2"),),
    slurm=Slurm("24.05.2", {"gpu": "gpu:h100:8", "cpu": ""}),
    namespaces=UserNamespaces(True),
    compiler=Tool("gcc", "/usr/bin/gcc", "gcc 13.2.0"),
)
BARE = Machine("linux-64", "2.36", Pythons("3.12.4", "/usr/bin/python3"))


def told(check: Callable[[Machine], Result], machine: Machine) -> tuple[str, list[str]]:
    result = check(machine)
    return result.state, [finding.code for finding in result.findings]


def only(result: Result) -> Finding:
    (finding,) = result.findings
    return finding


def test_a_good_machine_has_nothing_to_say() -> None:
    results = examine(GOOD)
    assert [result.check for result in results if result.findings] == []
    assert {result.state for result in results if result.check != "conda"} == {"ok"}
    assert len({result.check for result in results}) == len(CHECKS) == 14
    assert examine(GOOD, HARDWARE) == results[: len(HARDWARE)]


def test_what_is_not_here_never_reads_as_good() -> None:
    states = {result.check: result.state for result in examine(BARE)}
    assert states == {
        "driver": "none",
        "NVML": "none",
        "GPUs": "none",
        "glibc": "ok",
        "CUDA libraries": "ok",
        "/dev/shm": "warning",
        "space": "unknown",
        "user namespaces": "unknown",
        "containers": "none",
        "Slurm": "none",
        "Python": "ok",
        "leaks": "ok",
        "C compiler": "warning",
        "conda": "none",
    }
    summary = nvidia.devices(BARE).summary
    assert summary == "no NVIDIA GPU here: no NVIDIA device on the PCI bus and no driver loaded"


def test_errors_and_warnings_come_with_a_remedy() -> None:
    machine = replace(
        BARE,
        glibc=None,
        nvidia=Nvidia(
            ("0000:01:00.0",), "570.86.15", "Driver/library version mismatch", (Device("X"),), ("/dev/nvidia0",), ""
        ),
        libraries=(ForeignLibrary("/usr/local/cuda/lib64/stubs/libcuda.so", "LD_LIBRARY_PATH"),),
        spaces=(Space("home", "/home/ada", 0, 1, 0, True),),
        quotas=(Quota("/home", 5, 5, 5, 5),),
        containers=(Tool("docker", "/usr/bin/docker", None, "no daemon"),),
        slurm=Slurm(None, {}, "no controller"),
        namespaces=UserNamespaces(False, "Operation not permitted"),
        conda=Conda("/opt/conda", "/venv", {"a": ("conda-forge", "defaults")}, {"a": "disabled"}),
        pythons=Pythons("3.12.4", "python", (), (UserSite("3.12", "/h", ("torch 2.1.0",)),), False, "/x"),
    )
    findings = [finding for result in examine(machine) for finding in result.findings]
    assert len(findings) >= 16
    assert all(finding.remedy for finding in findings)
    assert {f.severity for f in findings} == {"error", "warning"}
    codes = [finding.code for finding in findings]
    assert len(set(codes) - {"quota-low"}) == len([code for code in codes if code != "quota-low"])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Nvidia(), ("none", [])),
        (Nvidia(("0000:01:00.0",)), ("error", ["driver-missing"])),
        (Nvidia((), "570.86.15"), ("ok", [])),
    ],
)
def test_driver(found: Nvidia, expected: tuple[str, list[str]]) -> None:
    assert told(nvidia.driver, replace(BARE, nvidia=found)) == expected


@pytest.mark.parametrize(
    ("driver", "says"),
    [
        ("570.86.15", "CUDA 12.8 and older natively, all of CUDA 12 by minor-version compatibility"),
        ("470.57.02", "CUDA 11.4 and older natively, all of CUDA 11 by minor-version compatibility"),
        ("450.80.02", "no CUDA that envspec knows natively, all of CUDA 11 by minor-version compatibility"),
        ("390.10", "too old for CUDA 11.2 and newer"),
        ("580.65.06", "CUDA 13.0 and older natively, all of CUDA 13 by minor-version compatibility"),
        ("570-open", "a version that envspec can't read"),
    ],
)
def test_what_a_driver_runs(driver: str, says: str) -> None:
    assert nvidia.runs(driver, "linux-64") == says


@pytest.mark.parametrize(
    ("nvml", "driver", "expected"),
    [
        ("answered", "570.86.15", ("ok", [])),
        ("no-library", None, ("none", [])),
        ("no-module", "570.86.15", ("warning", ["nvml-not-asked"])),
        ("no-library", "570.86.15", ("warning", ["nvml-missing"])),
        ("Driver/library version mismatch", "570.86.15", ("error", ["nvml-mismatch"])),
        ("Unknown Error", "570.86.15", ("error", ["nvml-error"])),
    ],
)
def test_nvml(nvml: str, driver: str | None, expected: tuple[str, list[str]]) -> None:
    assert told(nvidia.nvml, replace(BARE, nvidia=Nvidia(driver=driver, nvml=nvml))) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Nvidia((), "570", "answered", (H100,)), ("ok", [])),
        (Nvidia((), "570", "answered"), ("error", ["no-device"])),
        (Nvidia((), "570", "answered", (H100,), ("/dev/nvidia0",)), ("error", ["device-closed"])),
        (Nvidia((), "570", "answered", (H100,), visible=""), ("warning", ["device-hidden"])),
        (Nvidia((), "570", "answered", (H100,), visible="-1"), ("warning", ["device-hidden"])),
        (Nvidia((), "570", "answered", (H100,), visible="0,1"), ("ok", [])),
        (Nvidia((), "570", "no-module", (Device("NVIDIA Phantom 1"),)), ("warning", ["unknown-gpu"])),
        (Nvidia((), "570", "answered", (Device("NVIDIA Phantom 1", "9.0"),)), ("ok", [])),
        (Nvidia((), "570", "answered", (Device("NVIDIA Phantom 1", "47.0"),)), ("warning", ["unknown-gpu"])),
    ],
)
def test_devices(found: Nvidia, expected: tuple[str, list[str]]) -> None:
    assert told(nvidia.devices, replace(BARE, nvidia=found)) == expected


def test_devices_are_described() -> None:
    mig = Device("NVIDIA A100-SXM4-40GB", "8.0", 40 * GIB, mig=True)
    found = replace(GOOD, nvidia=replace(GOOD.nvidia, devices=(H100, mig, H100, Device("NVIDIA T4"))))
    expected = "2 × NVIDIA H100 80GB HBM3 (sm_90, 80 GiB); NVIDIA A100-SXM4-40GB (sm_80, 40 GiB, MIG); NVIDIA T4"
    assert nvidia.devices(found).summary == expected


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (H100, "NVIDIA H100 80GB HBM3"),
        (Device("NVIDIA H100 80GB HBM3"), "NVIDIA H100 80GB HBM3"),
        (Device("NVIDIA H100 80GB HBM3", "12.0"), "12.0"),
        (Device("Engineering Sample", "9.0"), "9.0"),
        (Device("Engineering Sample"), None),
    ],
)
def test_the_name_the_tables_know(device: Device, name: str | None) -> None:
    assert nvidia.table_name(device) == name


def test_libraries_on_the_loaders_paths() -> None:
    shadowing = tuple(
        ForeignLibrary(f"/usr/local/cuda/lib64/libcu{name}.so.12", "LD_LIBRARY_PATH")
        for name in ("dart", "blas", "dnn", "fft", "sparse")
    )
    stub = ForeignLibrary("/usr/local/cuda/lib64/stubs/libcuda.so", "LD_LIBRARY_PATH")
    preloaded = ForeignLibrary("/opt/libnccl.so.2", "LD_PRELOAD")
    system_wide = ForeignLibrary("/usr/lib/libcudart.so.12", "ldconfig")
    assert told(nvidia.libraries, BARE) == ("ok", [])
    assert told(nvidia.libraries, replace(BARE, libraries=(system_wide,))) == ("ok", ["cuda-in-system"])
    assert told(nvidia.libraries, replace(BARE, libraries=(stub,))) == ("error", ["cuda-stub"])
    result = nvidia.libraries(replace(BARE, libraries=(*shadowing, stub, preloaded, system_wide)))
    codes = [finding.code for finding in result.findings]
    assert codes == ["cuda-stub", "cuda-shadowed", "cuda-shadowed", "cuda-in-system"]
    assert "libcudart.so.12, " in result.findings[1].message and "and 2 more" in result.findings[1].message


@pytest.mark.parametrize(
    ("platform", "version", "expected"),
    [
        ("linux-64", "2.36", ("ok", [])),
        ("linux-64", "2.28", ("ok", [])),
        ("linux-64", "2.17", ("warning", ["glibc-old"])),
        ("linux-64", None, ("error", ["no-glibc"])),
        ("osx-arm64", None, ("none", [])),
    ],
)
def test_glibc(platform: str, version: str | None, expected: tuple[str, list[str]]) -> None:
    assert told(glibc, replace(BARE, platform=platform, glibc=version)) == expected


def test_an_old_glibc_is_told_the_last_torch() -> None:
    message = only(glibc(replace(BARE, glibc="2.17"))).message
    assert "needs; torch 2.6.0 is the last that fits" in message


@pytest.mark.parametrize(
    ("size", "state"), [(None, "warning"), (64 << 20, "warning"), (GIB - 1, "warning"), (GIB, "ok"), (64 * GIB, "ok")]
)
def test_shared_memory(size: int | None, state: str) -> None:
    assert shared_memory(replace(BARE, shm=size)).state == state


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (UserNamespaces(True), ("ok", [])),
        (UserNamespaces(None), ("unknown", [])),
        (UserNamespaces(None, None, {"user.max_user_namespaces": "0"}), ("warning", ["no-user-namespaces"])),
        (UserNamespaces(None, None, {"user.max_user_namespaces": "9"}), ("unknown", [])),
        (UserNamespaces(False, "Operation not permitted"), ("warning", ["no-user-namespaces"])),
    ],
)
def test_user_namespaces(found: UserNamespaces, expected: tuple[str, list[str]]) -> None:
    assert told(user_namespaces, replace(BARE, namespaces=found)) == expected


def test_the_kernels_setting_is_named() -> None:
    off = {"kernel.unprivileged_userns_clone": "1", "kernel.apparmor_restrict_unprivileged_userns": "1"}
    message = only(user_namespaces(replace(BARE, namespaces=UserNamespaces(False, "denied", off)))).message
    assert "(kernel.apparmor_restrict_unprivileged_userns = 1)" in message


@pytest.mark.parametrize(
    ("space", "codes"),
    [
        (Space("home", "/h", 500 * GIB, 900 * GIB, 9_000_000), []),
        (Space("home", "/h", 500 * GIB, 900 * GIB, None), []),
        (Space("home", "/h", 2 * GIB, 900 * GIB, None), ["space-low"]),
        (Space("home", "/h", 500 * GIB, 900 * GIB, 1000), ["inodes-low"]),
        (Space("home", "/h", 500 * GIB, 900 * GIB, None, read_only=True), ["read-only"]),
    ],
)
def test_space(space: Space, codes: list[str]) -> None:
    assert told(check_space, replace(BARE, spaces=(space,)))[1] == codes


@pytest.mark.parametrize(
    ("quota", "messages"),
    [
        (Quota("/home", 0, None, 0, None), []),
        (Quota("/home", 10 << 20, 50 << 20, 0, None), []),
        (Quota("/home", 49 << 20, 50 << 20, 0, None), ["the quota on /home leaves 1.07 GB of 53.69 GB"]),
        (Quota("/home", 0, None, 90_000, 100_000), ["the quota on /home leaves 10,000 of 100,000 files"]),
        (Quota("/home", 60 << 20, 50 << 20, 0, None), ["the quota on /home leaves 0 B of 53.69 GB"]),
    ],
)
def test_quota(quota: Quota, messages: list[str]) -> None:
    assert [finding.message for finding in check_space(replace(BARE, quotas=(quota,))).findings] == messages


@pytest.mark.parametrize(
    ("containers", "driver", "expected"),
    [
        ((), None, ("none", [])),
        ((Tool("docker", "/d", "28.0"),), None, ("ok", [])),
        ((Tool("docker", "/d", "28.0"),), "570", ("warning", ["container-toolkit-missing"])),
        ((Tool("docker", "/d", "28.0"), Tool("nvidia-ctk", "/n", "1.17")), "570", ("ok", [])),
        ((Tool("docker", "/d", "28.0"), Tool("apptainer", "/a", "1.4")), "570", ("ok", [])),
        ((Tool("docker", "/d", "28.0", "no answer within 5 s"),), None, ("warning", ["container-unusable"])),
        ((Tool("nvidia-ctk", "/n", "1.17"),), "570", ("none", [])),
    ],
)
def test_containers(containers: tuple[Tool, ...], driver: str | None, expected: tuple[str, list[str]]) -> None:
    machine = replace(BARE, containers=containers, nvidia=Nvidia(driver=driver))
    assert told(check_containers, machine) == expected


def test_slurm() -> None:
    assert slurm(GOOD).summary == "24.05.2; with GPUs: gpu (gpu:h100:8)"
    assert slurm(replace(GOOD, slurm=Slurm("24.05.2"))).summary == "24.05.2; no partition lists GPUs"
    silent = replace(GOOD, slurm=Slurm("24.05.2", {}, "slurm_load_partitions: Unable to contact slurm controller"))
    assert told(slurm, silent) == ("warning", ["slurm-silent"])


def test_leaks() -> None:
    site = UserSite("3.12", "/home/ada/.local/lib/python3.12/site-packages", tuple(f"package{n} 1.0" for n in range(7)))
    leaking = replace(BARE.pythons, user_sites=(site,))
    result = leaks(replace(BARE, pythons=leaking))
    assert only(result).code == "user-site"
    assert "package4 1.0 and 2 more: every Python 3.12" in only(result).message
    assert "PYTHONNOUSERSITE=1" in str(only(result).remedy)
    assert told(leaks, replace(BARE, pythons=replace(leaking, no_user_site=True))) == ("ok", [])
    assert told(leaks, replace(BARE, pythons=replace(BARE.pythons, path="/x"))) == ("warning", ["pythonpath"])


def test_compiler() -> None:
    assert told(compiler, BARE) == ("warning", ["no-compiler"])
    headless = replace(GOOD, pythons=replace(GOOD.pythons, headers=False))
    assert told(compiler, headless) == ("ok", ["no-python-headers"])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (Conda(), ("none", [])),
        (Conda("/opt/conda"), ("ok", [])),
        (Conda("/opt/conda", "/venv"), ("warning", ["two-environments"])),
        (Conda(channels={"/h/.condarc": ("conda-forge", "defaults")}), ("warning", ["mixed-channels"])),
        (Conda(channels={"/h/.condarc": ("conda-forge", "nodefaults")}), ("ok", [])),
        (Conda(priority={"/h/.condarc": "disabled"}), ("warning", ["channel-priority"])),
        (Conda(priority={"/h/.condarc": "strict"}), ("ok", [])),
    ],
)
def test_conda(settings: Conda, expected: tuple[str, list[str]]) -> None:
    assert told(conda, replace(BARE, conda=settings)) == expected
