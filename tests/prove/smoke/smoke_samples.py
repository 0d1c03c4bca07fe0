"""Reports and runs for the tests of what is made from them."""

from typing import Any

from msgspec.structs import replace

from envspec.prove.smoke.report.result import (
    CheckResult,
    CheckStatus,
    Figure,
    ReportedGpu,
    ReportedMachine,
    Results,
    Run,
    SmokeReport,
    Torch,
)
from envspec.spec.model import Reference

CPU = ReportedMachine(
    python="3.11.2", system="Linux-6.1.0-x86_64", glibc="2.36", cpus=2, memory_bytes=8 * 2**30, shm_bytes=64 * 2**20
)
GPU = replace(CPU, cpus=96, driver="570.86.15", gpus=(ReportedGpu("NVIDIA H100 80GB HBM3", "9.0", 85_520_809_984),))
TORCH = Torch("2.9.1+cu128", "12.8", "9.10.2", "2.27.5", ("sm_80", "sm_90"))

LAST_WORDS = 'Traceback (most recent call last):\n  File "check.py", line 7\nRuntimeError: no C compiler was found\n'


def check(name: str, status: CheckStatus = "pass", gpu: bool = False, seconds: float = 0.0, **more: Any) -> CheckResult:
    """A check of the group that its name begins with; `gpu` says whether it needs one."""
    return CheckResult(name, name.partition(".")[0], status, gpu, seconds, **more)


def checks(gpu: bool = True) -> tuple[CheckResult, ...]:
    """One of each kind; `gpu` says whether those that need one could run."""
    return (
        check("static.distributions", seconds=0.4, details={"count": 41}),
        check("static.user_site", seconds=0.1),
        check("device.driver", gpu=True, seconds=0.2) if gpu else no_gpu("device.driver"),
        check("operators.matmul.fp32", seconds=1.25),
        check("training.fp32", seconds=6.5),
        check("training.fp16", gpu=True, seconds=4.0) if gpu else no_gpu("training.fp16"),
        check("collectives.allreduce", "skip", reason="one process: nothing to reduce"),
    )


def no_gpu(name: str) -> CheckResult:
    return check(name, "skip", True, reason="there is no GPU", remedy="run it on one")


BROKEN = check(
    "compile.eager",
    "fail",
    seconds=3.0,
    reason="torch.compile needs a C compiler, and there is none",
    remedy="install gcc, or add it to the spec's image.apt",
    details={"compiler": None, "tried": ["cc", "gcc", "clang"]},
    output=LAST_WORDS,
)

FIGURES = (
    Figure("training.samples_per_s", 1180.4, "samples/s", Reference(1300.0, -0.05, None, "samples/s")),
    Figure("figures.copy_share", 0.91, "share", Reference(0.9, -0.1, 0.1)),
    Figure("figures.peak_memory", 2.5, "GiB"),
)
CURVES = {
    "training.fp32": tuple(2.3 * 0.94**step for step in range(20)),
    "training.bf16": tuple(2.32 * 0.945**step for step in range(20)),
}


def report(**changes: object) -> SmokeReport:
    made = SmokeReport(
        spec="demo",
        target="cu128-hopper",
        lock_digest="sha256:" + "1" * 64,
        fingerprint="sha256:" + "2" * 64,
        workload="multimodal",
        steps=20,
        device="cuda",
        quick=False,
        seed=0,
        started="2026-11-20T08:30:00Z",
        seconds=41.2,
        machine=GPU,
        torch=TORCH,
        checks=checks(),
        figures=FIGURES,
        curves=CURVES,
        complete=True,
    )
    return replace(made, **changes)


def on_cpu(**changes: object) -> SmokeReport:
    """The same without a GPU."""
    return report(**{"device": "cpu", "machine": CPU, "checks": checks(gpu=False), "figures": (), **changes})


def passed() -> Run:
    return Run.from_report("demo", "cu128-hopper", "slurm", report(), where="gpu-h100/node7", log="runs/1/log.txt")


def failed() -> Run:
    found = report(target="cu126-volta", checks=(*checks(), BROKEN), figures=())
    return Run.from_report("demo", "cu126-volta", "docker", found, log="runs/2/log.txt")


def blind() -> Run:
    return Run.from_report("demo", "cpu", "local", on_cpu(target="cpu"))


def broke() -> Run:
    return Run(
        "demo", "cu118", "apptainer", "error", reason="the image couldn't be built\nexit code 255", log="runs/3/log.txt"
    )


def left_out() -> Run:
    return Run("demo", "arm", "local", "skip", reason="linux-aarch64 doesn't run on linux-64")


def several() -> Results:
    return Results((passed(), failed(), blind(), broke(), left_out()))
