"""`envspec smoke`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envspec.cli import options

EPILOG = """\b
Examples:
  envspec smoke specs/mm-v2.9.toml --target cu128-hopper        on this machine, in an environment made from the lock
  envspec smoke specs/mm-v2.9.toml --runner apptainer --quick   in images, built where none is there yet
  envspec smoke specs/*.toml --runner slurm --partition 'a100=*-ampere' --partition 'h100=*-hopper' -o ~/smoke/nov
  envspec smoke specs/llm-v2.9.toml --runner slurm --nodes 2 --gpus-per-node 8 --cpus-per-task 32 --time 30
  envspec smoke --attach ~/smoke/nov --html report.html         take over what was submitted
  envspec smoke specs/mm-v2.9.toml --runner docker --dry-run    what would be run, and nothing else
"""

RUNNERS = ("local", "docker", "apptainer", "slurm")
GROUPS = ("static", "device", "operators", "training", "determinism", "compile", "dataloader", "collectives", "figures")
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog=EPILOG)
@options.specs
@options.target
@click.option("--runner", type=click.Choice(RUNNERS), default="local", show_default=True, help="Where the checks run.")
@click.option(
    "--device",
    type=click.Choice(("auto", "cuda", "cpu")),
    default="auto",
    show_default=True,
    help="What to train on; auto takes GPUs for a CUDA target where there are some.",
)
@click.option(
    "--workload",
    type=click.Choice(("basic", "multimodal", "llm", "deit", "dynamic")),
    help="The training [default: the spec's].",
)
@click.option("--steps", type=click.IntRange(1), help="Its steps [default: the spec's].")
@click.option("--quick", is_flag=True, help="Shorter checks, for a first look.")
@click.option("--only", type=click.Choice(GROUPS), multiple=True, help="This group of checks only; may be repeated.")
@click.option("--timeout", type=click.IntRange(1), metavar="SECONDS", help="The time limit of one check.")
@click.option("--references", type=_FILE, help="The site's references for figures, a TOML file.")
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where reports and logs go [default: a new folder in envspec's cache]; shared by all nodes for slurm.")  # fmt: skip  # noqa: E501
@click.option("--junit", type=_FILE, help="Write JUnit XML as well.")
@click.option("--html", type=_FILE, help="Write one self-contained page as well.")
@click.option("--dry-run", is_flag=True, help="Print what would be run, batch scripts whole, and do nothing.")
@click.option("--offline", is_flag=True, help="Ask no network to make an environment; use what the caches hold.")
@click.option("--image", help="docker: this image instead of one built from the recipe.")
@click.option("--engine", type=click.Choice(("docker", "podman")), help="docker: which [default: the one in PATH].")
@click.option("--sif", type=click.Path(path_type=Path, exists=True), help="apptainer: this image, not a built one.")
@click.option("--partition", "partitions", multiple=True, metavar="NAME[=TARGET,…]", help="slurm: run the targets (patterns) there; may be repeated.")  # fmt: skip  # noqa: E501
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="slurm: nodes of a job; from 2 on they train together too.")  # fmt: skip  # noqa: E501
@click.option("--inner", type=click.Choice(("local", "apptainer")), help="slurm: what runs on the nodes [default: local; apptainer with --sif].")  # fmt: skip  # noqa: E501
@click.option("--account", help="slurm: as sbatch takes it.")
@click.option("--time", "limit", metavar="TIME", help="slurm: a job's time limit, as sbatch takes it.")
@click.option("--gres", help="slurm: as sbatch takes it.")
@click.option("--gpus-per-node", help="slurm: as sbatch takes it.")
@click.option("--cpus-per-task", type=click.IntRange(1), help="slurm: CPUs of a node [default: 8 for jobs with GPUs, else the site's].")  # fmt: skip  # noqa: E501
@click.option("--mem", "memory", metavar="SIZE", help="slurm: memory of a node, as sbatch takes it [default: the site's].")  # fmt: skip  # noqa: E501
@click.option("--sbatch-arg", "sbatch_args", multiple=True, metavar="ARG", help="slurm: one more word for sbatch, as it is; may be repeated.")  # fmt: skip  # noqa: E501
@click.option("--no-wait", is_flag=True, help="slurm: submit, and leave.")
@click.option("--attach", metavar="JOB|DIR", help="slurm: wait for what was submitted, and report.")
@options.locks_dir
@options.as_json
def command(**given: Any) -> int:
    """Train in each environment, check it, and report.

    Makes what is needed from the lock (kept in envspec's cache), runs the checks in it and collects their reports.
    Without --target, the targets that this machine can't run are skipped, with the reason. A skip is no pass: the
    exit code is 0 only when a run passed, none failed and each gave an answer; 3 when one gave none.
    """
    from envspec.cli.smoke.options import smoke_options
    from envspec.cli.smoke.run import run

    return run(smoke_options(given))
