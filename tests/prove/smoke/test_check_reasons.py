"""What is said where a machine or its settings are at fault, and that no process stays behind."""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from check_program import ROOT, command, gone, program
from envspec_check.checks.compile import lacking_to_compile
from envspec_check.checks.ddp import training_fsdp
from envspec_check.checks.isolation import static_library_path
from envspec_check.checks.memory import Held, leak
from envspec_check.failures import explain
from envspec_check.interface import Context, Skip
from envspec_check.trainer import exact_fp32, lacks

CONTEXT = Context({"target": "t", "lock": {"targets": {"t": {}}}}, "cpu", "llm", 5, True, 0, 60.0, Path(), "check")


WORKER = "DataLoader worker (pid 7)"


@pytest.mark.parametrize(
    ("text", "reason", "remedy"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk of the folder for temporary", "--scr"),
        ("RuntimeError: . unexpected pos 64 vs 0", "a checkpoint couldn't be written whole:", "make room"),
        (f"RuntimeError: {WORKER} is killed by signal: Killed. ", "a worker of the DataLoader was killed:", "num_w"),
        ("RuntimeError: DataLoader worker (pid(s) 7, 8) exited unexpectedly", "a worker of the Da", "num_workers=0"),
        ("KeyError: Caught KeyError in DataLoader worker process 0.", "a worker of the DataLoader raised KeyEr", "own"),
        (
            "RuntimeError: [enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: eth9",
            "Gloo finds no network interface eth9 on this machine:",
            "GLOO_SOCKET_IFNAME",
        ),
        (
            "RuntimeError: [enforce fail at device.cc:84] ifa != nullptr. Unable to find address for: lo",
            "Gloo finds no address of this machine's loopback interface:",
            "ip link set lo up",
        ),
        ("RuntimeError: CUDA out of memory. Tried", "RuntimeError: CUDA out of memory. Tried", "memory"),
        ("ValueError: no", "ValueError: no", None),
    ],
)  # fmt: skip
def test_an_error_that_a_machine_causes_is_told_in_words(text: str, reason: str, remedy: str | None) -> None:
    told, do = explain(text)
    assert told.startswith(reason) and text in told
    assert do is None if remedy is None else remedy in (do or "")


def test_a_libcuda_that_triton_does_not_find() -> None:
    found = lacking_to_compile("AssertionError: libcuda.so cannot found!\nPossible files are located at []")
    assert found is not None and found.status == "fail"
    assert "TRITON_LIBCUDA_PATH" in (found.remedy or "") and "--nv" in (found.remedy or "")


def test_a_torch_that_shards_on_gpus_alone_is_not_asked_to_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 2.6 and its `torch.cpu.Stream` do, which FSDP2 asks for an event."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.6.0", cpu=SimpleNamespace(Stream=object)))
    monkeypatch.setitem(sys.modules, "torch.distributed.fsdp", SimpleNamespace(fully_shard=None))
    with pytest.raises(Skip, match="shards on GPUs alone"):
        training_fsdp(replace(CONTEXT, quick=False))


def test_a_cuda_library_on_the_path_is_nothing_to_a_target_for_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcudart.so.12").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert static_library_path(CONTEXT).status == "pass"
    cuda = replace(CONTEXT, config={"target": "t", "lock": {"targets": {"t": {"cuda": "12.8"}}}})
    assert static_library_path(cuda).status == "fail"


class StandInTorch:
    """A torch that emulates bf16, on a card of a capability."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.cuda = self
        self.get_device_capability = lambda: capability
        self.is_bf16_supported = lambda: True


@pytest.mark.parametrize(
    ("capability", "told"), [((7, 0), "the GPU has no bf16"), ((7, 5), "the GPU has no bf16"), ((8, 0), None)]
)
def test_emulated_bf16_is_none_by_a_stand_in_for_the_card(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], told: str | None
) -> None:
    monkeypatch.setattr("envspec_check.trainer.the_torch", lambda: StandInTorch(capability))
    lacks.cache_clear()
    assert lacks("cuda", "bf16") == told
    lacks.cache_clear()


@pytest.mark.parametrize(
    ("tensors", "process", "steps", "told"),
    [
        (0, 30 << 20, 25, None),
        (25 << 10, 0, 25, "memory grows from step to step: by 1 KiB a step over 25 steps (held by tensors)"),
        (0, 100 << 20, 25, "memory grows from step to step: by 4096 KiB a step over 25 steps (of the process)"),
        (1 << 30, 1 << 30, 4, None),  # too few to tell from caches
    ],
)
def test_memory_that_grows(tensors: int, process: int, steps: int, told: str | None) -> None:
    assert leak(Held(1000, 1000), Held(1000 + tensors, 1000 + process), steps) == told


@pytest.mark.slow
def test_a_folder_for_temporary_files_may_be_relative(tmp_path: Path) -> None:
    path = program(
        tmp_path, "ended = ctx.run_again('shout', 'hey')\n    return interface.passed(details={'code': ended.code})"
    )
    words = [word if word != str(tmp_path / "scratch") else "scratch" for word in command(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=120)
    report = json.loads((tmp_path / "report.json").read_text())
    assert [one["status"] for one in report["checks"]] == ["pass", "pass", "pass"], done.stderr
    assert report["checks"][1]["details"] == {"code": 7}


@pytest.mark.slow
def test_a_full_disk_is_told_though_the_log_lies_on_it(tmp_path: Path) -> None:
    """The check's folder is on a file system of 256 KiB, which the check fills."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    small = 'mount -t tmpfs -o size=256k tmpfs "$0" && exec "$@"'
    path = program(tmp_path, "open(ctx.scratch / 'half.pt', 'wb').write(bytes(1 << 20))")
    words = command(path)
    before = [*unshare, "sh", "-c", small, str(tmp_path / "scratch")]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*before, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("unshare can't mount a file system here")
    subprocess.run([*before, *words], capture_output=True, text=True, check=False, timeout=120)
    report = json.loads((tmp_path / "report.json").read_text())
    assert [one["status"] for one in report["checks"]] == ["pass", "fail", "pass"]
    bad = report["checks"][1]
    assert bad["reason"].startswith("the disk of the folder for temporary files is full: OSError: [Errno 28]")
    assert "--scratch" in bad["remedy"]


ORPHAN = """
import sys, time
sys.path.insert(0, sys.argv[1])
from envspec_check.process import fork
pid, _ = fork(lambda: time.sleep(600))
print(pid, flush=True)
time.sleep(600)
"""


def test_what_was_forked_ends_with_who_forked_it() -> None:
    words = [sys.executable, "-c", ORPHAN, str(ROOT / "check")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        child = int(process.stdout.readline())
        process.kill()
    assert gone(child)


BESIDE = """
@interface.check("compile.slow", torch=False, table=TABLE)
def slow(ctx):
    time.sleep(1.5)
    return interface.passed(details={"ended": time.time()})

@interface.check("figures.alone", torch=False, table=TABLE)
def alone(ctx):
    return interface.passed(details={"began": time.time()})
"""


@pytest.mark.slow
def test_what_compiles_runs_beside_the_others_and_figures_alone(tmp_path: Path) -> None:
    """torch is a stand-in, so that its import costs nothing."""
    path = program(tmp_path, "time.sleep(1.5)\n    return interface.passed(details={'ended': time.time()})")
    (tmp_path / "torch.py").write_text("__version__ = '0'\nclass version: cuda = None\n")
    text = path.read_text().replace("@put\ndef after", BESIDE + "\n@put\ndef after")
    importing = "from envspec_check.command"
    text = text.replace(importing, f"sys.path.insert(0, {str(tmp_path)!r})\n{importing}")
    path.write_text(text.replace("torch=False, ", ""))
    began = time.monotonic()
    subprocess.run(command(path), capture_output=True, text=True, check=False, timeout=120)
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    found = {one["name"]: one for one in report["checks"]}
    assert [one["status"] for one in report["checks"]] == ["pass"] * 5, report
    assert list(found) == ["operators.before", "operators.bad", "operators.after", "compile.slow", "figures.alone"]
    assert found["figures.alone"]["details"]["began"] >= found["compile.slow"]["details"]["ended"]
    if (os.cpu_count() or 1) > 1:
        apart = found["compile.slow"]["details"]["ended"] - found["operators.bad"]["details"]["ended"]
        assert apart < 1.5, time.monotonic() - began


def test_float32_is_no_tf32_whatever_torch_allows() -> None:
    """Convolutions take TF32 on Ampere unless they are told not to."""
    allowed = SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)), SimpleNamespace(allow_tf32=True)
    exact_fp32(SimpleNamespace(backends=SimpleNamespace(cuda=allowed[0], cudnn=allowed[1])))
    assert (allowed[0].matmul.allow_tf32, allowed[1].allow_tf32) == (False, False)


def test_the_driver_and_gpus_are_judged_by_what_was_stricter_when_it_was_exported() -> None:
    locked = {"cuda": "12.8", "driver-floor": "525.60.13", "architectures": ["sm_70", "sm_90"]}
    config = {"target": "t", "lock": {"targets": {"t": locked}}, "driver_floor": "570", "architectures": ["sm_90"]}
    assert replace(CONTEXT, config=config).target == {**locked, "driver-floor": "570", "architectures": ["sm_90"]}
    older: dict[str, Any] = {
        "target": "t",
        "lock": {"targets": {"t": locked}},
        "driver_floor": None,
        "architectures": [],
    }
    assert replace(CONTEXT, config=older).target == locked
