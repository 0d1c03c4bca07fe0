"""`envspec smoke`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec.structs import asdict, fields

from envspec.app.find_specs import only_spec
from envspec.app.smoke.cases import SmokeRequest
from envspec.app.smoke.run import HandedOver, SmokeOutcome, compare_reports, dry_run, smoke
from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import columns, out, say, tell, wants_json
from envspec.cli.table import colour_word
from envspec.prove.smoke.report.result import GROUPS
from envspec.prove.smoke.run.case import CheckOptions
from envspec.prove.smoke.run.slurm import Resources

if TYPE_CHECKING:
    from envspec.prove.smoke.report.compare import Comparison

EPILOG = """\b
Examples:
  envspec smoke specs/mm-v2.9.toml --target cu128-hopper        on this machine, in an environment made from the lock
  envspec smoke specs/mm-v2.9.toml --runner apptainer --quick   in images, built where they don't exist yet
  envspec smoke specs/*.toml --runner slurm --partition 'a100=*-ampere' --partition 'h100=*-hopper' -o ~/smoke/nov
  envspec smoke specs/llm-v2.9.toml --runner slurm --nodes 2 --gpus-per-node 8 --cpus-per-task 32 --time 30
  envspec smoke --attach ~/smoke/nov --html report.html         wait for submitted jobs and report
  envspec smoke specs/*.toml --evidence docs/evidence           keep what each run proves, and the table of it
  envspec smoke --compare node1/check.json node2/check.json     the same weights on two machines?
  envspec smoke specs/mm-v2.9.toml --runner docker --dry-run    show what would run, and run nothing
"""

RUNNERS = ("local", "docker", "apptainer", "slurm")
_EXIT = {"pass": 0, "fail": 1, "skip": 1, "error": 3}
"""The exit code by the verdict of all runs: a missing answer is a failure outside the environment."""
_WEIGHTS = {"same": "the same, bit by bit", "differs": "differ", "not compared": "not compared"}
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command(epilog=EPILOG)
@options.specs
@options.target
@click.option(
    "--runner", type=click.Choice(RUNNERS), default="local", show_default=True, help="The place of the checks."
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
@click.option("--deep", is_flag=True, help="Read files of any size, and compare all bytecode.")
@click.option(
    "--only",
    type=click.Choice(GROUPS),
    metavar="GROUP",
    multiple=True,
    help=f"Only this group of checks; may be repeated: {', '.join(GROUPS)}.",
)
@click.option("--timeout", type=click.IntRange(1), metavar="SECONDS", help="The time limit of one check.")
@click.option("--references", type=_FILE, help="The site's references for figures, a TOML file.")
@click.option("--output", "-o", type=options.Folder(), metavar="DIR", help="The folder for reports and logs [default: "
              "a new folder in envspec's cache]; for slurm, all nodes share it.")  # fmt: skip
@click.option("--near", is_flag=True, help="Also run targets for other GPUs whose code runs on this machine (sm_80 on "
              "an RTX 3090); this doesn't prove those targets.")  # fmt: skip
@options.evidence
@click.option("--junit", type=_FILE, help="Write JUnit XML as well.")
@click.option("--html", type=_FILE, help="Write one self-contained page as well.")
@click.option("--dry-run", is_flag=True, help="Print the runs, their places and time limits, and run nothing.")
@click.option("--verbose", "-v", is_flag=True, help="With --dry-run, print every command, and the whole batch scripts.")
@click.option("--offline", is_flag=True, help="Make environments without the network, from the caches.")
@click.option("--image", help="docker: use this image, and build none.")
@click.option(
    "--engine", type=click.Choice(("docker", "podman")), help="docker: the program to use [default: the one in PATH]."
)
@click.option(
    "--sif",
    type=click.Path(path_type=Path, exists=True),
    help="apptainer: use this image, and build none.",
)
@click.option("--partition", "partitions", multiple=True, metavar="NAME[=TARGET,…]", help="slurm: the partition for "
              "these targets (patterns); may be repeated.")  # fmt: skip
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="slurm: nodes of a job; two or "
              "more also train together.")  # fmt: skip
@click.option("--inner", type=click.Choice(("local", "apptainer")), help="slurm: the runner on the nodes [default: "
              "local; apptainer with --sif].")  # fmt: skip
@click.option("--account", help="slurm: passed on to sbatch.")
@click.option("--time", metavar="TIME", help="slurm: a job's time limit, in sbatch's form.")
@click.option("--gres", help="slurm: passed on to sbatch.")
@click.option("--gpus-per-node", help="slurm: passed on to sbatch.")
@click.option("--cpus-per-task", "cpus", type=click.IntRange(1), help="slurm: CPUs of a node [default: 8 for jobs "
              "with GPUs, else the site's].")  # fmt: skip
@click.option("--mem", "memory", metavar="SIZE", help="slurm: memory of a node, in sbatch's form [default: the "
              "site's].")  # fmt: skip
@click.option("--sbatch-arg", "more", multiple=True, metavar="ARG", help="slurm: another argument for sbatch, "
              "unchanged; may be repeated.")  # fmt: skip
@click.option("--no-wait", is_flag=True, help="slurm: submit, and don't wait.")
@click.option("--attach", metavar="JOB|DIR", help="slurm: wait for submitted jobs, and report.")
@click.option("--compare", nargs=2, type=click.Path(path_type=Path, exists=True), metavar="A B", help="Compare two "
              "reports, or folders with one each, and run nothing.")  # fmt: skip
@options.locks_dir
@options.as_json
def command(**given: Any) -> int:
    """Train in each environment, check it, and report

    envspec makes environments or images from the lock (and keeps them in its cache), runs the checks in them and
    collects the reports. Without --target, envspec skips the targets that this machine can't run and gives the reason.
    A skip isn't a pass: the exit code is 0 only if a run passed, none failed and each reported. It is 3 if a run gave
    no report.
    """
    if given["compare"]:
        return _compare(*given["compare"])
    request = _request(given)
    if request.dry_run and request.attach is None:
        out("\n".join(dry_run(request, whole=given["verbose"])))
        return 0
    outcome = smoke(request)
    if isinstance(outcome, HandedOver):
        out(str(outcome.folder))
        return 0 if outcome.whole else 3
    return _show(outcome)


def _show(outcome: SmokeOutcome) -> int:
    for error in outcome.unwritten:
        tell(error)
    options.answer("smoke", outcome.document, outcome.text(columns(), colour_word))
    if any(run.status != "skip" for run in outcome.results.runs):
        say(f"reports and logs: {outcome.folder}")
    return outcome.unwritten[-1].exit_code if outcome.unwritten else _EXIT[outcome.results.verdict]


def _compare(first: Path, second: Path) -> int:
    comparison = compare_reports(first, second)
    tables = {name: list(map(_name_columns, getattr(comparison, name))) for name in ("facts", "checks", "figures")}
    options.answer("smoke-compare", {"ok": comparison.ok, **asdict(comparison), **tables}, _differences(comparison))
    return 0 if comparison.ok else AnswerNo.exit_code


def _name_columns(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("name", "one", "other", "share"), row, strict=False))


def _differences(comparison: Comparison) -> Iterator[str]:
    why = f": {printable(comparison.reason)}" if comparison.reason else ""
    yield f"weights: {_WEIGHTS[comparison.weights]}{why}"
    for name, first_value, second_value in comparison.facts:
        yield f"  {name}: {printable(first_value)} | {printable(second_value)}"
    if comparison.checks:
        yield "checks that came out otherwise:"
        for name, first, second in comparison.checks:
            yield f"  {printable(name)}: {first or 'not there'} | {second or 'not there'}"
    if comparison.figures:
        yield "figures:"
        for name, first_value, second_value, share in comparison.figures:
            beside = "" if share is None else f" ({share:.0%})"
            yield f"  {printable(name)}: {printable(first_value)} | {printable(second_value)}{beside}"


_OF_RUNNERS = {
    "image": ("docker",), "engine": ("docker",), "sif": ("apptainer", "slurm"), "inner": ("slurm",),
    "partitions": ("slurm",), "account": ("slurm",), "time": ("slurm",), "gres": ("slurm",),
    "gpus_per_node": ("slurm",), "cpus": ("slurm",), "memory": ("slurm",), "more": ("slurm",), "no_wait": ("slurm",),
}  # fmt: skip
"""The options that only some runners have."""
_SPELT = {"partitions": "--partition", "cpus": "--cpus-per-task", "memory": "--mem", "more": "--sbatch-arg"}


def _request(given: Mapping[str, Any]) -> SmokeRequest:
    """Read the options from click's values by name. Raises InputError for options that exclude each other."""
    if given["attach"] is None:
        _refuse(given)
        given = {**given, "paths": given["paths"] or (only_spec(),)}
    elif given["paths"] or given["targets"]:
        raise InputError("--attach takes no spec and no target: the submitted jobs have theirs")
    parts = {"checks": _of(CheckOptions, given), "resources": _of(Resources, given)}
    return _of(SmokeRequest, {**given, **parts})


_T = TypeVar("_T")


def _of(kind: type[_T], given: Mapping[str, Any]) -> _T:
    """Make a dataclass whose fields have the options' names."""
    return kind(**{field.name: given[field.name] for field in fields(kind)})  # type: ignore[arg-type]


def _refuse(given: Mapping[str, Any]) -> None:
    runner = given["runner"]
    for name, runners in _OF_RUNNERS.items():
        if given[name] and runner not in runners:
            spelt = _SPELT.get(name, "--" + name.replace("_", "-"))
            raise InputError(f"{spelt} is for --runner {' or '.join(runners)}, not for {runner}")
    if given["nodes"] > 1 and runner != "slurm":
        raise InputError(f"--nodes is for --runner slurm, not for {runner}")
    if given["sif"] and given["inner"] == "local":
        raise InputError("--sif is for --inner apptainer")
    if given["verbose"] and not given["dry_run"]:
        raise InputError("--verbose is for --dry-run")
    if given["dry_run"] and wants_json():
        raise InputError("--dry-run has no JSON output")
    if given["no_wait"] and given["evidence"]:
        raise InputError("--no-wait has no reports to keep", hint="leave --evidence out here, and use it with --attach")
    if given["no_wait"] and wants_json():
        raise InputError(
            "--no-wait has no results to print as JSON", hint="leave out --json here, and use it with --attach"
        )
