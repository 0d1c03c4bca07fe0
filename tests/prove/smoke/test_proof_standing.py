"""The ladder: what records prove of which lock, and that nothing else climbs it."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from smoke_samples import CPU, GPU, TORCH, check, checks, on_cpu, report
from support.machine import ROOT

from envspec.base.errors import InputError
from envspec.lock.model import Lock
from envspec.lock.read import load
from envspec.lock.slice import slice_digest, slice_of
from envspec.prove.proof.records import Standing, of_report, read_records, standings
from envspec.prove.rungs import RUNGS, highest_rung, rungs_of
from envspec.prove.smoke.report.read import report_json
from envspec.prove.smoke.report.result import ReportedGpu, SmokeReport
from envspec.prove.smoke.report.words import facts

LOCK = load(ROOT / "locks" / "mm-v2.9" / "envspec.lock")
NAME = "cu128-hopper"
(PYTHON,) = (one.version for one in LOCK.pythons)
IMPORTS = check("stack.imports")
CAPABILITY = check("device.capability", gpu=True)
COMPILES = check("compile.eager")


def digest(lock: Lock = LOCK, name: str = NAME) -> str:
    target = lock.target(name)
    assert target is not None
    return slice_digest(slice_of(lock, target))


def proved(**changes: Any) -> SmokeReport:
    """A report of a run on an H100, of the shipped lock."""
    every = (*checks(), IMPORTS, CAPABILITY, COMPILES)
    own = {"spec": LOCK.name, "target": NAME, "lock_digest": digest(), "machine": replace(GPU, python=PYTHON)}
    return report(**{**own, "checks": every, **changes})


def record(**changes: Any) -> dict[str, Any]:
    own = {"schema": 1, "kind": "envspec-proof", "spec": LOCK.name, "target": NAME, "lock_digest": digest()}
    return {**own, "rung": "verified", "made": "2026-11-22T00:00:00Z", "details": None, **changes}


def standing(folder: Path, *documents: dict[str, Any]) -> Standing:
    for number, document in enumerate(documents):
        (folder / f"{number}.json").write_text(json.dumps(document))
    target = LOCK.target(NAME)
    assert target is not None
    (found,) = standings(LOCK, [target], read_records(folder))
    return found


def test_without_records_a_target_is_locked(tmp_path: Path) -> None:
    found = standing(tmp_path)
    assert (found.reached, found.line) == ("locked", "locked")


def test_records_climb_and_gaps_are_told(tmp_path: Path) -> None:
    found = standing(tmp_path, record(), record(rung="compiles"))
    assert found.reached == "verified"
    assert found.line == "locked → verified → compiles (without linked)"


@pytest.mark.parametrize(
    ("platform", "rungs", "lacks"),
    [
        ("linux-64", [], "index"),
        ("linux-64", ["verified", "linked"], "index"),
        ("linux-aarch64", ["verified"], "index"),
        ("linux-aarch64", ["verified", "linked"], "host"),
        ("linux-64", ["verified", "linked", "compiles", "imports", "trained-cpu"], "GPU"),
        ("linux-64", ["verified", "linked", "compiles", "imports"], "GPU"),
        ("linux-64", RUNGS, None),
    ],
)
def test_a_word_says_what_the_next_rung_lacks(platform: str, rungs: list[str], lacks: str | None) -> None:
    found = Standing(NAME, True, platform, dict.fromkeys(("locked", *rungs), ()))
    assert found.lacks == lacks


def test_a_run_on_its_gpu_is_the_top(tmp_path: Path) -> None:
    found = standing(tmp_path, record(), report_json(proved()))
    assert found.reached == "trained"
    assert found.line == " → ".join([*RUNGS[:5], "trained on a CPU", "trained on its GPU"])


def test_a_run_on_a_cpu_says_no_more(tmp_path: Path) -> None:
    own = {"spec": LOCK.name, "target": NAME, "lock_digest": digest(), "machine": replace(CPU, python=PYTHON)}
    ran = on_cpu(**own, checks=(*checks(gpu=False), IMPORTS), cuda="12.8")
    found = standing(tmp_path, record(), report_json(ran))
    assert found.reached == "linked" and found.line.endswith("imports → trained on a CPU (without compiles)")


def test_a_run_with_another_build_of_python_says_so() -> None:
    """It is the lock's environment but for its Python, and no rung of it reads as more."""
    ran = of_report(proved(machine=replace(GPU, python="3.12.1")), "other.json")
    (found,) = standings(LOCK, [LOCK.target(NAME)], [ran])  # type: ignore[list-item]
    rungs = "linked, compiles, imports, trained on a CPU, trained on its GPU"
    assert found.line.endswith(f"(without verified; {rungs} with Python 3.12.1, not {PYTHON})")
    own = of_report(proved(), "own.json")
    (found,) = standings(LOCK, [LOCK.target(NAME)], [ran, own])  # type: ignore[list-item]
    assert not found.pythons and "Python" not in found.line


@pytest.mark.parametrize(
    "other",
    [
        {"evidence": "machine"},
        {"evidence": "pretended"},
        {"torch": replace(TORCH, version="2.13.0+pretended")},
        {"machine": replace(GPU, gpus=(ReportedGpu("Pretended GPU", "9.0", 1),))},
        {"lock_digest": "sha256:" + "0" * 64},
        {"complete": False},
        {"checks": (*checks()[1:], IMPORTS)},
        {"checks": (*checks(), check("a.b", "fail", reason="no"))},
    ],
    ids=["machine", "pretended", "its torch", "its GPU", "another lock", "cut short", "not the lock's", "failed"],
)
def test_what_proves_nothing_of_the_lock(tmp_path: Path, other: dict[str, Any]) -> None:
    found = standing(tmp_path, report_json(proved(**other)))
    assert found.reached == "locked" and len(found.outdated) == 1


def test_a_gpu_that_nobody_compared_with_the_target_proves_no_rung() -> None:
    ran = proved(checks=(*checks(), IMPORTS))
    assert not {"trained", "trained-cpu"} & of_report(ran, "r").rungs
    assert "trained" not in of_report(proved(device="cpu", machine=CPU), "r").rungs


def test_a_gpu_that_merely_runs_the_target_s_code_proves_no_rung_of_its_own() -> None:
    """code for sm_80 on an RTX 3090"""
    near = replace(CAPABILITY, details={"near": True})
    ran = of_report(proved(checks=(*checks(), IMPORTS, near, COMPILES)), "r")
    assert ran.rungs == {"linked", "imports"} and "trained" in of_report(proved(), "r").rungs


@pytest.mark.parametrize("rung", ["trained", "imports", "locked", "", 7])
def test_no_command_can_record_what_a_run_has_to_prove(tmp_path: Path, rung: object) -> None:
    with pytest.raises(InputError):
        standing(tmp_path, record(rung=rung))


def test_a_target_for_cpus_has_no_gpus_rungs() -> None:
    assert rungs_of(gpus=False) == ("locked", "verified", "linked", "imports", "trained-cpu")
    assert highest_rung({"locked", "verified", "linked", "imports", "trained-cpu"}, gpus=False) == "trained-cpu"
    assert highest_rung({"verified"}, gpus=False) is None


def test_other_files_are_no_records(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"kind": "something"}')
    assert read_records(tmp_path) == ()
    (tmp_path / "y.json").write_text("{")
    with pytest.raises(InputError, match="can't be read"):
        read_records(tmp_path)


def test_jax_trains_too_and_says_itself_whether_its_gpus_are_the_targets() -> None:
    ran = (check("static.distributions"), IMPORTS, check("jax.training"))
    devices = check("jax.devices", gpu=True)
    own: dict[str, Any] = {"torch": None, "frameworks": {"jax": "0.11.2"}}
    trained = {"linked", "imports", "trained-cpu", "trained"}
    assert of_report(proved(checks=(*ran, devices), **own), "r").rungs == trained
    assert of_report(proved(checks=(*ran, replace(devices, status="skip", reason="no")), **own), "r").rungs == {
        "linked",
        "imports",
    }
    assert of_report(proved(checks=ran, device="cpu", machine=CPU, cuda=None, **own), "r").rungs == trained - {
        "trained"
    }


def test_a_lock_without_torch_shows_none() -> None:
    found = dict(facts(proved(torch=None, frameworks={"jax": "0.11.2"})))
    assert found["jax"] == "0.11.2" and "torch" not in found
    assert dict(facts(proved(torch=None, frameworks={"torch": "2.9.1"})))["torch"] == "couldn't be imported"
