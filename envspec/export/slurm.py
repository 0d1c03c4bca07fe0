"""Slurm jobs: the SIF under Apptainer, and the image under pyxis/enroot. One of each for all targets of a spec: a
variable selects the target.

torchrun's processes meet on the first node, at the address by which Slurm reaches it and with ranks by Slurm's number
of each node: no name needs to resolve.
"""

from __future__ import annotations

from collections.abc import Iterable

from envspec.export.plan import CARRIED, WORKSPACE, SpecPlan, hash_heading
from envspec.export.quote import fill
from envspec.spec.cluster import SlurmTable

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

_WITHOUT_GPUS = "[[ ${SLURM_GPUS_ON_NODE:-0} != 0 ]] || unset SLURM_CPUS_PER_GPU # srun refuses it without GPUs"
_KEPT = ("SLURM_*", "PMI*", "CUDA_VISIBLE_DEVICES", "NCCL_*", "UCX_*", "OMP_*")
"""The caller's variables that get into a container: who a process is, which GPUs it has, and how it talks."""
_FOR_PYXIS = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "XDG_*",
    "ENROOT_*",
    "https?_proxy",
    "HTTPS?_PROXY",
    "NO_PROXY",
    "no_proxy",
)
"""What enroot itself needs of them."""


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
            "# shellcheck disable=SC2016 # run on each node: what the container gets of the caller's environment",
            "clean='for name in $(compgen -e); do case $name in",
            *_case(_passed_variables(plan.slurm)),
            '        [[ -v APPTAINERENV_$name ]] || export "APPTAINERENV_$name=${!name}" ;;',
            'esac; done; exec "$@"\'',
        ],
        inside=[
            f'bash -c "$clean" bash apptainer exec{" --nv" if plan.is_cuda else ""} --cleanenv --no-home \\',
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
        setup=[
            *_target(plan, "ENVSPEC_IMAGE"),
            f"image=${{ENVSPEC_IMAGE:-$here/{plan.spec}-$target.sqsh}}",
            "# What nodes and containers get of the caller's environment.",
            "kept=$(compgen -e | grep -Ex '"
            + "|".join(name.replace("*", ".*") for name in (*_FOR_PYXIS, *_passed_variables(plan.slurm)))
            + "' | paste -sd, -)",
        ],
        inside=[
            '--export="$kept" --container-image="$image" --no-container-mount-home --no-container-entrypoint \\',
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
        told.append(f"  ENVSPEC_TARGET={without[0].target} sbatch --gpus-per-node=0 --mincpus=8 {job} train.py")
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
    gpus = ["ranks=${ENVSPEC_RANKS_PER_NODE:-${SLURM_GPUS_ON_NODE:-1}}", "((ranks)) || ranks=1 # a job without GPUs"]
    ranks = gpus if plan.is_cuda else ["ranks=${ENVSPEC_RANKS_PER_NODE:-1}"]
    entrypoint = f"sh {CARRIED}/entrypoint.sh"
    lines = [
        "#!/bin/bash",
        *hash_heading(plan, usage),
        *(f"#SBATCH {option}" for option in _options(plan)),
        "set -euo pipefail",
        "",
        "here=$SLURM_SUBMIT_DIR",
        *setup,
        *_checkpoint(plan.slurm),
        *([_WITHOUT_GPUS] if plan.is_cuda else []),
        "",
        "inside() {",
        "    # Since Slurm 22.05 srun doesn't take --cpus-per-task over from the job.",
        '    srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --kill-on-bad-exit=1 \\'
        if plan.slurm.min_nodes is None
        else '    srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 --no-kill --kill-on-bad-exit=0 \\',
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
        *_torchrun(plan.slurm, entrypoint),
    ]
    return "\n".join(lines) + "\n"


def _passed_variables(asked: SlurmTable) -> tuple[str, ...]:
    """List the caller's variables that get into containers."""
    return (*_KEPT, *(["ENVSPEC_CHECKPOINT"] if asked.signal else []), *asked.environment)


def _case(names: Iterable[str]) -> list[str]:
    """Make the pattern of a `case`, on as few lines as it takes."""
    *lines, last = fill((f"{name} |" for name in names), 100)
    return [*(f"    {line} \\" for line in lines), f"    {last.removesuffix(' |')})"]


def _options(plan: SpecPlan) -> list[str]:
    """List the options of sbatch: those of the spec's own last, so that they win."""
    asked = plan.slurm
    options = [f"--job-name={plan.spec}", "--nodes=1", "--ntasks-per-node=1"]
    options += ["--gpus-per-node=1", f"--cpus-per-gpu={asked.cpus_per_gpu}"] if plan.is_cuda else ["--cpus-per-task=1"]
    options += [f"--time={asked.time}", "--output=%x-%j.out"]
    given = {
        "account": asked.account,
        "partition": asked.partition,
        "constraint": asked.constraint,
        "mem": asked.memory,
        # to the script alone: torchrun would end by it
        "signal": asked.signal and f"B:{asked.signal}",
    }
    options += [f"--{name}={value}" for name, value in given.items() if value is not None]
    # one log, however often the job starts
    options += ["--requeue", "--open-mode=append"] if asked.requeue else []
    return [*options, *(["--no-kill"] if asked.min_nodes is not None else []), *asked.options]


def _checkpoint(asked: SlurmTable) -> list[str]:
    """Make the lines for the warning before a job's end: a file, and a signal to the program's processes. torchrun's
    children are those with a rank, whose parent has none: so neither torchrun nor workers that load data get it.
    """
    if asked.signal is None:
        return []
    name = asked.signal.partition("@")[0]
    return [
        "# The warning before the job's end: a file, which the program can look for, and a signal to its processes.",
        "export ENVSPEC_CHECKPOINT=$here/.checkpoint-$SLURM_JOB_ID",
        'rm -f "$ENVSPEC_CHECKPOINT"',
        "# shellcheck disable=SC2016 # for the nodes' shells",
        """pass='has() { grep -qzs "^$2" "/proc/$1/environ"; }""",
        "for at in /proc/[0-9]*; do",
        "    of=${at#/proc/}",
        '    if has "$of" "SLURM_JOB_ID=$SLURM_JOB_ID\\$" && has "$of" LOCAL_RANK= &&',
        '        ! has "$(sed -n "s/^PPid:[[:blank:]]*//p" "$at/status")" LOCAL_RANK=; then',
        f'        kill -s {name} "$of"',
        "    fi",
        "done'",
        "# shellcheck disable=SC2317 # the trap calls it",
        "warn() {",
        '    touch "$ENVSPEC_CHECKPOINT"',
        '    srun --overlap --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 bash -c "$pass" || true',
        "}",
        f"trap warn {name}",
    ]


def _torchrun(asked: SlurmTable, entrypoint: str) -> list[str]:
    """Make the lines that run the training program, and wait for it where there can be a warning meanwhile."""
    end = " &" if asked.signal else ""
    if asked.max_restarts is None:
        lines = [
            f'inside sh -c \'exec {entrypoint} torchrun --node-rank="$SLURM_NODEID" "$@"\' torchrun \\',
            '    --nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node="$ranks" \\',
            f'    --master-addr="${{address:-$first}}" --master-port="$port" "$@"{end}',
        ]
    else:
        least = "" if asked.min_nodes is None else f"{asked.min_nodes}:"
        lines = [
            f'inside {entrypoint} torchrun --nnodes="{least}$SLURM_JOB_NUM_NODES" --nproc-per-node="$ranks" \\',
            f'    --max-restarts={asked.max_restarts} --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID" \\',
            f'    --rdzv-endpoint="${{address:-$first}}:$port" "$@"{end}',
        ]
    if not asked.signal:
        return lines
    lines += [
        "program=$!",
        "# A warning cuts a wait short.",
        'while kill -0 "$program" 2>/dev/null; do wait "$program" || true; done',
        "status=0",
        'wait "$program" || status=$?',
    ]
    if asked.requeue:
        lines += [
            "# After a warning the job goes on later, unless the program has removed the file: it is done then.",
            'if [[ -e $ENVSPEC_CHECKPOINT ]]; then scontrol requeue "$SLURM_JOB_ID"; fi',
        ]
    return [*lines, 'exit "$status"']
