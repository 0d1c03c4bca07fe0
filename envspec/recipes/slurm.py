"""Slurm jobs: the SIF under Apptainer, and the image under pyxis/enroot. One of each for all targets of a spec: a
variable selects the target.

torchrun's processes meet on the first node, at the address by which Slurm reaches it and with ranks by Slurm's number
of each node: no name needs to resolve.
"""

from __future__ import annotations

from collections.abc import Iterable

from envspec.recipes.heading import hash_heading
from envspec.recipes.plan import CARRIED, WORKSPACE, SpecPlan

APPTAINER_JOB = "job.sbatch"
PYXIS_JOB = "job-pyxis.sbatch"
MEETING_POINT = (
    "# Every node's torchrun meets the others on the first node, at a port that depends on the job, below those that",
    "# Linux hands out by itself (from 32768 on).",
    # not head, which ends the pipe early: pipefail would end the job
    'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)',
    "address=$(scontrol --oneliner show node \"$first\" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p') || address=",
    "port=$((20000 + SLURM_JOB_ID % 12000))",
)
"""Lines of bash in a job that set `first`, `address` (empty where Slurm has none) and `port`."""


def render(plan: SpecPlan) -> dict[str, str]:
    """Render `job.sbatch` and `job-pyxis.sbatch`."""
    return {APPTAINER_JOB: _apptainer(plan), PYXIS_JOB: _pyxis(plan)}


def _apptainer(plan: SpecPlan) -> str:
    usage = [
        "Options of the command line win over those here, and what follows the script is the training program:",
        *_submit(plan, APPTAINER_JOB),
        "Without a program it runs the smoke check, once on each node.",
        f"The image: ENVSPEC_SIF, else {plan.spec}-$ENVSPEC_TARGET.sif where the job is submitted: see the target's",
        "apptainer.def.",
        f"The container sees that folder, also as {WORKSPACE}, and no home. APPTAINER_BIND=FOLDER gives it more, and",
        "APPTAINERENV_NAME=VALUE sets a variable otherwise than the image.",
    ]
    return _job(
        plan,
        usage,
        setup=[
            *_target(plan, "ENVSPEC_SIF"),
            f"image=${{ENVSPEC_SIF:-$here/{plan.spec}-$target.sif}}",
            "if [[ ! -e $image ]]; then",
            '    echo "there is no $image: set ENVSPEC_SIF, or build it from the apptainer.def of a target" >&2',
            "    exit 2",
            "fi",
            "# Apptainer hands the caller's environment on.",
            "unset PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV CONDA_PREFIX",
        ],
        inside=[
            f"apptainer exec{' --nv' if plan.is_cuda else ''} --no-home \\",
            f'    --bind "$here" --bind "$here:{WORKSPACE}" --pwd "$here" "$image" "$@"',
        ],
    )


def _pyxis(plan: SpecPlan) -> str:
    usage = [
        "For clusters with NVIDIA's pyxis plugin. Options of the command line win over those here:",
        *_submit(plan, PYXIS_JOB),
        "Without a program it runs the smoke check, once on each node.",
        "The image: ENVSPEC_IMAGE, which may be a name that pyxis pulls, else a squashfs file made where the job is",
        "submitted, by",
        *(f"  enroot import -o {of.title}.sqsh dockerd://{of.image}" for of in plan.targets),
        "The image sets PYTORCH_VERSION, by which enroot knows to set MASTER_ADDR, RANK and the like.",
    ]
    return _job(
        plan,
        usage,
        setup=[*_target(plan, "ENVSPEC_IMAGE"), f"image=${{ENVSPEC_IMAGE:-$here/{plan.spec}-$target.sqsh}}"],
        inside=[
            '--container-image="$image" --no-container-mount-home --no-container-entrypoint \\',
            f'    --container-mounts="$here:$here,$here:{WORKSPACE}" --container-workdir="$here" "$@"',
        ],
    )


def _submit(plan: SpecPlan, job: str) -> list[str]:
    """Show how to submit the job, with the spec's own targets as examples."""
    sample = next((of for of in plan.targets if of.is_cuda), plan.targets[0])
    which = f"ENVSPEC_TARGET={sample.target} " if len(plan.targets) > 1 else ""
    gpus = " --gpus-per-node=8" if sample.is_cuda else ""
    told = [f"  {which}sbatch --nodes=4{gpus} {job} train.py --epochs 3"]
    without = [of for of in plan.targets if not of.is_cuda]
    if plan.is_cuda and without:
        told.append(f"  ENVSPEC_TARGET={without[0].target} sbatch --gpus-per-node=0 {job} train.py")
    return told


def _target(plan: SpecPlan, instead: str) -> list[str]:
    """Make the lines that set `target`: the only one, or the one that a variable names. `instead` names the image
    itself.
    """
    if len(plan.targets) == 1:
        return [f"target={plan.targets[0].target}"]
    names = ", ".join(plan.names)
    return [
        "target=${ENVSPEC_TARGET:-}",
        f"if [[ -z $target${{{instead}:-}} ]]; then",
        f'    echo "which target? set ENVSPEC_TARGET to one of {names}, or {instead}" >&2',
        "    exit 2",
        "fi",
    ]


def _job(plan: SpecPlan, usage: Iterable[str], *, setup: Iterable[str], inside: Iterable[str]) -> str:
    """Render a job. `setup` sets `image`; `inside` is the rest of the srun command that runs a program in it."""
    options = [f"--job-name={plan.spec}", "--nodes=1", "--ntasks-per-node=1"]
    options += ["--gpus-per-node=1", "--cpus-per-task=8"] if plan.is_cuda else ["--cpus-per-task=1"]
    options += ["--time=01:00:00", "--output=%x-%j.out"]
    gpus = ["ranks=${ENVSPEC_RANKS_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}", "((ranks)) || ranks=1 # a job without GPUs"]
    ranks = gpus if plan.is_cuda else ["ranks=${ENVSPEC_RANKS_PER_NODE:-1}"]
    entrypoint = f"sh {CARRIED}/entrypoint.sh"
    lines = [
        "#!/bin/bash",
        *hash_heading(plan, usage),
        *(f"#SBATCH {option}" for option in options),
        "set -euo pipefail",
        "",
        "here=$SLURM_SUBMIT_DIR",
        *setup,
        "",
        "inside() {",
        "    # Since Slurm 22.05 srun doesn't take --cpus-per-task over from the job.",
        '    srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --kill-on-bad-exit=1 \\',
        '        ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \\',
        *(f"        {line}" for line in inside),
        "}",
        "",
        "if (($# == 0)); then",
        f"    inside {entrypoint} smoke",
        "    exit",
        "fi",
        "",
        *MEETING_POINT,
        *ranks,
        f'inside sh -c \'exec {entrypoint} torchrun --node-rank="$SLURM_NODEID" "$@"\' torchrun \\',
        '    --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node="$ranks" \\',
        '    --master-addr="${address:-$first}" --master-port="$port" "$@"',
    ]
    return "\n".join(lines) + "\n"
