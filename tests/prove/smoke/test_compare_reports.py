"""`envspec smoke --compare`: the same weights where they have to be the same, and no claim elsewhere."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from smoke_samples import BROKEN, GPU, checks, on_cpu, report
from support.documents import valid
from support.machine import Machine

from envspec.prove.smoke.report.compare import compare
from envspec.prove.smoke.report.read import report_json
from envspec.prove.smoke.report.result import CheckResult, ReportedGpu, SmokeReport


def repeated(weights: str, precision: str = "bf16") -> CheckResult:
    return CheckResult(
        "determinism.repeat", "determinism", "pass", False, 0.0, details={"precision": precision, "weights": weights}
    )


def ran(weights: str = "a", **changes: Any) -> SmokeReport:
    return report(**{"checks": (*checks(), repeated(weights)), **changes})


OTHER_GPU = replace(GPU, gpus=(ReportedGpu("NVIDIA A100", "8.0", 1),))


def test_two_machines_of_one_architecture_end_with_the_same_weights() -> None:
    other_driver = replace(GPU, driver="580.1", gpus=(ReportedGpu("NVIDIA H200", "9.0", 1),))
    found = compare(ran(), ran(machine=other_driver))
    assert (found.weights, found.ok, found.facts) == ("same", True, (("driver", "570.86.15", "580.1"),))
    found = compare(ran(), ran("b", machine=other_driver))
    assert (found.weights, found.ok) == ("differs", False)


@pytest.mark.parametrize(
    ("other", "apart"),
    [
        ({"machine": OTHER_GPU}, "architecture"),
        ({"lock_digest": "sha256:x"}, "lock"),
        ({"check_digest": "sha256:x"}, "check"),
        ({"seed": 1}, "seed"),
        ({"checks": (*checks(), repeated("b", "fp32"))}, "precision"),
    ],
)
def test_where_others_are_expected_none_is_told(other: dict[str, Any], apart: str) -> None:
    found = compare(ran(), ran("b", **other))
    assert found.weights == "not compared" and found.ok
    assert found.reason == f"they differ in: {apart}"


def test_cpus_may_differ() -> None:
    one, other = (on_cpu(checks=(*checks(gpu=False), repeated(weights))) for weights in "ab")
    assert compare(one, other).weights == "not compared" and compare(one, one).weights == "same"


def test_without_a_digest_nothing_is_compared() -> None:
    found = compare(report(), ran())
    assert found.weights == "not compared" and found.reason and "determinism.repeat didn't pass" in found.reason


def test_a_check_that_failed_in_one_is_an_answer_of_no(machine: Machine) -> None:
    for name, one in (("a.json", ran()), ("b.json", ran(checks=(*checks(), repeated("a"), BROKEN)))):
        (machine.folder / name).write_text(json.dumps(report_json(one)))
    told = machine.envspec("smoke", "--compare", "a.json", "b.json", status=1)
    assert "weights: the same, bit by bit" in told.out and "compile.eager: not there | fail" in told.out
    valid(machine.envspec("smoke", "--compare", "a.json", "b.json", "--json").out, "smoke-compare")
    assert machine.envspec("smoke", "--compare", "a.json", "a.json").status == 0


def test_a_pretended_gpu_is_refused(machine: Machine) -> None:
    one: Path = machine.folder / "a.json"
    one.write_text(json.dumps(report_json(ran(evidence="pretended"))))
    told = machine.envspec("smoke", "--compare", "a.json", "a.json")
    assert told.status == 2 and "a pretended GPU, which proves nothing" in told.err
