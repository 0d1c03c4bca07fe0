"""The preflight: what it says of a driver and GPUs, all of it given as arguments, as no GPU is here."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envspec.carried.preflight import Gpu, Machine, judge, look, main

TARGET: dict[str, Any] = {
    "schema": 1,
    "spec": "mm-v2.9",
    "target": "cu128-hopper",
    "cuda": "12.8",
    "gpus": ["H100", "H200"],
    "architectures": ["sm_90"],
    "code": {"sm": ["7.5", "8.0", "8.6", "9.0"], "ptx": []},
    "driver_floor": "525.60.13",
}
H100 = Gpu("NVIDIA H100 80GB HBM3", "9.0")
SCRIPT = Path(__file__).resolve().parents[2] / "envspec" / "carried" / "preflight.py"


def machine(*gpus: Gpu, driver: str | None = "550.54.15", nvml: bool = True) -> Machine:
    return Machine(driver, gpus, nvml)


def test_what_fits_is_silent() -> None:
    assert judge(TARGET, machine(H100, H100)) == (False, "")


@pytest.mark.parametrize("driver", ["525.60.13", "525.60.14", "530", "1000.1"])
def test_the_floor_itself_will_do(driver: str) -> None:
    assert judge(TARGET, machine(H100, driver=driver)) == (False, "")


@pytest.mark.parametrize("driver", ["525.60.12", "525", "470.256.02", "99.99"])
def test_a_driver_below_the_locks_floor_is_a_warning(driver: str) -> None:
    stop, text = judge(TARGET, machine(H100, driver=driver))
    assert not stop
    assert text == f"the driver is {driver}, and CUDA 12.8 on this target's GPUs needs 525.60.13"


@pytest.mark.parametrize(
    ("cuda", "stops"), [("11.8", True), ("9.2", True), ("12.0", False), ("12.8", False), ("13.1", False), (None, False)]
)
def test_a_driver_that_says_it_runs_no_cuda_of_this_major_stops(cuda: str | None, stops: bool) -> None:
    """Its own word, whatever the lock's tables hold: an older minor runs by minor-version compatibility."""
    stop, text = judge(TARGET | {"driver_floor": None}, Machine("470.256.02", (H100,), True, cuda))
    assert stop is stops
    assert not stops or text.startswith(
        f"the driver 470.256.02 says that it runs CUDA {cuda} at most, and this image is for CUDA 12.8: update"
    )


@pytest.mark.parametrize(
    ("capability", "runs"),
    [("9.0", True), ("8.9", True), ("8.0", True), ("8.7", False), ("7.5", True), ("7.0", False), ("10.0", False)],
)
def test_code_of_the_same_major_and_no_newer_minor_runs(capability: str, runs: bool) -> None:
    stop, text = judge(TARGET, machine(Gpu("a GPU", capability)))
    assert not stop and ("can't run this image, by the lock's facts" in text) is not runs


def test_ptx_runs_on_newer_gpus_alone() -> None:
    target = TARGET | {"code": {"sm": ["8.0"], "ptx": ["9.0"]}}
    assert "can't run" not in judge(target, machine(Gpu("B200", "10.0"))).text
    assert "can't run" in judge(target, machine(Gpu("V100", "7.0"))).text


def test_a_gpu_without_code_is_named_and_starts() -> None:
    """The table of what torch holds may be wrong, or older than the machine: torch's own error ends what can't work."""
    stop, text = judge(TARGET, machine(Gpu("Tesla V100", "7.0"), Gpu("Tesla V100", "7.0")))
    assert not stop and text.count("Tesla V100") == 1
    assert "use a target of mm-v2.9 that is for it" in text


def test_one_gpu_of_several_without_code_is_a_warning() -> None:
    stop, text = judge(TARGET, machine(H100, Gpu("GeForce GT 710", "3.5")))
    assert not stop and "GeForce GT 710 (3.5)" in text and "H100" not in text


def test_another_gpu_than_the_target_is_for_is_a_warning() -> None:
    stop, text = judge(TARGET, machine(Gpu("NVIDIA A100", "8.0")))
    assert not stop
    assert text.startswith("this image was locked for H100 or H200, and here is NVIDIA A100 (8.0)")


def test_without_known_code_the_architectures_of_the_target_count() -> None:
    target = TARGET | {"code": None}
    assert not judge(target, machine(H100)).text
    assert "can't run" in judge(target, machine(Gpu("NVIDIA A100", "8.0"))).text


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (machine(driver=None, nvml=False), "no NVIDIA driver is visible"),
        (machine(nvml=False), "its libraries aren't visible"),
        (machine(), "no GPU is visible"),
    ],
)
def test_no_gpu_is_a_warning(seen: Machine, said: str) -> None:
    stop, text = judge(TARGET, seen)
    assert not stop and said in text and "--gpus" in text


def test_a_cpu_target_looks_at_nothing() -> None:
    assert judge(TARGET | {"cuda": None}, machine(driver="1.0")) == (False, "")


@pytest.fixture
def target_file(tmp_path: Path) -> Path:
    path = tmp_path / "target.json"
    path.write_text(json.dumps(TARGET))
    return path


@pytest.mark.parametrize(
    ("seen", "code"),
    [
        (machine(H100), 0),
        (machine(driver=None), 0),
        (machine(H100, driver="470.1"), 0),
        (machine(Gpu("V\n100", "7.0")), 0),
        (Machine("470.1", (H100,), True, "11.4"), 1),
    ],
)
def test_it_says_one_line(target_file: Path, seen: Machine, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(target_file)], lambda: seen) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == (0 if seen == machine(H100) else 1)
    assert ("ENVSPEC_SKIP_PREFLIGHT=1" in err) is bool(code)


def test_a_doubt_is_told_once_a_node(
    target_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rank's start runs it; the driver's own word ends each."""
    for rank in ("0", "1", "2"):
        monkeypatch.setenv("SLURM_LOCALID", rank)
        assert main([str(target_file)], lambda: machine(H100, driver="470.1")) == 0
    assert capsys.readouterr().err.count("\n") == 1
    assert main([str(target_file)], lambda: Machine("470.1", (H100,), True, "11.4")) == 1
    assert "says that it runs CUDA 11.4" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_an_unreadable_target_is_told(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "target.json"
    path.write_text(text)
    assert main([str(path)], machine) == 2
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(("wanted", "code"), [("", 0), ("a=sha256:1 cpu=sha256:2", 0), ("cpu=sha256:1", 1)])
def test_an_image_of_another_lock_than_its_jobs_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], wanted: str, code: int
) -> None:
    path = tmp_path / "target.json"
    path.write_text(json.dumps({"target": "cpu", "cuda": None, "lock_digest": "sha256:2"}))
    monkeypatch.setenv("ENVSPEC_LOCK", wanted)
    assert main([str(path)], lambda: machine()) == code
    assert ("this image is of another lock than the job" in capsys.readouterr().err) == bool(code)


def test_a_cpu_target_does_not_even_look(tmp_path: Path) -> None:
    path = tmp_path / "target.json"
    path.write_text(json.dumps(TARGET | {"cuda": None}))

    def never() -> Machine:
        raise AssertionError("it looked")

    assert main([str(path)], never) == 0


class FakeNvml:
    """NVML's functions as ctypes calls them."""

    def __init__(self, driver: str, *gpus: tuple[str, int, int], status: int = 0) -> None:
        self.driver, self.gpus, self.status, self.ended = driver, gpus, status, False

    def nvmlInit_v2(self) -> int:
        return self.status

    def nvmlShutdown(self) -> int:
        self.ended = True
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, size: int) -> int:
        text.value = self.driver.encode()[: size - 1]
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        ctypes.cast(count, ctypes.POINTER(ctypes.c_uint))[0] = len(self.gpus)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, number: int, handle: Any) -> int:
        ctypes.cast(handle, ctypes.POINTER(ctypes.c_void_p))[0] = number + 1
        return 0 if self.gpus[number][0] else 4

    def nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> int:
        _, first, second = self.gpus[handle.value - 1]
        ctypes.cast(major, ctypes.POINTER(ctypes.c_int))[0] = first
        ctypes.cast(minor, ctypes.POINTER(ctypes.c_int))[0] = second
        return 0

    def nvmlDeviceGetName(self, handle: Any, name: Any, size: int) -> int:
        name.value = self.gpus[handle.value - 1][0].encode()[: size - 1]
        return 0


def test_nvml_is_read_and_ended_faked() -> None:
    nvml = FakeNvml("570.86.10", ("NVIDIA H100", 9, 0), ("", 0, 0), ("NVIDIA L4", 8, 9))
    assert look(lambda: nvml) == Machine("570.86.10", (Gpu("NVIDIA H100", "9.0"), Gpu("NVIDIA L4", "8.9")), True)
    assert nvml.ended


def test_the_drivers_own_cuda_is_read_faked() -> None:
    class Telling(FakeNvml):
        def nvmlSystemGetCudaDriverVersion_v2(self, version: Any) -> int:
            ctypes.cast(version, ctypes.POINTER(ctypes.c_int))[0] = 12040
            return 0

    assert look(lambda: Telling("550.54.15")).cuda == "12.4"


@pytest.mark.parametrize(("cuda", "doubted"), [("12.8", True), ("12.9", False), ("13.0", False), (None, False)])
def test_a_driver_compiles_no_ptx_that_is_newer_than_its_cuda(cuda: str | None, doubted: bool) -> None:
    """NVIDIA, CUDA Compatibility: minor-version compatibility leaves PTX out."""
    target = {"cuda": "12.9", "driver_floor": "525.60.13", "code": {"sm": ["8.0"], "ptx": ["9.0"]}}
    said = judge(target, Machine("570.86.10", (Gpu("NVIDIA B200", "10.0"),), True, cuda)).text
    assert bool(said) is doubted


def test_the_look_has_a_line_for_each_gpu_the_drivers_cuda_and_nvlink_faked(capsys: pytest.CaptureFixture[str]) -> None:
    class Linked(FakeNvml):
        def nvmlSystemGetCudaDriverVersion_v2(self, version: Any) -> int:
            ctypes.cast(version, ctypes.POINTER(ctypes.c_int))[0] = 12040
            return 0

        def nvmlDeviceGetNvLinkState(self, handle: Any, link: int, state: Any) -> int:
            ctypes.cast(state, ctypes.POINTER(ctypes.c_uint))[0] = int(link != 3)
            return 0 if link < 12 else 3

    assert main(["--look"], lambda: look(lambda: Linked("550.54.15", ("A100", 8, 0), ("A30", 8, 0)))) == 0
    said = capsys.readouterr().out
    assert said == "GPU: A100 (8.0)\nGPU: A30 (8.0)\ndriver: 550.54.15, CUDA 12.4\nNVLinks up: 22\n"
    assert main(["--look"], lambda: Machine(None, (), False)) == 0
    assert capsys.readouterr().out == "GPU: none\ndriver: none\nNVLinks up: none\n"


def test_without_nvml_the_kernel_module_tells_faked(tmp_path: Path) -> None:
    version = tmp_path / "version"
    version.write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC\n"
    )

    def missing() -> Any:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    assert look(missing, str(version)) == Machine("535.183.01", (), False)
    assert look(lambda: FakeNvml("", status=18), str(version)) == Machine("535.183.01", (), False)
    assert look(missing, str(tmp_path / "none")) == Machine(None, (), False)


def test_it_stands_alone(tmp_path: Path, target_file: Path) -> None:
    """As a program beside the check, without envspec, isolated; torch isn't imported."""
    (tmp_path / "preflight.py").write_text(SCRIPT.read_text())
    shutil.copytree(SCRIPT.parents[2] / "check", tmp_path / "check")
    code = "import runpy, sys; sys.argv = ['p']\ntry: runpy.run_path('preflight.py', run_name='__main__')\n"
    code += "except SystemExit as end: assert end.code in (0, 1), end.code\n"
    code += "assert not {'torch', 'envspec'} & {m.split('.')[0] for m in sys.modules}"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, "-ISc", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
