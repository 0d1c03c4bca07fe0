"""The record of submitted jobs in the folder of results, with which any later envspec can take over."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from envspec.base.atomic import write_file
from envspec.base.documents import read_json
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
    job: str | None = None
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


def write_submitted(results: Path, submitted: Submitted) -> None:
    """Write the record. Raises StorageError."""
    path = results / STATE
    try:
        write_file(path, json.dumps({"format": FORMAT, **asdict(submitted)}, indent=1) + "\n")
    except OSError as error:
        raise StorageError(f"can't be written: {error.strerror}", place=Place(str(path))) from None


def read_submitted(results: Path) -> Submitted:
    """Read the record. Raises InputError for a missing or damaged one."""
    path = results / STATE
    try:
        value: Any = read_json(path.read_bytes())
    except OSError as error:
        raise InputError(
            f"{path} can't be read: {error.strerror}",
            hint="give --attach a folder that `envspec smoke --runner slurm` made",
        ) from None
    except ValueError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("format"), int) and value["format"] > FORMAT:
        raise InputError("a newer envspec wrote this", place=Place(str(path)), hint="update envspec")
    try:
        jobs = tuple(_job(one) for one in value["jobs"])
        failed = tuple((str(s), str(t), str(r), None if log is None else str(log)) for s, t, r, log in value["failed"])
        skipped = tuple((str(s), str(t), str(r)) for s, t, r in value["skipped"])
        check = _text(value.get("check"))
    except (TypeError, KeyError, ValueError, AttributeError):
        raise InputError("this file wasn't written by envspec", place=Place(str(path))) from None
    return Submitted(jobs, failed, skipped, check)


def _job(value: dict[str, Any]) -> SubmittedJob:
    job = value["job"]
    if job is not None and not (isinstance(job, str) and job.isdecimal()):
        raise ValueError(job)
    tasks = tuple(
        SubmittedTask(str(t["spec"]), str(t["target"]), _text(t["partition"]), tuple(_inside(o) for o in t["outputs"]))
        for t in value["tasks"]
    )
    argv = _texts(value["argv"])
    said = _text(value["refused"]), _text(value["unsure"])
    return SubmittedJob(str(value["name"]), _text(value["partition"]), argv, tasks, job, *said)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _inside(value: Any) -> str:
    """Check a folder below the results: a record edited by hand must not lead out of them."""
    path = Path(str(value))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(value)
    return str(value)
