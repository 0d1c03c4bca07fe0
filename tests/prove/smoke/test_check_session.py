"""Which checks run on what, and what is said of the others: a CUDA target on machines with GPUs and without.

The GPUs are stand-ins: a runner that answers as torch would there, and starts no process.
"""

import io
from dataclasses import replace
from typing import Any

import envspec_check.checks
import envspec_check.workloads  # noqa: F401
import pytest
from envspec_check.checks.collectives import collectives_ddp
from envspec_check.checks.compile import lacking_to_compile
from envspec_check.checks.gpu.device import device_visible
from envspec_check.interface import CHECKS, TIMEOUT, Context, Fault, Skip
from envspec_check.lock import FRAMEWORKS
from envspec_check.ranks import on_the_cpu
from envspec_check.report import Progress
from envspec_check.session import Session
from envspec_check.trainer import native_precision
from support.check_session import StandInRunner, context, session

from envspec.prove.doctor import fits
from envspec.prove.smoke.run import case

DEVICE = (*("device.driver", "device.visible", "device.count", "device.capability", "device.memory", "device.health"),)


def test_cuda_that_was_asked_for_and_isnt_there_fails_what_needs_it() -> None:
    runner = StandInRunner(0)
    found, report = session(runner, "cuda", ("device", "dataloader", "collectives"))
    for name in ("device.capability", "device.memory", "dataloader.pinned", "collectives.nccl"):
        assert found[name] == ("fail", "cuda was asked for and this process has no GPU")
        assert name not in [one for one, _, _ in runner.ran]
    assert report["summary"]["verdict"] == "fail"
    assert "--device cpu" in next(one["remedy"] for one in report["checks"] if one["name"] == "device.memory")


@pytest.mark.parametrize(("name", "check"), [("fabric", "collectives.fabric"), ("compile", "compile.eager")])
def test_what_an_image_was_made_without_is_skipped_by_name(name: str, check: str) -> None:
    group = check.partition(".")[0]
    made = Session(context("cuda", "cu128"), CHECKS, (group,), StandInRunner(2))  # type: ignore[arg-type]
    made.ctx.config["without"] = [name, "ssh"]
    made.run(Progress([], io.StringIO()))
    found = {one["name"]: one["reason"] for one in made.report()["checks"] if one["status"] == "skip"}
    assert found[check] == f"the image was made without what `{name}` needs (envspec image --without)"
    assert "collectives.nccl" not in found


def test_a_look_for_gpus_that_failed_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = session(StandInRunner(2, probe_fails=True), "cuda", ("device",))
    reason = "cuda was asked for and this process has no GPU; the look for GPUs failed: it crashed (SIGSEGV)"
    assert found["device.memory"] == ("fail", reason)


def test_no_gpu_is_visible_though_cuda_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envspec_check.checks.gpu.device.nvml", lambda: None)
    monkeypatch.setattr(Context, "torch", None)
    with pytest.raises(Fault, match="cuda was asked for and this process has no GPU"):
        device_visible(context("cuda", "cu128"))
    with pytest.raises(Skip, match="this process has no GPU"):
        device_visible(context("cpu", "cu128"))


@pytest.mark.parametrize("group", ["training", "operators", "determinism", "figures", "static"])
@pytest.mark.parametrize(("device", "gpus"), [("cpu", 0), ("cpu", 8), ("auto", 0)])
def test_a_cuda_target_on_the_cpu_says_that_no_gpu_check_ran(group: str, device: str, gpus: int) -> None:
    found, report = session(StandInRunner(gpus), device, (group,), driver="550.54.15")
    needing = [name for name in found if CHECKS[name].needs == "gpu"]
    assert {name for name, (status, _) in found.items() if status != "pass"} == set(needing)
    counts = f"{len(found) - len(needing)} passed, 0 failed, {len(needing)} skipped"
    need = "need" if len(needing) > 1 else "needs"
    told = f" ({len(needing)} of them {need} a GPU)" if needing else ""
    assert report["summary"]["headline"] == f"no GPU check ran: {counts}{told}"
    assert (report["device"], report["cuda"]) == ("cpu", "12.8")


def test_a_driver_is_no_gpu() -> None:
    found, report = session(StandInRunner(0), "auto", ("device",), driver="550.54.15")
    assert [found[name][0] for name in DEVICE] == ["pass", "pass", "skip", "skip", "skip", "skip"]
    assert report["summary"]["headline"] == "no GPU check ran: 2 passed, 0 failed, 4 skipped (4 of them need a GPU)"


def test_on_a_gpu_nothing_is_said_of_its_absence() -> None:
    for group in ("device", "training"):
        found, report = session(StandInRunner(1), "auto", (group,), driver="550.54.15")
        assert report["summary"]["headline"] == f"{len(found)} passed, 0 failed, 0 skipped"


def test_a_cpu_target_lacks_no_gpu() -> None:
    found, report = session(StandInRunner(0), "auto", ("training", "device"), target="cpu")
    assert report["summary"]["headline"] == f"{len(found) - 7} passed, 0 failed, 7 skipped"
    assert found["device.driver"][1] == "needs NVIDIA's driver: the target is for CPUs"


def test_who_asks_for_the_cpu_gets_no_gpu() -> None:
    runner = StandInRunner(8)
    found, _ = session(runner, "cpu", (), driver="550.54.15")
    assert {(device, gpus) for _, device, gpus in runner.ran} == {("cpu", 0)}
    skipped = {name for name, (status, _) in found.items() if status == "skip"}
    assert skipped == {one.name for one in CHECKS.values() if one.needs and one.framework in (None, "torch")}
    assert all("it was asked for the CPU" in (found[name][1] or "") for name in skipped)


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_checks_on_gpus_are_told_how_many(device: str) -> None:
    runner = StandInRunner(4)
    session(runner, device, (), driver="550.54.15")
    with_torch = {(on, gpus) for name, on, gpus in runner.ran if name in CHECKS and CHECKS[name].torch}
    assert with_torch == {("cuda", 4)}


def test_gpus_are_looked_for_before_the_driver_is_judged() -> None:
    """The kernel module may not tell its version where torch sees the GPUs all the same."""
    runner = StandInRunner(1)
    found, _ = session(runner, "auto", ("device",), driver=None)
    assert [name for name, _, _ in runner.ran] == ["probe", *DEVICE]
    assert found["device.driver"][0] == "pass"


def test_a_driver_is_judged_where_torch_can_not_be_imported() -> None:
    found, report = session(StandInRunner(0, lacking=True), "auto", ("device",), driver="550.54.15")
    assert found["device.driver"] == ("pass", None)
    assert found["device.visible"] == ("fail", "torch can't be imported: no")
    assert found["device.memory"] == ("skip", "torch can't be imported")
    assert report["summary"]["headline"].startswith("no GPU check ran: 1 passed, 1 failed, 4 skipped")


# -- precision, ranks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workload", "without", "chosen"),
    [
        ("llm", (), "bf16"),
        ("llm", ("bf16",), "fp32"),  # a V100 or T4 before torch 2.4
        ("deit", (), "fp16"),
        ("deit", ("fp16",), "bf16"),
        ("deit", ("fp16", "bf16"), "fp32"),
        ("basic", ("bf16",), "fp32"),
    ],
)
def test_a_workload_trains_in_what_the_device_can(
    monkeypatch: pytest.MonkeyPatch, workload: str, without: tuple[str, ...], chosen: str
) -> None:
    monkeypatch.setattr(
        "envspec_check.trainer.lacks", lambda device, precision: "it hasn't" if precision in without else None
    )
    assert native_precision(workload, "cuda") == chosen


def test_ranks_on_the_cpu_are_told_where_the_report_is_of_a_gpu() -> None:
    gpu = replace(context("cuda", "cu128"), gpus=1)
    assert on_the_cpu(gpu, "gloo") == "on the CPU, by Gloo: there is one GPU"
    assert on_the_cpu(replace(gpu, gpus=2), "nccl") is None
    assert on_the_cpu(context("cpu", "cu128"), "gloo") is None


def test_one_gpu_trains_by_nccl_alone_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks are stand-ins, the worlds that are asked for are not."""
    asked = []

    def stand_in(ctx: Context, world: int, backend: str, work: object) -> list[dict[str, Any]]:
        asked.append((backend, world))
        return [{"first": 2.0, "last": 1.0 if backend == "gloo" else 3.0, "weights": "w", "apart": 0.0}] * world

    monkeypatch.setattr("envspec_check.checks.collectives.ranks", stand_in)
    found = collectives_ddp(replace(context("cuda", "cu128"), gpus=1))
    assert asked == [("gloo", 2), ("nccl", 1)]
    assert (found.status, found.reason) == ("fail", "the loss didn't fall")
    asked.clear()
    assert collectives_ddp(context("cpu", "cu128")).status == "pass"
    assert asked == [("gloo", 2)]


def test_a_gpu_too_old_for_triton_is_named() -> None:
    text = (
        "GPUTooOldForTriton: Found Tesla P100-PCIE-16GB which is too old to be supported by the triton GPU compiler, "
        "which is used as the backend. Triton only supports devices of CUDA Capability >= 7.0, but your device is of "
        "CUDA capability 6.0"
    )
    found = lacking_to_compile(text)
    assert found is not None and found.status == "skip" and found.remedy
    assert found.reason == "torch.compile can't work on a GPU as old as Tesla P100-PCIE-16GB (6.0): Triton needs 7.0"


def test_a_dry_run_says_the_checks_own_time_limit() -> None:
    assert case.TIMEOUT == TIMEOUT


def test_a_lock_without_torch_is_asked_for_what_it_has() -> None:
    runner = StandInRunner(1)
    found, report = session(runner, "auto", (), packages=("jax", "numpy"))
    assert {name.partition(".")[0] for name in found} == {"static", "device", "stack", "jax"}
    assert "static.torch" not in found and "device.capability" not in found
    assert [one for one, _, _ in runner.ran].count("probe") == 1
    assert (report["device"], report["frameworks"]) == ("cuda", {"jax": "1.0"})
    assert report["summary"]["verdict"] == "pass"


def test_a_lock_of_two_frameworks_is_asked_how_they_get_on() -> None:
    found, _ = session(StandInRunner(1), "cuda", ("training", "jax", "cupy", "together"), packages=("torch", "jax"))
    assert {name.partition(".")[0] for name in found} == {"training", "jax", "together"}


def test_both_sides_know_the_same_frameworks() -> None:
    assert fits.FRAMEWORKS == FRAMEWORKS


@pytest.mark.parametrize("packages", [(), ("numpy", "optree")])
def test_a_lock_without_a_framework_says_so_and_is_no_success(packages: tuple[str, ...]) -> None:
    found, report = session(StandInRunner(0), "cpu", (), target="cpu", packages=packages)
    assert all(name.startswith(("static.", "device.", "stack.imports")) for name in found)
    summary = report["summary"]
    assert summary["verdict"] == "skip"
    told = "the target locks none of torch, jax, tensorflow, onnxruntime, cupy, rapids: "
    assert summary["headline"].startswith(told) and summary["passed"]


def test_jax_on_a_machine_without_its_gpu_says_that_no_gpu_check_ran() -> None:
    found, report = session(StandInRunner(0), "auto", ("jax",), packages=("jax",))
    assert found["jax.devices"] == ("skip", "needs a GPU: no GPU can be used here")
    assert report["summary"]["headline"].startswith("no GPU check ran: ")
