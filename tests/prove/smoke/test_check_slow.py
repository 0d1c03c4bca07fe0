"""What is slow is told apart from what is right: shares of a peak, references for some GPUs, ranks that are late."""

import json
import re
from pathlib import Path
from typing import Any

import envspec_check
import pytest
from envspec_check.checks.collectives import stragglers
from envspec_check.machine import card_of
from envspec_check.report import figure, peak_of
from support.check_session import A100, StandInRunner, session
from support.recipes import RENDERED, all_recipes

from envspec.base.errors import InputError
from envspec.export.target_json import reference_row
from envspec.facts import peaks
from envspec.spec.model import Reference

ROOT = Path(__file__).resolve().parents[3]
LATENCY = "collectives.all_reduce_us.4096"


def exported(target: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((all_recipes() / target / "target.json").read_text("utf-8"))
    return document


@pytest.mark.parametrize(
    ("name", "capability", "rate", "peak", "verdict"),
    [
        ("NVIDIA H100 80GB HBM3", "9.0", 640.0, 989.4, None),
        ("NVIDIA H100 80GB HBM3", "9.0", 390.0, 989.4, "slow"),
        ("NVIDIA H100 PCIe", "9.0", 390.0, 756, None),
        ("NVIDIA H100 NVL", "9.0", 390.0, 835, None),
        ("NVIDIA A100-SXM4-80GB", "8.0", 100.0, 312, "slow"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "9.0", 90.0, None, None),
        ("Tesla V100-SXM2-16GB", "7.0", 1.0, None, None),  # the target isn't for it
    ],
)
@RENDERED
def test_a_rate_is_a_share_of_the_card_s(
    name: str, capability: str, rate: float, peak: float | None, verdict: str | None
) -> None:
    found = figure(
        "figures.matmul_tflop_s.bf16",
        rate,
        "TFLOP/s",
        {},
        card_of(exported("deit-v2.6/cu126")["cards"], name, capability),
    )
    assert (found["peak"] and found["peak"]["value"], found["verdict"]) == (peak, verdict)


def test_rates_that_nobody_read_again_give_no_verdict() -> None:
    card = {"tflop_s": {"bf16": 2250}, "trust": "low", "bandwidth_gb_s": 8000}
    assert peak_of("figures.matmul_tflop_s.bf16", card) == {"value": 2250, "least": None}
    assert peak_of("figures.copy_gb_s", card) == {"value": 8000, "least": 0.6}


def test_a_bus_is_a_share_of_nvlink_and_never_slow() -> None:
    assert peak_of("collectives.bus_gb_s.4096", {"nvlink_gb_s": 900}) == {"value": 450, "least": None}
    assert peak_of("collectives.bus_gb_s.4096", {"nvlink_gb_s": None}) is None


def test_a_site_s_reference_comes_before_the_peak() -> None:
    card = {"tflop_s": {"bf16": 1000}, "trust": "high"}
    references = {"figures.matmul_tflop_s.bf16": {"value": 100, "low": -0.1, "high": None, "unit": "TFLOP/s"}}
    assert figure("figures.matmul_tflop_s.bf16", 95.0, "TFLOP/s", references, card)["verdict"] == "ok"


@pytest.mark.parametrize(
    ("name", "capability", "verdict"),
    [("NVIDIA A100-SXM4-40GB", "8.0", "high"), ("Tesla V100-SXM2-16GB", "7.0", None), ("NVIDIA H100", "9.0", None)],
)
@RENDERED
def test_mm_v2_1_s_thresholds_hold_on_their_own_hardware(name: str, capability: str, verdict: str | None) -> None:
    old = exported("mm-v2.1/cu121")
    card = card_of(old["cards"], name, capability)
    assert figure(LATENCY, 60.0, "us", old["references"], card)["verdict"] == verdict
    assert sorted(one["value"] for one in old["references"].values()) == [50, 85, 300, 300]


@RENDERED
def test_no_gpu_is_judged_by_what_the_cpu_did() -> None:
    references = exported("mm-v2.1/cu121")["references"]
    assert figure(LATENCY, 60.0, "us", references, None)["reference"] is None


@pytest.mark.parametrize(("gpu", "hint"), [("Voodoo 3", "envspec gpus"), ("H10O", "H100")])
def test_a_reference_for_an_unknown_gpu_is_refused(gpu: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"an unknown GPU: {gpu}") as found:
        reference_row(Reference(1.0, gpus=(gpu,)))
    assert hint in (found.value.hint or "")


def test_a_slow_gpu_that_is_pretended_is_told_and_fails_nothing() -> None:
    """The runner is a stand-in: each check gives what an A100 would."""
    runner = StandInRunner(1)
    whole = runner.run

    def slow(one: Any, device: str, gpus: int) -> Any:
        outcome, *rest = whole(one, device, gpus)
        if one.name == "figures.health":
            outcome = outcome._replace(slow=["GPU 0 is slowed down by its heat"])
        if one.name == "figures.matmul":
            outcome = outcome._replace(figures=[("figures.matmul_tflop_s.bf16", 50.0, "TFLOP/s")])
        return (outcome, *rest)

    runner.run = slow  # type: ignore[method-assign]
    cards = {str(A100["name"]): {"capability": "8.0", "tflop_s": {"bf16": 312}, "trust": "high"}}
    found, report = session(runner, "auto", ("figures",), driver="550.54.15", cards=cards)
    assert report["summary"]["verdict"] == "pass"
    told = ["GPU 0 is slowed down by its heat", "figures.matmul_tflop_s.bf16 is 16 % of the card's peak"]
    assert report["summary"]["slow"] == told
    assert report["summary"]["headline"] == f"{len(found)} passed, 0 failed, 0 skipped; slow: 2"


def test_the_rank_and_the_node_that_all_wait_for() -> None:
    times, late = stragglers([("a", 1.0), ("a", 1.1), ("b", 1.0), ("b", 1.9)])
    assert times == {"seconds_by_rank": [1.0, 1.1, 1.0, 1.9], "seconds_by_node": {"a": 1.1, "b": 1.9}}
    assert late == ["rank 3 on b takes 1.9 times as long as the others for the same work: all wait for it"]
    assert stragglers([("a", 1.0), ("b", 1.2)])[1] == []


def test_every_peak_is_of_a_known_product_and_rises_with_shorter_types() -> None:
    from envspec.facts import gpus

    names = {gpu.name for gpu in gpus.products()}
    for peak in peaks.forms():
        assert peak.gpu in names and peak.trust in {"high", "medium", "low"}
        rates = [peak.tflop_s[name] for name in ("fp32", "tf32", "bf16", "fp8") if name in peak.tflop_s]
        assert rates == sorted(rates) and max(rates, default=0) < 20 * 1000
        assert peak.nvlink_gb_s in {None, 300, 600, 900, 1800}
        # no figure without a source, and none that can't be trusted
        assert (peak.trust == "low") == (not peak.tflop_s and not peak.nvlink_gb_s and not peak.bandwidth_gb_s)


def test_no_peak_is_from_memory() -> None:
    from envspec.facts import reach
    from envspec.facts.tables import read

    assert "memory" not in reach.of_sources(read("peaks")).values()


def test_no_check_needs_numpy_unless_it_is_locked() -> None:
    """torch gathers objects and gives arrays by NumPy: an environment with torch alone has to pass its own check."""
    root = Path(envspec_check.__file__).parent
    asks = re.compile(r"_object(?:_list)?\(|\.numpy\(|^\s*(?:import|from) numpy", re.MULTILINE)
    found = {path.relative_to(root).as_posix() for path in root.rglob("*.py") if asks.search(path.read_text("utf-8"))}
    assert {path for path in found if "/frameworks/" not in path} == {
        "checks/stack/packages/numpy.py",
        "checks/dataloader.py",  # which passes over its one promise about arrays where there is none
    }
