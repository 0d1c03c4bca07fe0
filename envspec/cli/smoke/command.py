"""`envspec smoke`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envspec.cli import options

EPILOG = """\b
Examples:
  envspec smoke specs/mm-v2.9.toml --target cu128-hopper        on this machine, in an environment made from the lock
  envspec smoke specs/mm-v2.9.toml --runner apptainer --quick   in images, built where they don't exist yet
  envspec smoke specs/*.toml --runner slurm --partition 'a100=*-ampere' --partition 'h100=*-hopper' -o ~/smoke/nov
  envspec smoke specs/llm-v2.9.toml --runner slurm --nodes 2 --gpus-per-node 8 --cpus-per-task 32 --time 30
  envspec smoke --attach ~/smoke/nov --html report.html         wait for submitted jobs and report
  envspec smoke --compare node1/check.json node2/check.json     the same weights on two machines?
  envspec smoke specs/mm-v2.9.toml --runner docker --dry-run    show what would run, and run nothing
"""

RUNNERS = ("local", "docker", "apptainer", "slurm")
GROUPS = (
    "static", "device", "operators", "training", "determinism", "compile", "dataloader", "collectives",
    "stack", "figures",
)  # fmt: skip
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog=EPILOG)
@options.specs
@options.target
@click.option(
    "--runner", type=click.Choice(RUNNERS), default="local", show_default=True, help="The place that the checks run in."
)
@click.option(
    "--device",
    type=click.Choice(("auto", "cuda", "cpu")),
    default="auto",
    show_default=True,
    help="The device to train on; auto takes GPUs for a CUDA target if there are any.",
)
@click.option(
    "--workload",
    type=click.Choice(("basic", "multimodal", "llm", "deit", "dynamic")),
    help="The training [default: the spec's].",
)
@click.option("--steps", type=click.IntRange(1), help="The training's steps [default: the spec's].")
@click.option("--quick", is_flag=True, help="Run shorter checks, for a first look.")
@click.option("--deep", is_flag=True, help="Read every file, however large, and compile what has to be compiled.")
@click.option("--only", type=click.Choice(GROUPS), multiple=True, help="Only this group of checks; may be repeated.")
@click.option("--timeout", type=click.IntRange(1), metavar="SECONDS", help="The time limit of one check.")
@click.option("--references", type=_FILE, help="The site's references for figures, a TOML file.")
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="The folder for reports and logs [default: a new folder in envspec's cache]; for slurm, all nodes share it.")  # fmt: skip  # noqa: E501
@click.option("--junit", type=_FILE, help="Write JUnit XML as well.")
@click.option("--html", type=_FILE, help="Write one self-contained page as well.")
@click.option("--dry-run", is_flag=True, help="Print what would run, with the whole batch scripts, and run nothing.")
@click.option("--offline", is_flag=True, help="Make environments without the network, from the caches.")
@click.option("--image", help="docker: this image instead of one built from the recipe.")
@click.option(
    "--engine", type=click.Choice(("docker", "podman")), help="docker: the program to use [default: the one in PATH]."
)
@click.option(
    "--sif",
    type=click.Path(path_type=Path, exists=True),
    help="apptainer: this image instead of one built from the recipe.",
)
@click.option("--partition", "partitions", multiple=True, metavar="NAME[=TARGET,…]", help="slurm: the partition for these targets (patterns); may be repeated.")  # fmt: skip  # noqa: E501
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="slurm: nodes of a job; two or more also train together.")  # fmt: skip  # noqa: E501
@click.option("--inner", type=click.Choice(("local", "apptainer")), help="slurm: the runner on the nodes [default: local; apptainer with --sif].")  # fmt: skip  # noqa: E501
@click.option("--account", help="slurm: passed on to sbatch.")
@click.option("--time", "limit", metavar="TIME", help="slurm: a job's time limit, in sbatch's form.")
@click.option("--gres", help="slurm: passed on to sbatch.")
@click.option("--gpus-per-node", help="slurm: passed on to sbatch.")
@click.option("--cpus-per-task", type=click.IntRange(1), help="slurm: CPUs of a node [default: 8 for jobs with GPUs, else the site's].")  # fmt: skip  # noqa: E501
@click.option("--mem", "memory", metavar="SIZE", help="slurm: memory of a node, in sbatch's form [default: the site's].")  # fmt: skip  # noqa: E501
@click.option("--sbatch-arg", "sbatch_args", multiple=True, metavar="ARG", help="slurm: another argument for sbatch, unchanged; may be repeated.")  # fmt: skip  # noqa: E501
@click.option("--no-wait", is_flag=True, help="slurm: submit, and don't wait.")
@click.option("--attach", metavar="JOB|DIR", help="slurm: wait for submitted jobs, and report.")
@click.option("--compare", nargs=2, type=click.Path(path_type=Path, exists=True), metavar="A B", help="Compare two reports, or folders with one each, and run nothing.")  # fmt: skip  # noqa: E501
@options.locks_dir
@options.as_json
def command(**given: Any) -> int:
    """Train in each environment, check it, and report

    envspec makes environments or images from the lock (and keeps them in its cache), runs the checks in them and
    collects the reports. Without --target, envspec skips the targets that this machine can't run and gives the reason.
    A skip isn't a pass: the exit code is 0 only when a run passed, none failed and each gave an answer; 3 when one gave
    none.
    """
    if given["compare"]:
        from envspec.cli.smoke.compare import compare_reports

        return compare_reports(*given["compare"], as_json=given["as_json"])
    from envspec.app.smoke.options import smoke_options
    from envspec.cli.smoke.run import run

    return run(smoke_options(given))
