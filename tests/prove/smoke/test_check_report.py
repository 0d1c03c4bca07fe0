"""What the check writes: its summary agrees with envspec's reader, its JUnit XML is XML whatever a check said."""

import math
import re
import signal
from typing import Any
from xml.etree import ElementTree as ET

import envspec_check.checks
import envspec_check.workloads  # noqa: F401
import pytest
from envspec_check.checks.compile import lacking_to_compile
from envspec_check.interface import CHECKS, GROUPS
from envspec_check.process import LAST_CHARACTERS, finite, last_words, outcome_of
from envspec_check.report import figure, junit, slow_words, summary
from hypothesis import given, strategies as st

from envspec.prove.smoke.report.read import report_of

H100 = {"name": "H100", "tflop_s": {"bf16": 989.4, "fp16": 989.4, "tf32": 494.7}, "trust": "high"}

STATUSES = st.sampled_from(("pass", "fail", "skip"))


def result(
    name: str, status: str, needs_gpu: bool = False, text: str = "why", output: str | None = None
) -> dict[str, Any]:
    return {
        "name": name, "group": "static", "needs_gpu": needs_gpu, "status": status,
        "reason": None if status == "pass" else text, "remedy": None, "seconds": 0.5, "details": {}, "output": output,
    }  # fmt: skip


def document(checks: list[dict[str, Any]], device: str = "cpu", cuda: str | None = None) -> dict[str, Any]:
    machine: dict[str, Any] = {
        "python": "3.11", "system": "Linux", "glibc": None, "cpus": 1, "memory_bytes": 1, "shm_bytes": None,
        "driver": None, "gpus": [],
    }  # fmt: skip
    return {
        "schema": 1, "kind": "envspec-check", "spec": "s", "target": "t", "lock_digest": "", "fingerprint": "",
        "workload": "basic", "steps": 1, "device": device, "cuda": cuda, "quick": False, "seed": 0,
        "started": "2026-11-21T12:00:00Z", "seconds": 1.5, "machine": machine, "torch": None, "checks": checks,
        "figures": [], "curves": {}, "complete": True, "summary": summary(checks),
    }  # fmt: skip


@given(
    st.lists(st.tuples(STATUSES, st.booleans(), st.lists(st.just("GPU 0 is slowed down"))), max_size=12),
    st.lists(st.sampled_from((100.0, 900.0, None)), max_size=3),
    st.booleans(),
    st.sampled_from(("cpu", "cuda")),
    st.sampled_from((None, "12.8")),
)
def test_the_summary_is_the_one_that_envspec_makes(
    kinds: list[tuple[str, bool, list[str]]], rates: list[float | None], complete: bool, device: str, cuda: str | None
) -> None:
    results = [result(f"static.c{i}", status, gpu) | {"slow": slow} for i, (status, gpu, slow) in enumerate(kinds)]
    types = ("bf16", "fp16", "tf32")
    figures = [
        figure(f"figures.matmul_tflop_s.{one}", rate, "TFLOP/s", {}, H100)
        for one, rate in zip(types, rates, strict=False)
    ]
    blind = cuda is not None and device == "cpu"
    made = document(results, device, cuda) | {
        "complete": complete,
        "figures": figures,
        "summary": summary(results, complete, blind, slow_words(results, figures)),
    }
    read = report_of(made, "x")
    assert made["summary"] == {
        "passed": read.passed, "failed": read.failed, "skipped": read.skipped, "gpu_skipped": read.gpu_skipped,
        "gpu_total": read.gpu_total, "verdict": read.verdict, "headline": read.headline,
        "slow": [*read.slow],
    }  # fmt: skip


def test_a_run_without_a_gpu_says_so() -> None:
    kinds = [("pass", False), ("pass", False), ("skip", True), ("skip", True), ("skip", False)]
    made = summary([result(str(i), *kind) for i, kind in enumerate(kinds)])
    assert made["headline"] == "no GPU check ran: 2 passed, 0 failed, 3 skipped (2 of them need a GPU)"
    assert made["verdict"] == "pass"
    blind = summary([result("training.fp32", "pass")], blind=True)
    assert blind["headline"] == "no GPU check ran: 1 passed, 0 failed, 0 skipped"
    assert summary([result("a", "skip")])["verdict"] == "skip"


@given(st.text(), st.one_of(st.none(), st.text()))
def test_junit_is_xml(text: str, output: str | None) -> None:
    text = text.encode("utf-8", "replace").decode()
    output = output and output.encode("utf-8", "replace").decode()
    checks = [
        result("a", "fail", text=f"no: {text}", output=output),
        result("b", "skip", text=text),
        result("c", "pass"),
    ]
    root = ET.fromstring(junit(document(checks)).encode())
    suite = root.find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")
    assert [case.get("name") for case in suite.findall("testcase")] == ["a", "b", "c"]
    failure = suite.find("testcase/failure")
    assert failure is not None and str(failure.text).startswith("no: ")


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (95.0, -0.05, None, "ok"),
        (94.0, -0.05, None, "low"),
        (106.0, -0.05, 0.05, "high"),
        (1000.0, -0.05, None, "ok"),
        (1.0, None, None, "ok"),
        (math.nan, -0.05, None, None),
    ],
)
def test_a_figure_against_its_reference(
    value: float, low: float | None, high: float | None, verdict: str | None
) -> None:
    reference = {"value": 100, "low": low, "high": high, "unit": "s"}
    for name in ("training.x", "x"):
        made = figure("training.x", value, "s", {name: reference})
        assert (made["verdict"], made["reference"]) == (verdict, reference)


def test_a_reference_in_another_unit_is_none() -> None:
    made = figure("training.x", 1.0, "ms", {"x": {"value": 1, "unit": "s"}})
    assert (made["reference"], made["verdict"]) == (None, None)


def test_what_json_can_not_hold_becomes_null() -> None:
    found = finite({"a": math.nan, 1: (math.inf, 2.5), "b": {"c": object}, "d": True})
    assert found == {"a": None, "1": [None, 2.5], "b": {"c": str(object)}, "d": True}


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (None, None, "it hadn't ended after 9 s"),
        (signal.SIGSEGV, None, r"it crashed \(SIGSEGV\)"),
        (signal.SIGKILL, None, r"it was killed \(SIGKILL\): most likely memory ran out"),
        (0, None, "it ended without an answer"),
        (3 << 8, None, "it ended with status 3, without an answer"),
        (0, {"error": "MemoryError"}, "MemoryError"),
    ],
)
def test_how_a_process_ended_is_what_it_found(status: int | None, answer: Any, reason: str) -> None:
    found = outcome_of(status, answer, 9)
    assert found.status == "fail" and found.reason and re.match(reason, found.reason)
    assert found.remedy


def test_last_words_are_the_last() -> None:
    assert last_words("\n".join(map(str, range(100)))) == "\n".join(map(str, range(60, 100)))
    assert last_words(" \n") is None
    assert len(last_words("x" * 10**6) or "") == LAST_CHARACTERS


def test_the_table_names_its_groups() -> None:
    assert {one.group for one in CHECKS.values()} == set(GROUPS)
    assert all(name == one.name and one.needs in (None, "gpu", "driver") for name, one in CHECKS.items())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("InductorError: ModuleNotFoundError: No module named 'setuptools'", "setuptools, which isn't installed"),
        ("fatal error: Python.h: No such file or directory", "Python's headers"),
        ("InvalidCxxCompiler: No working C++ compiler found in (g++)", "needs a C and C++ compiler"),
    ],
)
def test_what_torch_compile_lacks_is_named(text: str, words: str) -> None:
    found = lacking_to_compile(text)
    assert found is not None and found.status == "fail" and words in (found.reason or "") and found.remedy


def test_other_errors_of_torch_compile_are_not_explained_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    assert lacking_to_compile("RuntimeError: no kernel image is available") is None
