"""`envspec smoke` from its arguments to its exit code, with real environments and a stand-in for the check."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest
from support.documents import valid
from support.fake_check import PROGRAM
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, pip_pin, serve_lock, write_lock
from support.machine import ROOT, Machine, Ran
from support.matrix import first_by_day
from support.packages import wheel

from envspec.app.smoke import cases as smoke_cases
from envspec.lock.read import load
from envspec.lock.slice import slice_of

pytestmark = pytest.mark.e2e

APP = wheel("jax", "1.0")
START = (
    "import sys; from envspec.cli import main; from envspec.app.smoke import cases as smoke_cases;"
    "from support.fake_check import PROGRAM;"
    "smoke_cases._programs = lambda multi_node: {'check/__main__.py': PROGRAM};"
    "main.main()"
)
"""`envspec` with the stand-in instead of the check."""

Smoke = Callable[..., Ran]


def start(machine: Machine, *arguments: str, mode: str = "pass") -> subprocess.Popen[str]:
    env = machine.environment({"SMOKE_FAKE": mode, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"})
    return subprocess.Popen(
        [sys.executable, "-c", START, "smoke", *arguments],
        cwd=machine.folder, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that keeps the environment for those who look at what comes out, and not at how it is made."""
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def answered(smoke: Smoke, made: Path) -> Smoke:
    """`smoke` with an environment that only the first test makes."""
    return partial(smoke, env={"ENVSPEC_CACHE_DIR": str(made)})


@pytest.fixture
def smoke(machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch) -> Smoke:
    """`envspec smoke` on a machine whose spec `demo` has one target, `here`; it must end with `status`."""
    serve_lock(machine, index, APP)

    monkeypatch.setattr(smoke_cases, "_programs", lambda multi_node: {"check/__main__.py": PROGRAM})

    def call(
        *arguments: str, status: int = 0, mode: str = "pass", env: Mapping[str, str] = MappingProxyType({})
    ) -> Ran:
        return machine.envspec("smoke", *arguments, env={"SMOKE_FAKE": mode, **env}, seconds=120, status=status)

    return call


@pytest.mark.slow
def test_a_plan_comes_first_where_reports_are_kept(answered: Smoke) -> None:
    ran = answered(SPEC, "--evidence", "kept")
    told = [line for line in ran.err.splitlines() if line.startswith(("plan: ", "  demo"))]
    assert told[0].startswith("plan: 1 of 1 target, at most ") and told[0].endswith(" to download")
    assert told[1].startswith("  demo × here: ") and told[1].endswith("; no report is kept")
    assert "plan: " not in answered(SPEC).err


def test_a_record_that_cannot_be_read_stops_no_plan(answered: Smoke, machine: Machine) -> None:
    record = machine.folder / "docs" / "evidence" / "x.json"
    record.parent.mkdir(parents=True)
    record.write_text("{")
    assert "plan: 1 of 1 target, " in answered(SPEC, "--dry-run").out


@pytest.mark.slow
def test_a_run_that_passes(smoke: Smoke, machine: Machine, root: Path) -> None:
    document = valid(smoke(SPEC, "--json", "-o", "out").out, "smoke")
    (run,) = document["runs"]
    assert (document["schema"], run["status"], run["runner"]) == ("envspec/smoke/1", "pass", "local")
    left = {
        str(path.relative_to(machine.folder / "out"))
        for path in (machine.folder / "out").rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    carried = {f"carried/demo-here/{name}" for name in ("check/__main__.py", "target.json")}
    assert left == {*carried, "runs/demo-here/check.json", "runs/demo-here/log.txt"}


@pytest.mark.slow
def test_the_environment_is_made_once(smoke: Smoke, machine: Machine) -> None:
    smoke(SPEC)
    (prefix,) = (machine.cache / "smoke" / "environments").iterdir()
    before = (prefix / "pyvenv.cfg").stat().st_mtime_ns
    smoke(SPEC, "--offline")
    assert (prefix / "pyvenv.cfg").stat().st_mtime_ns == before


@pytest.mark.slow
def test_another_lock_is_another_environment(smoke: Smoke, machine: Machine, index: Index) -> None:
    smoke(SPEC)
    other = wheel("jax", "2.0")
    serve_lock(machine, index, other)
    smoke(SPEC)
    assert len(list((machine.cache / "smoke" / "environments").iterdir())) == 2


@pytest.mark.slow
def test_a_failed_check_is_a_no(answered: Smoke) -> None:
    ran = answered(SPEC, mode="fail", status=1)
    assert "training.fp32: the loss is NaN after step 3" in ran.out and "mend it" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "says"),
    first_by_day(
        1,
        [
            ("wrong", "report says pass"),
            ("crash", "SIGSEGV"),
            ("silent", "left no report"),
            ("cut", "the run may have ended"),
        ],
    ),
)
def test_no_answer_is_a_failure_of_the_outside(answered: Smoke, mode: str, says: str) -> None:
    (run,) = json.loads(answered(SPEC, "--json", mode=mode, status=3).out)["runs"]
    assert run["status"] == "error" and says in run["reason"]


@pytest.mark.slow
def test_a_run_without_gpu_checks_says_so(answered: Smoke) -> None:
    assert "no GPU check ran: 1 passed, 0 failed, 1 skipped" in answered(SPEC, mode="blind").out


@pytest.mark.slow
def test_documents(answered: Smoke, machine: Machine) -> None:
    answered(SPEC, "--junit", "a/junit.xml", "--html", "page.html", mode="fail", status=1)
    assert "the loss is NaN" in (machine.folder / "a" / "junit.xml").read_text()
    assert "the loss is NaN" in (machine.folder / "page.html").read_text()


@pytest.mark.parametrize("option", ["--html", "--junit"])
def test_a_document_that_cant_be_written_is_told_before_the_run(smoke: Smoke, machine: Machine, option: str) -> None:
    (machine.folder / "file").write_text("")
    ran = smoke(SPEC, option, "file/page", "-o", "out", status=3)
    assert ran.out == "" and "file: this is a file" in ran.err and option in ran.err
    assert not (machine.folder / "out").exists()


@pytest.mark.slow
def test_a_document_that_cant_be_written_in_the_end_costs_no_report(answered: Smoke, machine: Machine) -> None:
    """Its folder is there at the start, and gone when the checks are done."""
    ran = answered(SPEC, "--html", "gone/page.html", mode=f"removes:{machine.folder / 'gone'}", status=3)
    assert "1 passed" in ran.out and "can't be written" not in ran.out and "gone" in ran.err and "--html" in ran.err


def test_a_cpu_target_has_no_cuda(smoke: Smoke) -> None:
    assert "demo-here has none" in smoke(SPEC, "--device", "cuda", status=2).err


def test_a_dry_run_has_no_json(smoke: Smoke) -> None:
    ran = smoke(SPEC, "--dry-run", "--json", status=2)
    assert json.loads(ran.out)["schema"] == "envspec/error/1" and "--dry-run" in ran.err


@pytest.mark.slow
def test_a_sites_references_are_compared(answered: Smoke, machine: Machine) -> None:
    (machine.folder / "site.toml").write_text('[references]\n"training.samples_per_s" = { value = 200, low = -0.1 }\n')
    (run,) = json.loads(answered(SPEC, "--references", "site.toml", "--json").out)["runs"]
    (figure,) = run["report"]["figures"]
    assert (run["status"], figure["verdict"]) == ("pass", "low")


def test_what_cant_be_served_is_skipped_and_no_pass(smoke: Smoke, machine: Machine) -> None:
    write_lock(machine, [pip_pin(APP)], platform="linux-aarch64" if SUBDIR == "linux-64" else "linux-64")
    ran = smoke(SPEC, status=1)
    assert "this machine is" in ran.out


def test_a_python_that_isnt_here_is_named(smoke: Smoke, machine: Machine) -> None:
    write_lock(machine, [pip_pin(APP)], python="3.15")
    assert "this machine has no Python 3.15" in smoke(SPEC, status=1).out


@pytest.mark.parametrize("runner", ["local", "docker", "apptainer", "slurm"])
def test_a_dry_run_is_short_and_does_nothing(smoke: Smoke, machine: Machine, runner: str) -> None:
    ran = smoke(SPEC, "--runner", runner, "--dry-run", "--timeout", "9", "-o", "out")
    assert len(ran.out.splitlines()) <= 10
    assert f"\n  runner: {'local within slurm' if runner == 'slurm' else runner}, on the CPU\n" in ran.out
    assert "\n  training: basic, 50 steps\n" in ran.out and "at most 9 s for each check\n" in ran.out
    assert not (machine.folder / "out").exists() and not (machine.cache / "smoke").exists()


@pytest.mark.parametrize("runner", ["local", "docker", "apptainer", "slurm"])
def test_a_whole_dry_run_needs_no_program(smoke: Smoke, machine: Machine, runner: str) -> None:
    ran = smoke(SPEC, "--runner", runner, "--dry-run", "-v", "-o", "out")
    calls = {"docker": "run --rm", "apptainer": "exec --containall", "slurm": "sbatch --parsable"}
    assert calls.get(runner, "envspec/__main__.py install specs/demo.toml") in ran.out and "--config" in ran.out
    assert not (machine.folder / "out").exists() and not (machine.cache / "smoke").exists()


def test_a_job_asks_for_what_was_said(smoke: Smoke) -> None:
    ran = smoke(SPEC, "--runner", "slurm", "--dry-run", "--cpus-per-task", "4", "--mem", "8G", "--time", "30")
    assert " --time=30 --cpus-per-task=4 --mem=8G " in ran.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((SPEC, "--partition", "a100"), "--partition is for --runner slurm"),
        ((SPEC, "--image", "x"), "--image is for --runner docker"),
        ((SPEC, "--cpus-per-task", "8"), "--cpus-per-task is for --runner slurm"),
        ((SPEC, "--mem", "8G"), "--mem is for --runner slurm"),
        ((SPEC, "--nodes", "2"), "--nodes is for --runner slurm"),
        ((SPEC, "--runner", "slurm", "--nodes", "2", "--target", "here"), "here: the target locks no torch"),
        ((SPEC, "--sif", "specs", "--runner", "docker"), "--sif is for --runner apptainer or slurm"),
        ((SPEC, "--target", "hre"), "has no target hre"),
        ((SPEC, "--steps", "0"), "steps"),
        ((SPEC, "--verbose"), "--verbose is for --dry-run"),
        ((SPEC, "--runner", "slurm", "--partition", "a=gpu-*"), "no partition takes demo-here"),
        ((SPEC, "--references", "nosuch.toml"), "nosuch.toml"),
        (("--attach", "123"), "job 123 wasn't submitted from this machine"),
        (("--attach", "specs"), "state.json can't be read"),
        ((SPEC, "--attach", "specs"), "takes no spec"),
    ],
)
def test_what_makes_no_sense_is_refused(smoke: Smoke, arguments: tuple[str, ...], says: str) -> None:
    assert says in smoke(*arguments, status=2).err


@pytest.mark.slow
def test_an_interrupted_run_ends_its_check(smoke: Smoke, machine: Machine) -> None:
    with start(machine, SPEC, "-o", "out", mode="sleep") as process:
        try:
            mark = machine.folder / "out" / "runs" / "demo-here" / "started"
            deadline = time.monotonic() + 60
            while not (mark.exists() and mark.read_text()) and time.monotonic() < deadline:
                time.sleep(0.1)
            pid = int(mark.read_text())
            os.kill(process.pid, signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 130 and f"interrupted: finished runs are in {machine.folder / 'out'}" in err
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_the_targets_slice_of_the_lock_is_carried(answered: Smoke, machine: Machine) -> None:
    answered(SPEC, "-o", "out")
    carried = machine.folder / "out" / "carried" / "demo-here"
    assert (carried / "check" / "__main__.py").read_text() == PROGRAM
    document = json.loads((carried / "target.json").read_text())
    lock = load(machine.lock_path())
    assert document["python"] == PYTHON and document["lock"] == slice_of(lock, lock.targets[0])
