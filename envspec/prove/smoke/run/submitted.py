"""The record of submitted jobs in the folder of results, with which any later envspec can take over."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from envspec.base.atomic import write_file
from envspec.base.documents import decode_format
from envspec.base.errors import InputError, Place, StorageError

STATE = "state.json"
FORMAT = 1


@dataclass(frozen=True)
class SubmittedTask:
    """One case on one partition. `outputs` are the folders of its reports, below the results."""

    spec: str
    target: str
    partition: str | None
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class SubmittedJob:
    """One sbatch call. `job` is Slurm's number, None until sbatch has printed it; until then `name` finds the job in
    the queue. `refused` is sbatch's output when it refused the job, `unsure` when it may have accepted the job.
    """

    name: str
    partition: str | None
    argv: tuple[str, ...]
    tasks: tuple[SubmittedTask, ...]
    job: Annotated[str, Meta(pattern=r"^[0-9]{1,18}\Z")] | None = None
    refused: str | None = None
    unsure: str | None = None

    def task(self, index: int) -> str | None:
        """Slurm's name of a task, None while the job's number is unknown."""
        if self.job is None:
            return None
        return f"{self.job}_{index}" if len(self.tasks) > 1 else self.job

    def log(self, index: int) -> str | None:
        """Slurm's own log of a task, below the results."""
        task = self.task(index)
        return f"jobs/{task}.log" if task else None


@dataclass(frozen=True)
class Submitted:
    """All jobs of one command. `failed` are cases whose environment couldn't be made: (spec, target, reason, log).
    `check` is the digest of the check that all of them carry.
    """

    jobs: tuple[SubmittedJob, ...]
    failed: tuple[tuple[str, str, str, str | None], ...] = ()
    skipped: tuple[tuple[str, str, str], ...] = ()
    check: str | None = None

    def with_job(self, index: int, job: SubmittedJob) -> Submitted:
        return replace(self, jobs=(*self.jobs[:index], job, *self.jobs[index + 1 :]))


def write_submission(results: Path, submitted: Submitted) -> None:
    """Write the record. Raises StorageError."""
    path = results / STATE
    try:
        write_file(path, json.dumps({"format": FORMAT, **asdict(submitted)}, indent=1) + "\n")
    except OSError as error:
        raise StorageError(f"can't be written: {error.strerror}", place=Place(str(path))) from None


def read_submission(results: Path) -> Submitted:
    """Read the record. Raises InputError for a missing or damaged one."""
    path = results / STATE
    try:
        submitted = decode_format(path.read_bytes(), Submitted, FORMAT, Place(str(path)))
    except OSError as error:
        raise InputError(
            f"{path} can't be read: {error.strerror}",
            hint="give --attach a folder that `envspec smoke --runner slurm` made",
        ) from None
    outputs = (Path(output) for job in submitted.jobs for task in job.tasks for output in task.outputs)
    if any(output.is_absolute() or ".." in output.parts for output in outputs):
        # a record edited by hand must not lead out of the results
        raise InputError("this file wasn't written by envspec", place=Place(str(path)))
    return submitted
