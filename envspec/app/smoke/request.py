"""A request to smoke: the targets, the checks, the runner, and the folders and files for the results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envspec.prove.smoke.run.case import CheckOptions
from envspec.prove.smoke.run.slurm import Resources


@dataclass(frozen=True)
class SmokeRequest:
    """A smoke run.

    targets     without names all that this machine, or the cluster, can run
    references  a file with the site's references for figures
    inner       with slurm the runner on the nodes
    image, sif  an image instead of one built from the recipe
    partitions  with slurm `NAME` or `NAME=TARGET,…`
    no_wait     with slurm: submit, and don't wait
    output      the folder for reports and logs; None: a new one in the cache
    attach      a job's number or the folder of a submission: wait for its jobs, which needs no spec
    """

    paths: tuple[str, ...]
    targets: tuple[str, ...]
    locks_dir: Path | None
    references: Path | None
    runner: str
    inner: str | None
    image: str | None
    engine: str | None
    sif: Path | None
    offline: bool
    partitions: tuple[str, ...]
    no_wait: bool
    output: Path | None
    junit: Path | None
    html: Path | None
    dry_run: bool
    attach: str | None
    checks: CheckOptions
    resources: Resources

    @property
    def within(self) -> str:
        """The runner of the checks themselves: with slurm the inner one."""
        if self.runner != "slurm":
            return self.runner
        return self.inner or ("apptainer" if self.sif else "local")

    @property
    def documents(self) -> dict[str, Path]:
        """The other files to write, by their option."""
        given = {"--junit": self.junit, "--html": self.html}
        return {option: path for option, path in given.items() if path is not None}
