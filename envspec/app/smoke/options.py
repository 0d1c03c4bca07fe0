"""The options of `envspec smoke` by subject: the checks, the runner, Slurm, the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from envspec.base.errors import InputError
from envspec.prove.smoke.run.case import CheckOptions
from envspec.prove.smoke.run.slurm import Resources

_OF_RUNNERS = {
    "image": ("docker",), "engine": ("docker",), "sif": ("apptainer", "slurm"), "inner": ("slurm",),
    "partitions": ("slurm",), "account": ("slurm",), "limit": ("slurm",), "gres": ("slurm",),
    "gpus_per_node": ("slurm",), "cpus_per_task": ("slurm",), "memory": ("slurm",),
    "sbatch_args": ("slurm",), "no_wait": ("slurm",),
}  # fmt: skip
"""The options that only some runners have."""
_SPELT = {"partitions": "--partition", "limit": "--time", "memory": "--mem", "sbatch_args": "--sbatch-arg"}


@dataclass(frozen=True)
class SelectionOptions:
    """The specs and targets to check, and the references for their figures."""

    paths: tuple[str, ...]
    targets: tuple[str, ...]
    locks_dir: Path | None
    references: Path | None


@dataclass(frozen=True)
class RunnerOptions:
    """The runner, and the place that it runs the checks in."""

    runner: str
    inner: str | None
    image: str | None
    engine: str | None
    sif: Path | None
    offline: bool

    @property
    def within(self) -> str:
        """The runner of the checks themselves: with slurm the inner one."""
        if self.runner != "slurm":
            return self.runner
        return self.inner or ("apptainer" if self.sif else "local")


@dataclass(frozen=True)
class SlurmOptions:
    """The request to Slurm, and whether envspec waits for its jobs."""

    partitions: tuple[str, ...]
    resources: Resources
    no_wait: bool


@dataclass(frozen=True)
class OutputOptions:
    """The output: `output` is the folder of the runs' reports and logs."""

    output: Path | None
    junit: Path | None
    html: Path | None
    dry_run: bool
    as_json: bool

    @property
    def documents(self) -> dict[str, Path]:
        """The other files to write, by their option."""
        given = {"--junit": self.junit, "--html": self.html}
        return {} if self.dry_run else {option: path for option, path in given.items() if path is not None}


@dataclass(frozen=True)
class SmokeOptions:
    """The whole command line. `attach` names an earlier submission, which needs no spec."""

    selection: SelectionOptions
    checks: CheckOptions
    place: RunnerOptions
    submission: SlurmOptions
    output: OutputOptions
    attach: str | None


def smoke_options(given: Mapping[str, Any]) -> SmokeOptions:
    """Read the options from click's values by name. Raises InputError for options that exclude each other."""
    if given["attach"] is None:
        _refuse(given)
    elif given["paths"] or given["targets"]:
        raise InputError("--attach takes no spec and no target: the submitted jobs have theirs")
    resources = Resources(
        given["nodes"], given["account"], given["limit"], given["gres"], given["gpus_per_node"], given["cpus_per_task"],
        given["memory"], given["sbatch_args"],
    )  # fmt: skip
    return SmokeOptions(
        _of(SelectionOptions, given),
        _of(CheckOptions, given),
        _of(RunnerOptions, given),
        SlurmOptions(given["partitions"], resources, given["no_wait"]),
        _of(OutputOptions, given),
        given["attach"],
    )


_T = TypeVar("_T")


def _of(kind: type[_T], given: Mapping[str, Any]) -> _T:
    """Make a dataclass whose fields have the options' names."""
    return kind(**{field.name: given[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def _refuse(given: Mapping[str, Any]) -> None:
    runner = given["runner"]
    if not given["paths"]:
        raise InputError(
            "a spec is missing", hint="name one: envspec smoke specs/NAME.toml, or use --attach JOB for a submitted job"
        )
    for name, runners in _OF_RUNNERS.items():
        if given[name] and runner not in runners:
            spelt = _SPELT.get(name, "--" + name.replace("_", "-"))
            raise InputError(f"{spelt} is for --runner {' or '.join(runners)}, not for {runner}")
    if given["nodes"] > 1 and runner != "slurm":
        raise InputError(f"--nodes is for --runner slurm, not for {runner}")
    if given["sif"] and given["inner"] == "local":
        raise InputError("--sif is for --inner apptainer")
    if given["dry_run"] and given["as_json"]:
        raise InputError("--dry-run has no JSON output")
