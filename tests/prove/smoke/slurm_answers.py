"""A cluster as its programs tell of it: what squeue, sacct and scontrol answer, and when."""

from collections.abc import Callable, Sequence
from pathlib import Path

from runner_samples import PLAIN, case

from envspec.prove.smoke.report.result import Run
from envspec.prove.smoke.run.case import CheckOptions, Folders, Local, SmokeCase
from envspec.prove.smoke.run.jobs import GRACE, POLLS, JobPlan, Submitted, wait
from envspec.prove.smoke.run.process import FinishedProgram
from envspec.prove.smoke.run.slurm import Partition, Resources, plan_jobs

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
