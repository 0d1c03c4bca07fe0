"""What runs amount to: verdicts, headlines, figures against references."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from smoke_samples import BROKEN, GPU, blind, broke, checks, failed, left_out, no_gpu, on_cpu, passed, report, several
from support.documents import valid
from support.machine import Machine

from envspec.base.errors import InternalError
from envspec.prove.smoke.report.compare import compare
from envspec.prove.smoke.report.read import report_json
from envspec.prove.smoke.report.result import (
    CheckResult,
    CheckStatus,
    Figure,
    ReportedGpu,
    Results,
    Run,
    RunStatus,
    SmokeReport,
    findings,
)
from envspec.prove.smoke.run.foreground import finished_run
from envspec.prove.smoke.run.process import FinishedProgram
from envspec.spec.model import Reference

STATUSES: list[CheckStatus] = ["pass", "fail", "skip"]


def test_a_report_counts() -> None:
    found = report()
    assert (found.passed, found.failed, found.skipped, found.gpu_total, found.gpu_skipped) == (6, 0, 1, 2, 0)
    assert found.headline == "6 passed, 0 failed, 1 skipped" and found.verdict == "pass" and not found.without_gpu


def test_no_gpu_check_ran_is_in_the_headline() -> None:
    found = on_cpu()
    assert found.headline == "no GPU check ran: 4 passed, 0 failed, 3 skipped (2 of them need a GPU)"
    assert found.without_gpu and found.verdict == "pass"
    one = on_cpu(checks=(checks()[0], no_gpu("device.driver")))
    assert one.headline == "no GPU check ran: 1 passed, 0 failed, 1 skipped (1 of them needs a GPU)"


@pytest.mark.parametrize("ran", [checks()[:1], checks()])
def test_what_ran_on_the_cpu_proves_nothing_of_a_gpu_whatever_passed(ran: tuple[CheckResult, ...]) -> None:
    found = on_cpu(cuda="12.8", checks=ran)
    assert found.without_gpu and found.verdict == "pass" and found.gpu_skipped == 0
    assert found.headline.startswith(f"no GPU check ran: {found.passed} passed") and "need" not in found.headline
    runs = (Run.from_report("demo", "cu128-hopper", "local", found), passed())
    assert Results(runs).headline == "2 runs: 2 passed, 0 failed; no GPU check ran in 1 of them"
    assert not report(cuda="12.8", checks=ran).without_gpu


def test_a_target_without_gpu_checks_isnt_blamed_for_their_absence() -> None:
    found = on_cpu(checks=checks()[:2])
    assert found.headline == "2 passed, 0 failed, 0 skipped" and not found.without_gpu


def test_a_run_that_was_cut_short_is_no_answer() -> None:
    cut = report(complete=False)
    assert cut.verdict == "skip" and cut.headline == "interrupted: 6 passed, 0 failed, 1 skipped"
    run = Run.from_report("s", "t", "local", cut)
    assert run.status == "error" and run.headline.startswith("no answer: interrupted: ")
    # what had failed by then has failed
    assert Run.from_report("s", "t", "local", report(checks=(BROKEN,), complete=False)).status == "fail"


@given(st.lists(st.tuples(st.sampled_from(STATUSES), st.booleans())))
def test_a_skip_is_never_a_pass(drawn: list[tuple[CheckStatus, bool]]) -> None:
    made = tuple(CheckResult(f"c{n}", "static", status, gpu, 0.0, reason="x") for n, (status, gpu) in enumerate(drawn))
    found = report(checks=made)
    statuses = {status for status, _ in drawn}
    assert (found.verdict == "pass") == (statuses <= {"pass", "skip"} and "pass" in statuses)
    assert (found.verdict == "fail") == ("fail" in statuses)
    assert found.passed + found.failed + found.skipped == len(made)
    run = Run.from_report("demo", "cpu", "local", found)
    assert run.status == found.verdict and Results((run,)).verdict == run.status
    gpu_ran = any(gpu and status != "skip" for status, gpu in drawn)
    assert found.without_gpu == (any(gpu for _, gpu in drawn) and not gpu_ran)
    assert run.headline.startswith("no GPU check ran") is found.without_gpu or run.status == "skip"


def test_a_run_of_skips_is_skipped() -> None:
    run = Run.from_report("demo", "cpu", "local", on_cpu(checks=(no_gpu("device.driver"),)))
    assert run.status == "skip"
    assert run.headline == "skipped: no GPU check ran: 0 passed, 0 failed, 1 skipped (1 of them needs a GPU)"
    assert Run.from_report("demo", "cpu", "local", on_cpu(checks=())).headline == "skipped: no check ran"


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_no_run_claims_more_than_its_report(status: RunStatus) -> None:
    with pytest.raises(InternalError, match="its report says 'nothing'"):
        Run("demo", "cpu", "local", status)
    other = report(checks=(BROKEN,)) if status == "pass" else report()
    with pytest.raises(InternalError, match="its report says"):
        Run("demo", "cpu", "local", status, report=other)


@pytest.mark.parametrize("status", ["error", "skip"])
def test_no_answer_has_a_reason(status: RunStatus) -> None:
    with pytest.raises(InternalError, match="needs a reason"):
        Run("demo", "cpu", "local", status)


@pytest.mark.parametrize(
    ("made", "status", "found"),
    [
        (report(), 0, "pass"),
        (report(), 1, "error"),
        (report(checks=(BROKEN,)), 1, "fail"),
        (report(checks=(BROKEN,)), 0, "error"),
        (on_cpu(checks=(no_gpu("device.memory"),)), 1, "skip"),
        (on_cpu(checks=(no_gpu("device.memory"),)), 0, "error"),
        (report(), 139, "error"),
    ],
)
def test_an_exit_status_agrees_with_its_report(tmp_path: Path, made: SmokeReport, status: int, found: str) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps(report_json(made)), "utf-8")
    run = finished_run(made.spec, made.target, "local", None, FinishedProgram(status, ""), path, None)
    assert run.status == found
    if found == "error":
        assert "status" in (run.reason or "") and "their report says" in (run.reason or "")


def test_headlines_of_several() -> None:
    assert several().headline == (
        "5 runs: 2 passed, 1 failed, 1 gave no answer, 1 skipped; no GPU check ran in 1 of them"
    )
    assert Results((passed(), passed())).headline == "2 runs: 2 passed, 0 failed"
    assert Results((blind(), blind(), left_out())).headline == (
        "no GPU check ran: 3 runs: 2 passed, 0 failed, 1 skipped"
    )
    assert Results((left_out(), left_out())).headline == "2 runs: 0 passed, 0 failed, 2 skipped"
    assert Results(()).headline == "nothing ran"


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        ((passed(), failed(), broke()), "fail"),
        ((passed(), broke(), left_out()), "error"),
        ((passed(), left_out()), "pass"),
        ((left_out(), left_out()), "skip"),
        ((), "skip"),
    ],
)
def test_verdicts_of_several(runs: tuple[Run, ...], verdict: str) -> None:
    assert Results(runs).verdict == verdict == Results(runs).summary.verdict


def test_the_summary_counts() -> None:
    found = several().summary
    assert (found.runs, found.passed, found.failed, found.errors, found.skipped) == (5, 2, 1, 1, 1)
    assert (found.without_gpu, found.figures_off) == (1, 1)


@pytest.mark.parametrize(
    ("value", "reference", "verdict"),
    [
        (95.0, Reference(100, -0.05, 0.1), "ok"),
        (94.9, Reference(100, -0.05, 0.1), "low"),
        (110.0, Reference(100, -0.05, 0.1), "ok"),
        (110.1, Reference(100, -0.05, 0.1), "high"),
        (1.0, Reference(100, None, 0.1), "ok"),
        (1e9, Reference(100, -0.05, None), "ok"),
        (99.9, Reference(100, 0.0, None), "low"),
        (-106.0, Reference(-100, -0.05, None), "low"),
        (-104.0, Reference(-100, -0.05, None), "ok"),
        (1.0, Reference(0, 0.0, 0.0), "high"),
        (100.0, Reference(100, -0.05, 0.1, "s"), "ok"),
        (100.0, Reference(100, -0.05, 0.1, "ms"), None),
        (None, Reference(100, -0.05, 0.1), None),
        (5.0, None, None),
    ],
)
def test_figures_against_references(value: float | None, reference: Reference | None, verdict: str | None) -> None:
    assert Figure("a.b", value, "s", reference).verdict == verdict


def test_a_figure_never_decides() -> None:
    found = passed()
    assert found.report and [figure.verdict for figure in found.report.off] == ["low"] and found.status == "pass"


def test_check_names_follow_the_groups() -> None:
    strange = CheckResult("new.thing", "new", "pass", False, 0.0)
    run = Run.from_report("demo", "cpu", "local", report(checks=(strange, *checks())))
    assert Results((run,)).check_names[-1] == "new.thing"


def test_findings_are_the_failed_then_the_skipped() -> None:
    assert [check.name for check in findings((*checks(gpu=False), BROKEN))] == [
        "compile.eager",
        "device.driver",
        "training.fp16",
        "collectives.allreduce",
    ]


def test_a_run_of_many_reasons_has_the_first_line() -> None:
    assert broke().headline == "no answer: the image couldn't be built"
    assert replace(broke(), reason="\n a\nb").headline == "no answer: a"


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


def test_unlike_gpus_are_told_by_how_far_from_float64_both_are() -> None:
    def judged(status: CheckStatus, error: float) -> CheckResult:
        details = {"limit": 1e-4, "errors": {"basic": {"loss": error / 2, "gradient": error}, "llm": {"loss": 1e-9}}}
        return CheckResult("training.reference", "training", status, False, 1.0, details=details)

    def of(weights: str, one: CheckResult, **changes: Any) -> SmokeReport:
        return ran(weights, checks=(*checks(), repeated(weights), one), **changes)

    found = compare(of("a", judged("pass", 2e-6)), of("b", judged("pass", 3e-6), machine=OTHER_GPU))
    told = "they differ in: architecture; from float64 the one is 2e-06 away, the other 3e-06 (training.reference)"
    assert (found.weights, found.reason, found.ok) == ("not compared", told, True)
    found = compare(of("a", judged("pass", 2e-6)), of("b", judged("fail", 3e-2), machine=OTHER_GPU))
    assert (found.reason, found.ok) == ("they differ in: architecture", False)


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
