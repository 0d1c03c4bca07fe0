"""Smoke runs as jobs of Slurm: partitions, scripts, and a cluster that answers late, wrongly or never."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from runner_samples import HOSTILE, HOSTILE_CASE, PLAIN, case
from smoke_golden import golden
from smoke_samples import report

from envspec.base.errors import InputError
from envspec.prove.smoke.report.read import report_json
from envspec.prove.smoke.report.result import Run
from envspec.prove.smoke.run.apptainer import Apptainer
from envspec.prove.smoke.run.case import CheckOptions, Folders, Local, SmokeCase, dry
from envspec.prove.smoke.run.jobs import (
    GRACE,
    POLLS,
    JobPlan,
    Submitted,
    SubmittedJob,
    SubmittedTask,
    TaskState,
    Unreachable,
    ask_states,
    find_lost_jobs,
    may_have_job,
    read_sacct,
    read_scontrol,
    read_squeue,
    read_submission,
    submit,
    wait,
    write_submission,
)
from envspec.prove.smoke.run.process import FinishedProgram
from envspec.prove.smoke.run.slurm import LARGEST_ARRAY, MULTI_NODE_LIMIT, Partition, Resources, partition_of, plan_jobs

TWO = (case("cu128-hopper", cuda="12.8"), case("cu128-ampere", cuda="12.8"))


def plan(
    cases: tuple[SmokeCase, ...], partitions: Sequence[Partition], resources: Resources, folders: Folders = PLAIN
) -> JobPlan:
    jobs = plan_jobs(cases, partitions, "0a1b2c3d")
    return JobPlan(cases, jobs, Local(folders, ("envspec",)), CheckOptions(), resources, folders)


Answers = dict[str, FinishedProgram]


def asking(answers: Answers) -> Callable[[Sequence[str]], FinishedProgram]:
    """What programs answer, by name; `squeue --name` by that word, and with nothing where none is given."""

    def ask(argv: Sequence[str]) -> FinishedProgram:
        if argv[0] == "squeue" and any(word.startswith("--name=") for word in argv):
            return answers.get("--name", FinishedProgram(0))
        return answers.get(argv[0], FinishedProgram(127, "not found"))

    return ask


GONE = FinishedProgram(1, "slurm_load_jobs error: Invalid job id specified")


Then = Callable[[], object]


class Clock:
    """Time that passes while somebody sleeps, and what is to happen then."""

    def __init__(self, *then: Then) -> None:
        self.now, self._then = 0.0, list(then)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._then:
            self._then.pop(0)()

    def __call__(self) -> float:
        return self.now


def waited(
    whole: Submitted, results: Path, answers: Answers, *then: Then, most: float = GRACE + POLLS[1]
) -> tuple[Run, ...]:
    """The runs, after a wait of at most so many seconds. `then` is done in the pauses, one in each."""
    clock = Clock(*then)
    runs = wait(whole, results, sleep=clock.sleep, asking=asking(answers), clock=clock)
    assert clock.now <= most
    return runs


FAILED = "sbatch: error: Batch job submission failed:"


SITE = Resources(account="team", time="30", gpus_per_node="8", more=("--constraint=a b;c",))


PLANS = {
    "one": plan((case(),), [Partition(None)], Resources()),
    "matrix": plan(TWO, [Partition("h100", ("*-hopper",)), Partition("any")], SITE),
    "nodes": plan(TWO[:1], [Partition("h100")], replace(SITE, nodes=2)),
}


PLANS["apptainer"] = replace(PLANS["one"], inner=Apptainer(PLAIN, sif=Path("/images/x.sif")))


@pytest.mark.parametrize("name", PLANS)
def test_golden(name: str) -> None:
    text = dry(PLANS[name].steps()) + "\n"
    assert text == golden(f"slurm-{name}.sh", text)


@pytest.mark.parametrize("nodes", [1, 3])
def test_any_script_is_sound(nodes: int, tmp_path: Path) -> None:
    made = plan((HOSTILE_CASE, case("other")), [Partition("it's;$(id)")], Resources(nodes), HOSTILE)
    text = dict(made.script(made.jobs[0]).texts)["jobs/0.sh"]
    path = tmp_path / "script.sh"
    path.write_text(text)
    subprocess.run(["bash", "-n", str(path)], check=True)
    if shutil.which("shellcheck"):
        told = subprocess.run(
            ["shellcheck", "--severity=warning", str(path)], capture_output=True, text=True, check=False
        )
        assert told.returncode == 0, told.stdout


def test_a_script_runs_its_check_with_hostile_paths(tmp_path: Path) -> None:
    """The batch script under bash, as Slurm would start it: the check is started, and its end written down."""
    folders = Folders(tmp_path / "ca che's $(id)", tmp_path / 're"sults, $HOME; x')
    prefix = folders.prefix(HOSTILE_CASE)
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "activate").write_text("ACTIVATED=yes; export ACTIVATED\n")
    python = prefix / "bin" / "python"
    python.write_text(
        '#!/bin/bash\nprintf "%s\\n" "$ACTIVATED" "$PYTHONNOUSERSITE" "${PYTHONPATH-none}" "$@"; exit 3\n'
    )
    python.chmod(0o755)
    made = plan((case("first"), HOSTILE_CASE), [Partition(None)], Resources(), folders)
    script = folders.results / "jobs" / "0.sh"
    script.parent.mkdir(parents=True)
    script.write_text(made.script(made.jobs[0]).texts[0][1])
    env = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "1", "PYTHONPATH": "/elsewhere"}
    ran = subprocess.run(["bash", str(script)], capture_output=True, text=True, check=False, env=env)
    out = folders.results / made.jobs[0].tasks[1].folder
    assert ran.returncode == 3, ran.stderr
    assert ran.stdout.splitlines()[:5] == [
        "yes",
        "1",
        "none",
        "-I",
        str(folders.carried_folder(HOSTILE_CASE) / "check"),
    ]
    assert ran.stdout.splitlines()[-1] == str(out / "check.json")
    done = json.loads((out / "done.json").read_text())
    assert (done["status"], done["job"]) == (3, "7")


def test_a_matrix_is_an_array_a_partition() -> None:
    jobs = plan_jobs(TWO, [Partition("a"), Partition("b", ("*-ampere",))], "t")
    assert [(job.partition, len(job.tasks), job.is_array) for job in jobs] == [("a", 2, True), ("b", 1, False)]
    folders = [task.folder for job in jobs for task in job.tasks]
    assert len(set(folders)) == 3


def test_no_array_is_larger_than_slurm_allows() -> None:
    cases = [case(f"t{number}") for number in range(LARGEST_ARRAY + 1)]
    assert [len(job.tasks) for job in plan_jobs(cases, [Partition(None)], "t")] == [LARGEST_ARRAY, 1]


@pytest.mark.parametrize("text", ["", "=x", "a=", "-x", "a\n", "a= , "])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        partition_of(text)


def test_a_partition_takes_what_fits_its_patterns() -> None:
    place = partition_of("a100=*-ampere,cpu")
    assert [place.takes(name) for name in ("cu128-ampere", "cpu", "cu128-hopper")] == [True, True, False]
    assert partition_of("any").takes("whatever")


# What Slurm says of a job, as its programs say it.


def test_reading_squeue() -> None:
    text = "12_0|RUNNING|n1|None\n12_1|PENDING||Resources\n13|COMPLETED|n2|None\n12_[2-5]|PENDING||Priority\njunk\n"
    assert read_squeue(text) == {
        "12_0": TaskState("RUNNING", "n1"),
        "12_1": TaskState("PENDING", "", "Resources"),
        "13": TaskState("COMPLETED", "n2"),
    }


def test_reading_sacct() -> None:
    text = "12_0|CANCELLED by 1000|n1\n12_1|TIMEOUT|None assigned\n12_[2-3]|PENDING|\n13.batch|FAILED|n1\n"
    assert read_sacct(text) == {"12_0": TaskState("CANCELLED", "n1"), "12_1": TaskState("TIMEOUT")}


def test_reading_scontrol() -> None:
    text = (
        "JobId=13 ArrayJobId=12 ArrayTaskId=1 JobName=x JobState=NODE_FAIL Reason=None NodeList=n[1-2] BatchHost=n1\n"
        "JobId=14 JobName=JobState=FAKE JobState=FAILED NodeList=(null)\n"
    )
    assert read_scontrol(text) == {"12_1": TaskState("NODE_FAIL", "n[1-2]"), "14": TaskState("FAILED")}


NO_ACCOUNTS = FinishedProgram(1, "Slurm accounting storage is disabled")


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({"squeue": FinishedProgram(0, "5|RUNNING|n1|None\n")}, {"5": TaskState("RUNNING", "n1")}),
        ({"squeue": GONE, "sacct": FinishedProgram(0, "5|FAILED|n1\n")}, {"5": TaskState("FAILED", "n1")}),
        (
            {
                "squeue": GONE,
                "sacct": NO_ACCOUNTS,
                "scontrol": FinishedProgram(0, "JobId=5 JobState=TIMEOUT NodeList=n1\n"),
            },
            {"5": TaskState("TIMEOUT", "n1")},
        ),
        ({"squeue": GONE, "scontrol": GONE}, {}),
        ({"squeue": GONE}, {}),
    ],
)
def test_who_knows_of_a_job(answers: Answers, found: dict[str, TaskState]) -> None:
    assert ask_states(["5"], asking(answers)) == found


@pytest.mark.parametrize(
    "answers",
    [
        {"squeue": FinishedProgram(1, "Unable to contact slurm controller (connect failure)")},
        {"squeue": GONE, "scontrol": FinishedProgram(1, "Unable to contact slurm controller (connect failure)")},
    ],
)
def test_a_controller_that_is_away_says_nothing_of_jobs(answers: Answers) -> None:
    with pytest.raises(Unreachable):
        ask_states(["5"], asking(answers))


# What is known of a job in the end: its report, its state, its log.


def submitted(*outputs: str, job: str | None = "5") -> Submitted:
    return Submitted(
        (SubmittedJob("envspec-x-0", "main", ("sbatch",), (SubmittedTask("s", "t", "main", outputs),), job),)
    )


def leave(folder: Path, status: int, text: str | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if text is not None:
        (folder / "check.json").write_text(text)
    (folder / "done.json").write_text(json.dumps({"status": status, "node": "n1", "job": "5"}))


OURS = replace(report(), spec="s", target="t")


PAUSE: tuple[Then, ...] = (lambda: None,)


def passing(results: Path) -> Then:
    """A task that leaves a report which passed."""
    return lambda: leave(results / "a", 0, json.dumps(report_json(OURS)))


def says(answers: Answers, squeue: str, **more: FinishedProgram) -> Then:
    """Slurm that says something else from then on."""
    return lambda: answers.update({"squeue": FinishedProgram(0, squeue), **more})


def test_a_report_is_the_run(tmp_path: Path) -> None:
    leave(tmp_path / "a", 0, json.dumps(report_json(OURS)))
    (run,) = waited(submitted("a"), tmp_path, {"squeue": GONE})
    assert (run.status, run.where, run.runner) == ("pass", "n1/main", "slurm")


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("CANCELLED", "the job was cancelled (CANCELLED)"),
        ("TIMEOUT", "the job reached its time limit (TIMEOUT)"),
        ("NODE_FAIL", "a node of the job failed (NODE_FAIL)"),
        ("OUT_OF_MEMORY", "the job ran out of memory"),
        ("COMPLETED", "the job ended (COMPLETED), and left no result"),
        ("SOMETHING_NEW", "the job ended (SOMETHING_NEW)"),
    ],
)
def test_an_end_without_a_result_is_an_error_with_the_log(tmp_path: Path, state: str, says: str) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "5.log").write_text("first\nlast words\n")
    (run,) = waited(submitted("a"), tmp_path, {"squeue": FinishedProgram(0, f"5|{state}|n1|None\n")})
    assert run.status == "error" and says in (run.reason or "") and (run.reason or "").endswith("last words")
    assert run.log == str(tmp_path / "jobs" / "5.log")


def test_a_job_that_nobody_knows_is_an_error(tmp_path: Path) -> None:
    (run,) = waited(submitted("a"), tmp_path, {"squeue": GONE})
    assert run.status == "error" and "doesn't know job 5" in (run.reason or "")


def test_a_job_that_was_never_submitted_is_an_error(tmp_path: Path) -> None:
    (run,) = waited(submitted("a", job=None), tmp_path, {"squeue": GONE})
    assert run.status == "error" and "never submitted" in (run.reason or "")


@pytest.mark.parametrize(
    ("status", "text", "says"),
    [
        (139, None, "status 139 (SIGSEGV), and left no report"),
        (0, None, "left no report"),
        (0, json.dumps(report_json(OURS))[:200], "the run may have ended while writing"),
        (1, json.dumps(report_json(OURS)), "ended with status 1, and their report says pass"),
        (0, json.dumps(report_json(replace(OURS, target="u"))), "the report is for s × u"),
    ],
)
def test_a_result_that_contradicts_itself_is_no_answer(
    tmp_path: Path, status: int, text: str | None, says: str
) -> None:
    leave(tmp_path / "a", status, text)
    (run,) = waited(submitted("a"), tmp_path, {"squeue": GONE})
    assert run.status == "error" and says in (run.reason or "")


def test_every_node_and_all_together_are_runs(tmp_path: Path) -> None:
    for name in ("r/node-0", "r/multi-node"):
        leave(tmp_path / name, 0, json.dumps(report_json(OURS)))
    whole = submitted("r/node-0", "r/node-1", "r/multi-node")
    runs = waited(whole, tmp_path, {"squeue": FinishedProgram(0, "5|NODE_FAIL|n1|None\n")})
    assert [run.status for run in runs] == ["pass", "error", "pass"]
    assert [run.where for run in runs] == ["n1/main", "n1/main", "across 2 nodes/main"]


def test_the_state_survives_being_written(tmp_path: Path) -> None:
    whole = replace(submitted("a"), failed=(("s", "u", "why", None),), skipped=(("s", "v", "why"),))
    write_submission(tmp_path, whole)
    assert read_submission(tmp_path) == whole


@pytest.mark.parametrize("text", ["", "{}", '{"format": 1, "jobs": 3}', '{"format": 99}', "[]", "null"])
def test_a_state_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(InputError):
        read_submission(tmp_path)


def test_a_state_leads_nowhere_else(tmp_path: Path) -> None:
    write_submission(tmp_path, submitted("../../etc"))
    with pytest.raises(InputError):
        read_submission(tmp_path)


def test_a_job_whose_number_was_lost_is_found_while_waiting(tmp_path: Path) -> None:
    leave(tmp_path / "a", 139, None)
    (run,) = waited(
        submitted("a", job=None),
        tmp_path,
        {"--name": FinishedProgram(0, "5|5\n"), "squeue": FinishedProgram(0, "5|CANCELLED|n1|None\n")},
    )
    assert "cancelled" in (run.reason or "") and read_submission(tmp_path).jobs[0].job == "5"


def test_a_controller_that_is_away_says_nothing_of_lost_jobs(tmp_path: Path) -> None:
    away = FinishedProgram(1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
    answers = {"--name": away, "squeue": away}
    back = says(answers, "5|RUNNING|n1|None\n", **{"--name": FinishedProgram(0, "5|5\n")})
    (run,) = waited(submitted("a", job=None), tmp_path, answers, *PAUSE * 50, back, passing(tmp_path), most=3600)
    assert run.status == "pass"


def test_a_result_that_shows_up_late_counts(tmp_path: Path) -> None:
    """NFS shows a new name up to a minute late."""
    answers = {"squeue": FinishedProgram(0, "5|COMPLETED|n1|None\n")}
    (run,) = waited(submitted("a"), tmp_path, answers, *PAUSE * 8, passing(tmp_path))
    assert run.status == "pass"


def test_the_grace_begins_anew_when_the_job_does(tmp_path: Path) -> None:
    answers = {"squeue": FinishedProgram(0, "5|NODE_FAIL|n1|None\n")}
    again, gone = says(answers, "5|PENDING||Resources\n"), says(answers, "5|NODE_FAIL|n2|None\n")
    late = (*PAUSE * 8, again, gone, *PAUSE * 3, passing(tmp_path))
    (run,) = waited(submitted("a"), tmp_path, answers, *late, most=2 * GRACE)
    assert run.status == "pass"


def test_a_job_that_never_had_a_node_left_nothing(tmp_path: Path) -> None:
    (run,) = waited(submitted("a"), tmp_path, {"squeue": FinishedProgram(0, "5|CANCELLED||None\n")}, most=0)
    assert (run.reason or "").startswith("the job was cancelled (CANCELLED)")


CUT = report_json(replace(OURS, complete=False))


@pytest.mark.parametrize("written", [True, False], ids=["done", "killed"])
def test_a_job_that_was_ended_shows_its_report(tmp_path: Path, written: bool) -> None:
    leave(tmp_path / "a", 130, json.dumps(CUT))
    if not written:
        (tmp_path / "a" / "done.json").unlink()
    (run,) = waited(
        submitted("a"), tmp_path, {"squeue": FinishedProgram(0, "5|TIMEOUT|n1|None\n")}, most=0 if written else 200
    )
    assert run.status == "error" and run.report is not None
    assert run.headline.startswith("no answer: the job reached its time limit (TIMEOUT)")
    assert "its report: interrupted: " in (run.reason or "")


def test_slurm_is_asked_why_a_job_was_ended(tmp_path: Path) -> None:
    leave(tmp_path / "a", 130, json.dumps(CUT))
    answers = {"squeue": FinishedProgram(0, "5|COMPLETING|n1|None\n")}
    (run,) = waited(submitted("a"), tmp_path, answers, *PAUSE, says(answers, "5|PREEMPTED|n1|None\n"))
    assert "the job was preempted (PREEMPTED)" in (run.reason or "")


def test_a_lost_job_is_found_by_its_name() -> None:
    seen: list[Sequence[str]] = []

    def ask(argv: Sequence[str]) -> FinishedProgram:
        seen.append(argv)
        return FinishedProgram(0, "18|17\n17|17\n")

    assert find_lost_jobs(submitted("a", job=None), ask).jobs[0].job == "17"
    assert "--name=envspec-x-0" in seen[0]
    assert find_lost_jobs(submitted("a"), ask).jobs[0].job == "5"


# Handing jobs to Slurm: refusals, lost answers, and what a job asks for.


SBATCH = f"""#!/bin/bash
refuse() {{
    echo "{FAILED} $*" >&2
    exit 1
}}
case "$*" in
*--partition=bad*) refuse no such partition ;;
*--partition=lost*) refuse Socket timed out on send/recv operation ;;
*--partition=small*--cpus-per-task*) refuse Requested node configuration is not available ;;
esac
echo 42
"""


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Folders]:
    """Folders, and an sbatch and a squeue in PATH; the squeue does what is given."""

    def make(squeue: str) -> Folders:
        programs = tmp_path / "bin"
        programs.mkdir()
        for name, text in (("sbatch", SBATCH), ("squeue", f"#!/bin/bash\n{squeue}\n")):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
        return Folders(tmp_path / "cache", tmp_path / "results")

    return make


def test_a_refused_job_doesnt_stop_the_others(cluster: Callable[[str], Folders]) -> None:
    folders = cluster("")
    made = plan((case(),), [Partition("bad"), Partition("good")], Resources(), folders)
    whole = submit(made, Submitted(()))
    assert [job.job for job in whole.jobs] == [None, "42"]
    assert "no such partition" in (whole.jobs[0].refused or "")
    assert read_submission(folders.results) == whole


def test_a_job_whose_answer_was_lost_is_looked_for(cluster: Callable[[str], Folders]) -> None:
    made = plan((case(),), [Partition("lost")], Resources(), cluster("echo '17|17'"))
    assert submit(made, Submitted(())).jobs[0].job == "17"


@pytest.mark.parametrize("squeue", ["exit 1", ""], ids=["away", "not yet there"])
def test_a_job_whose_answer_was_lost_isnt_refused(cluster: Callable[[str], Folders], squeue: str) -> None:
    folders = cluster(squeue)
    whole = submit(plan((case(),), [Partition("lost")], Resources(), folders), Submitted(()))
    (job,) = whole.jobs
    assert (job.job, job.refused) == (None, None) and "Socket timed out" in (job.unsure or "")
    assert read_submission(folders.results) == whole
    # a later envspec finds it, or says what was said
    assert find_lost_jobs(whole, asking({"--name": FinishedProgram(0, "17|17\n")})).jobs[0].job == "17"
    (run,) = waited(whole, folders.results, {})
    assert run.status == "error" and "Socket timed out" in (run.reason or "")


@pytest.mark.parametrize(
    ("done", "may"),
    [
        (FinishedProgram(124, "no answer within 120 s"), True),
        (FinishedProgram(-9), True),
        (FinishedProgram(0, "a banner of the site"), True),
        (FinishedProgram(1, f"{FAILED} Unable to contact slurm controller (connect failure)"), True),
        (FinishedProgram(1, f"{FAILED} Zero Bytes were transmitted or received"), True),
        (FinishedProgram(1, f"{FAILED} Invalid account or account/partition combination"), False),
        (FinishedProgram(1, "No clusters can be reached now. Contact your admin to resolve the problem."), False),
        (FinishedProgram(127, "No such file or directory"), False),
    ],
)  # fmt: skip
def test_which_failures_of_sbatch_say_nothing(done: FinishedProgram, may: bool) -> None:
    assert may_have_job(done) is may


def test_a_site_with_small_nodes_is_asked_for_less(cluster: Callable[[str], Folders], tmp_path: Path) -> None:
    """Only the default: what was asked for by hand is refused."""
    folders = cluster("")
    (job,) = submit(plan(TWO[:1], [Partition("small")], Resources(), folders), Submitted(())).jobs
    assert job.job == "42" and not any("cpus" in word for word in job.argv)
    (job,) = submit(plan(TWO[:1], [Partition("small")], Resources(cpus=64), folders), Submitted(())).jobs
    assert job.job is None and "node configuration" in (job.refused or "")


@pytest.mark.parametrize(
    ("resources", "target", "cpus"),
    [
        (Resources(), TWO[0], ["--cpus-per-task=8"]),
        (Resources(), case(), []),
        (Resources(cpus=4, memory="32G"), case(), ["--cpus-per-task=4"]),
        (Resources(more=("--cpus-per-gpu=6",)), TWO[0], ["--cpus-per-gpu=6"]),
        (Resources(more=("-c12",)), TWO[0], ["-c12"]),
    ],
)
def test_the_cpus_that_a_job_asks_for(resources: Resources, target: SmokeCase, cpus: list[str]) -> None:
    made = plan((target,), [Partition(None)], resources)
    argv = made.submission(made.jobs[0]).argv
    assert [word for word in argv if word.startswith(("--cpus", "-c1"))] == cpus
    assert ("--mem=32G" in argv) == (resources.memory is not None)


GPU_CASE = case("cu128-hopper", cuda="12.8")


def script(tmp_path: Path, python: str, *, nodes: int = 1, device: str = "auto") -> Path:
    """The batch script of one job whose environment's `python` is this bash program."""
    folders = Folders(tmp_path / "cache", tmp_path / "results")
    one = replace(GPU_CASE, wants_gpu=device != "cpu")
    bin = folders.prefix(one) / "bin"
    bin.mkdir(parents=True)
    (bin / "activate").write_text("echo activated by a package that talks\n")
    (bin / "python").write_text(f"#!/bin/bash\n{python}\n")
    (bin / "python").chmod(0o755)
    options, resources = CheckOptions(device), Resources(nodes)
    jobs = plan_jobs([one], [Partition(None)], "0a1b2c3d")
    path = folders.results / jobs[0].script
    path.parent.mkdir(parents=True)
    path.write_text(
        JobPlan((one,), jobs, Local(folders, ("envspec",)), options, resources, folders).script(jobs[0]).texts[0][1]
    )
    return path


def environment(tmp_path: Path, **more: str) -> Mapping[str, str]:
    return {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "SLURM_JOB_ID": "65536", "SLURM_NODEID": "1", **more}


def done(path: Path) -> int:
    return int(json.loads((path / "done.json").read_text())["status"])


def test_a_job_that_is_ended_still_says_how(tmp_path: Path) -> None:
    """Slurm tells all processes of a job at once; the check reports and ends, and the shell writes down how."""
    path = script(tmp_path, "trap 'echo report; exit 130' TERM; echo ready; while :; do sleep 0.1; done")
    with subprocess.Popen(
        ["bash", str(path)], env=environment(tmp_path), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "ready\n":
            pass
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(30) == 130
    assert done(tmp_path / "results" / "runs" / "0-demo-cu128-hopper") == 130


def test_several_nodes_that_are_ended_begin_nothing_new(tmp_path: Path) -> None:
    path = script(tmp_path, "true", nodes=2)
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/bash\necho "$*" >>{tmp_path}/steps\nkill -TERM $PPID\n')
    srun.chmod(0o755)
    ran = subprocess.run(["bash", str(path)], env=environment(tmp_path, SLURM_JOB_NUM_NODES="2"), check=False)
    assert ran.returncode == 143
    assert len((tmp_path / "steps").read_text().splitlines()) == 1
    assert done(tmp_path / "results" / "runs" / "0-demo-cu128-hopper" / "multi-node") == 143


@pytest.mark.parametrize(("device", "ranks"), [("auto", "4"), ("cpu", "2")])
def test_a_nodes_ranks_are_counted_on_the_node(tmp_path: Path, device: str, ranks: str) -> None:
    path = script(tmp_path, '[ "$2" = -c ] && echo 4 || printf "%s\\n" "$@"', nodes=2, device=device)
    argv = ["bash", str(path), "multi-node", "10.0.0.1", "25536"]
    ran = subprocess.run(argv, env=environment(tmp_path), capture_output=True, text=True, check=True)
    words = ran.stdout.splitlines()
    assert {f"--nproc-per-node={ranks}", "--node-rank=1", "--master-addr=10.0.0.1"} < set(words)


def test_a_node_without_torch_starts_no_ranks(tmp_path: Path) -> None:
    path = script(tmp_path, '[ "$2" = -c ] && exit 3; echo started', nodes=2)
    argv = ["bash", str(path), "multi-node", "10.0.0.1", "25536"]
    ran = subprocess.run(argv, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert ran.returncode == 3 and "started" not in ran.stdout


@pytest.mark.slow
def test_nodes_that_never_meet_end_with_a_message(tmp_path: Path) -> None:
    path = script(tmp_path, '[ "$2" = -c ] && echo 2 || exec sleep 600', nodes=2)
    text = path.read_text()
    assert f" {MULTI_NODE_LIMIT} env " in text
    path.write_text(text.replace(f" {MULTI_NODE_LIMIT} env ", " 1 env "))
    argv = ["bash", str(path), "multi-node", "10.0.0.1", "25536"]
    begin = time.monotonic()
    ran = subprocess.run(argv, env=environment(tmp_path), capture_output=True, text=True, check=False)
    assert ran.returncode == 124 and "do the nodes reach each other at 10.0.0.1, port 25536?" in ran.stderr
    assert time.monotonic() - begin < 300


@pytest.mark.parametrize("job", ["1", "11999", "12000", "4294967295"])
def test_the_port_is_below_those_of_linux_itself(tmp_path: Path, job: str) -> None:
    """ip_local_port_range begins at 32768 where nobody set it."""
    path = script(tmp_path, "true", nodes=2)
    srun = tmp_path / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/bash\necho "${{@: -1}}" >>{tmp_path}/last\n')
    srun.chmod(0o755)
    (srun.parent / "scontrol").symlink_to("/bin/true")
    env = {**environment(tmp_path, SLURM_JOB_NUM_NODES="2", SLURM_JOB_NODELIST="n[1-2]"), "SLURM_JOB_ID": job}
    subprocess.run(["bash", str(path)], env=env, check=False)
    port = int((tmp_path / "last").read_text().splitlines()[-1])
    assert 20000 <= port < 32000
