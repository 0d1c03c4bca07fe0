"""Slurm jobs: the SIF under Apptainer, the image under pyxis/enroot, and the environment on a machine's base. One of
each for all targets of a spec: a variable selects the target.

torchrun's processes meet on the first node, at the address by which Slurm reaches it and with ranks by Slurm's number
of each node: no name needs to resolve.
"""

from __future__ import annotations

from collections.abc import Iterable

from envspec.base.places import LIBRARIES
from envspec.export.plan import (
    CARRIED,
    CARRIED_FOLDER,
    CHECK,
    CHECK_ARCHIVE,
    SHARED_FOLDER,
    SLICE,
    WORKSPACE,
    Plan,
    SpecPlan,
    hash_heading,
)
from envspec.export.quote import fill
from envspec.spec.cluster import SlurmTable
from envspec.spec.model import ON_MACHINES

APPTAINER_JOB = "job.sbatch"
PYXIS_JOB = "job-pyxis.sbatch"
MOUNTS = "ENVSPEC_MOUNTS"
"""The variable with further mounts of the job under pyxis."""
MEETING_POINT = (
    "# All meet on the first node, at a port that depends on the job, below those that Linux hands out (32768 and on).",
    # not head, which ends the pipe early: pipefail would end the job
    'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)',
    "address=$(scontrol --oneliner show node \"$first\" | sed -n 's/.* NodeAddr=\\([^ ]*\\).*/\\1/p') || address=",
    "port=$((20000 + SLURM_JOB_ID % 12000))",
)
"""Lines of bash in a job that set `first`, `address` (empty where Slurm has none) and `port`."""

OF_OTHERS = (
    "export PATH # srun gets all of this job, and nothing that --export or an outer job left to it",
    "unset SLURM_{EXPORT_ENV,GPUS,GPU_BIND,GRES,STEP_GRES,TRES_PER_TASK,OVERCOMMIT,THREADS_PER_CORE} \\",
    '    SLURM_NTASKS_PER_{CORE,GPU,SOCKET,TRES} "${!SRUN_@}" "${!SLURM_GPUS_PER_@}" "${!SLURM_MEM_@}" \\',
    '    "${!SLURM_CPU_BIND@}" "${!SLURM_DIST@}" "${!SLURM_HET_@}"',
)
"""Lines of bash in a job that take out of its environment what srun reads and sbatch didn't set for this very job: with
none of it a step has the GPUs, the memory and the CPUs of its job. Source: srun(1), "Input environment variables", and
sbatch(1), "Output environment variables", of Slurm 22.05 and, for SLURM_TRES_PER_TASK, 23.11."""
PASSED = (
    "SLURM_*",
    "PMI*",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "NCCL_*",
    "TORCH_NCCL_*",
    "GLOO_*",
    "UCX_*",
    "FI_*",
    "OMP_*",
)
"""The caller's variables that get into a container, of a job and of the smoke check: who a process is, which GPUs it
has, and how it talks.
"""
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
    """Render `job.sbatch` and `job-pyxis.sbatch`; pyxis runs no SIF, and a machine's own base needs no container."""
    if is_on_machine(plan.targets[0]):
        return {APPTAINER_JOB: _on_machine(plan)}
    base = plan.targets[0].on_base
    return {APPTAINER_JOB: _apptainer(plan), **({} if base and base.kind == "sif" else {PYXIS_JOB: _pyxis(plan)})}


def is_on_machine(plan: Plan) -> bool:
    """Say whether a target's jobs run in an environment of the machine, on a prefix or a module."""
    return plan.on_base is not None and plan.on_base.kind in ON_MACHINES


def _on_machine(plan: SpecPlan) -> str:
    usage = [
        *_submit(plan, APPTAINER_JOB),
        f"The environment: ENVSPEC_ENVIRONMENT, else {plan.spec}-$ENVSPEC_TARGET where the job is submitted, made by",
        *(f"  envspec install SPEC --target {of.target} --prefix {of.title}" for of in plan.targets),
    ]
    setup = [
        *_target(plan, None),
        f"environment=${{ENVSPEC_ENVIRONMENT:-$here/{plan.spec}-$target}}",
        'cd "$here"',
        "set +u # modules' functions ask for names that aren't set",
        "# shellcheck disable=SC1091 # it loads the base's modules, too",
        '. "$environment/bin/activate"',
        "set -u",
    ]
    return _job(plan, usage, setup=setup, inside=['"$@"'])


def _apptainer(plan: SpecPlan) -> str:
    base = plan.targets[0].on_base
    usage = [
        *_submit(plan, APPTAINER_JOB),
        f"The image: ENVSPEC_SIF, else {plan.spec}-$ENVSPEC_TARGET.sif where the job is submitted: see the target's",
        "apptainer.def.",
        *(
            ["An overlay: ENVSPEC_SIF=BASE.sif APPTAINER_OVERLAY=FILE.sqfs:ro, as envspec image --squashfs says."]
            * bool(base)
        ),
        f"The container sees that folder, also as {WORKSPACE}, "
        f"and {'it is its home' if base else 'no home'}. APPTAINER_BIND=FOLDER gives it more, and",
        "APPTAINERENV_NAME=VALUE sets a variable otherwise than the image.",
    ]
    return _job(
        plan,
        usage,
        setup=[
            *_target(plan, "ENVSPEC_SIF"),
            f"image=${{ENVSPEC_SIF:-$here/{plan.spec}-$target.sif}}",
            '[[ -e $image ]] || fail "there is no $image: set ENVSPEC_SIF, or build it from a target\'s apptainer.def"',
            "# run on each node: what the container gets of the caller's environment",
            "clean='for name in $(compgen -e); do case $name in",
            *_case(_passed_variables(plan.slurm)),
            '        [[ -v APPTAINERENV_$name ]] || export "APPTAINERENV_$name=${!name}" ;;',
            'esac; done; exec "$@"\'',
        ],
        inside=[
            # no entry point finds the home that caches need
            f'bash -c "$clean" bash apptainer exec{" --nv" if plan.is_cuda else ""} --cleanenv '
            + ('--home "$here" \\' if base else "--no-home \\"),
            f'    --bind "$here" --bind "$here:{WORKSPACE}" --pwd "$here" "$image" "$@"',
        ],
    )


def _pyxis(plan: SpecPlan) -> str:
    usage = [
        *_submit(plan, PYXIS_JOB),
        "The image: ENVSPEC_IMAGE, which may be a name that pyxis pulls, else a squashfs file made where the job is",
        "submitted, by",
        *(f"  enroot import -o {of.title}.sqsh dockerd://{of.image}" for of in plan.targets),
        "The image sets PYTORCH_VERSION, by which enroot knows to set MASTER_ADDR, RANK and the like.",
        f"{MOUNTS}=FROM:TO,… mounts more, {LIBRARIES}=FOLDER:… is where its programs look for libraries.",
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
            f'--export="$kept${{{LIBRARIES}:+,LD_LIBRARY_PATH=${LIBRARIES}}}" --container-image="$image" \\',
            f'    --container-mounts="$here:$here,$here:{WORKSPACE}${{{MOUNTS}:+,${MOUNTS}}}" \\',
            '    --no-container-mount-home --no-container-entrypoint --container-workdir="$here" "$@"',
        ],
    )


def _submit(plan: SpecPlan, job: str) -> list[str]:
    """Show how to submit the job, with the spec's own targets as examples, and the options that don't go together:
    sbatch replaces an option by the same one alone."""
    sample = next((of for of in plan.targets if of.is_cuda), plan.targets[0])
    which = f"ENVSPEC_TARGET={sample.target} " if len(plan.targets) > 1 else ""
    own = _gpu_options(plan.slurm)
    gpus = " --gpus-per-node=8" if sample.is_cuda and not own else ""
    whose = "With NVIDIA's pyxis. " if job == PYXIS_JOB else ""
    lines = [
        f"{whose}Options of the command line replace the same ones here; the training program comes last:",
        f"  {which}sbatch --nodes=4{gpus} {job} train.py --epochs 3",
    ]
    without = [of for of in plan.targets if not of.is_cuda]
    if plan.is_cuda and without:
        none = [_WITHOUT.get(name, f"--{name}=0") for name in own or ("gpus-per-node",)]
        lines.append(f"  ENVSPEC_TARGET={without[0].target} sbatch {' '.join(none)} --mincpus=8 {job} train.py")
    lines.append("Without a program it runs the smoke check, once on each node.")
    if plan.is_cuda:
        ways = "GPUs by --gpus-per-node=[KIND:]N, or an empty one before another way; " if not own else ""
        lines.append(f"{ways}CPUs by --cpus-per-gpu, not --cpus-per-task.")
    if plan.slurm.memory is not None:
        lines.append("Memory by --mem, not --mem-per-cpu or --mem-per-gpu.")
    return [*lines, *(["--signal stays as it is: the job handles no other."] if plan.slurm.signal else [])]


_BY_GRES = "gres"
_WITHOUT = {_BY_GRES: "--gres=none"}


def _gpu_options(asked: SlurmTable) -> tuple[str, ...]:
    """Name the options of the spec's own that ask for GPUs, in one of Slurm's ways."""
    given = (option.removeprefix("--").partition("=") for option in asked.options)
    return tuple(
        name
        for name, _, value in given
        if name in ("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task")
        or (name == _BY_GRES and any(one.startswith("gpu") for one in value.split(",")))
    )


def _target(plan: SpecPlan, instead: str | None) -> list[str]:
    """Make the lines that set `target`: the only one, or the one that a variable names. `instead` names the image
    itself, where there is one.
    """
    if len(plan.targets) == 1:
        return [f"target={plan.targets[0].target}"]
    names = f"{', '.join(plan.names)}{f', or {instead}' if instead else ''}"
    given = f"$target{f'${{{instead}:-}}' if instead else ''}"
    return [
        "target=${ENVSPEC_TARGET:-}",
        f'[[ -n {given} ]] || fail "which target? set ENVSPEC_TARGET to one of {names}"',
    ]


def _job(plan: SpecPlan, usage: Iterable[str], *, setup: Iterable[str], inside: Iterable[str]) -> str:
    """Render a job. `setup` sets `image`; `inside` is the rest of the srun command that runs a program in it."""
    ranks = _GPU_RANKS if plan.is_cuda else ("ranks=${ENVSPEC_RANKS_PER_NODE:-1}",)
    base = plan.targets[0].on_base
    begin, smoke = f"sh {CARRIED}/entrypoint.sh ", f"sh {CARRIED}/entrypoint.sh smoke"
    carried, python, torchrun = CARRIED, "python", "torchrun"
    if base:
        # torchrun may be of a Python that sees none of what is added
        begin, python, torchrun = "", "python3", "python3 -m torch.distributed.run"
        config, check = f"{CARRIED}/{SLICE}", CHECK
        if is_on_machine(plan.targets[0]):
            carried, check = f"../{SHARED_FOLDER}" if plan.shares else CARRIED_FOLDER, CHECK_ARCHIVE
            config = f'"$target/{SLICE}"'
        smoke = f"python3 -I {carried}/{check} --config {config}"
    lines = [
        "#!/bin/bash",
        *hash_heading(plan, usage),
        *(f"#SBATCH {option}" for option in _options(plan)),
        "# shellcheck disable=SC2016 # the nodes' shells read what stands in quotes",
        "set -euo pipefail",
        *_resources(plan),
        "",
        "here=$SLURM_SUBMIT_DIR",
        *([] if base else _locks(plan)),
        *_checkpoint(plan.slurm),
        *setup,
        "",
        "inside() {",
        *_srun(plan),
        *(f"        {line}" for line in inside),
        "}",
        "",
        *(_SAME_GPUS if plan.is_cuda else ()),
        "if (($# == 0)); then",
        f"    inside {smoke}",
        "    exit",
        "fi",
        "",
        *MEETING_POINT,
        *ranks,
        *_training(plan, begin, carried, python, torchrun),
    ]
    begun = lines.index("set -euo pipefail") + 1
    lines[begun:begun] = ['fail() { echo "envspec: $1" >&2 && exit 2; }', _NUMBERS]
    return "\n".join(lines) + "\n"


_NUMBERS = (
    "for name in SLURM_JOB_ID SLURM_GPUS_ON_NODE ENVSPEC_RANKS_PER_NODE; do"
    ' [[ ${!name:-0} =~ ^[0-9]+$ ]] || fail "$name is no number: ${!name}"; done'
)
"""A line of bash that refuses what isn't a number: in arithmetic bash would run the `$(…)` of `HOME[$(…)]`."""
_SAME_GPUS = (
    'seen=$gpus; [[ ! -v CUDA_VISIBLE_DEVICES ]] || seen=$(srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 \\',
    "    bash -c 'IFS=,; set -- $CUDA_VISIBLE_DEVICES; echo $#' | sort -nu | paste -sd/)",
    '[[ $seen == "$gpus" ]] || fail "the first node has $gpus GPUs, and processes of the job see $seen:'
    ' ask for the same number on each node, by --gpus-per-node"',
)
"""Lines of bash in a job with GPUs that compare what it has with what the processes of a step see. Without Slurm's
CUDA_VISIBLE_DEVICES a process may use all GPUs of its node, or there is none."""
_GPU_RANKS = (
    "ranks=${ENVSPEC_RANKS_PER_NODE:-$((gpus ? gpus : 1))}",
    '((gpus == 0 || ranks <= gpus)) || fail "ENVSPEC_RANKS_PER_NODE asks for $ranks ranks on $gpus GPUs"',
)
"""Lines of bash in a job with GPUs that set `ranks`, the processes on each node."""


def _resources(plan: SpecPlan) -> list[str]:
    """Make the lines that count the GPUs of the job's first node, and leave steps all that the job has."""
    lines = list(OF_OTHERS)
    if plan.is_cuda:
        lines.insert(0, "gpus=${SLURM_GPUS_ON_NODE:-0}")
        if not {"gpus-per-node"}.isdisjoint(_gpu_options(plan.slurm) or ("gpus-per-node",)):
            # of two ways at once Slurm takes one
            lines[1:1] = [
                "[[ ! ${SLURM_GPUS_PER_NODE-} =~ (^|:)([0-9]+)$ ]] || ((BASH_REMATCH[2] <= gpus)) || fail"
                ' "--gpus-per-node asks for ${BASH_REMATCH[2]} GPUs, and this job has $gpus: ask in one way"',
            ]
    if plan.slurm.launch == "srun":
        return [*lines, "unset SLURM_CPUS_PER_GPU SLURM_CPUS_PER_TASK"]
    if not plan.is_cuda:
        return [*lines, "unset SLURM_CPUS_PER_GPU"]
    return [
        *lines,
        "[[ ! -v SLURM_CPUS_PER_GPU ]] || unset SLURM_CPUS_PER_TASK; ((gpus)) || unset SLURM_CPUS_PER_GPU",
    ]


def _locks(plan: SpecPlan) -> list[str]:
    """Make the lines that name the locks which the image has to be of. A repository's `recipes/` names no digest, so
    that plain git merges them: there the job takes those of the slices beside it.
    """
    if plan.shares:
        preflight = f"$here/../{SHARED_FOLDER}/preflight.py"
        return [
            f"[[ -v ENVSPEC_LOCK || ! -e {preflight} ]] ||",
            f'    ENVSPEC_LOCK=$(python3 -IB "{preflight}" --locks "$here"/*/target.json) || ENVSPEC_LOCK=',
            "export ENVSPEC_LOCK # the slices beside this job, to which the image compares its own; empty for any",
        ]
    return [
        "# The digests of the lock's slices, which the image compares with its own; empty for any image.",
        "locks=(",
        *(f"    {of.target}={of.lock_digest}" for of in plan.targets),
        ")",
        'export ENVSPEC_LOCK="${ENVSPEC_LOCK-${locks[*]}}"',
    ]


def _srun(plan: SpecPlan) -> list[str]:
    """Make the beginning of the srun command: one task a node, or as many as `ranks` says."""
    asked = plan.slurm
    if asked.launch == "srun":
        by_mpi = f" --mpi={asked.mpi}" if asked.mpi else ""
        return [
            "    # The CPUs of a node in equal parts.",
            f"    srun{by_mpi} --ntasks=$((SLURM_JOB_NUM_NODES * ${{ranks:-1}})) \\",
            '        --ntasks-per-node="${ranks:-1}" --kill-on-bad-exit=1 \\',
            "        --cpus-per-task=$((SLURM_CPUS_ON_NODE > ${ranks:-1} ? SLURM_CPUS_ON_NODE / ${ranks:-1} : 1)) \\",
            # a job with --gpus-per-task would have so many for each rank
            *(['        --gpus-per-node="$gpus" \\'] if plan.is_cuda else []),
        ]
    lost = "--kill-on-bad-exit=1" if asked.min_nodes is None else "--no-kill --kill-on-bad-exit=0"
    return [
        "    # Since Slurm 22.05 srun doesn't take --cpus-per-task over from the job.",
        f'    srun --ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1 {lost} \\',
        '        ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \\',
    ]


def _passed_variables(asked: SlurmTable) -> tuple[str, ...]:
    """List the caller's variables that get into containers."""
    return (*PASSED, "ENVSPEC_LOCK", *(["ENVSPEC_CHECKPOINT"] if asked.signal else []), *asked.environment)


def _case(names: Iterable[str]) -> list[str]:
    """Make the pattern of a `case`, on as few lines as it takes."""
    *lines, last = fill((f"{name} |" for name in names), 100)
    return [*(f"    {line} \\" for line in lines), f"    {last.removesuffix(' |')})"]


def _options(plan: SpecPlan) -> list[str]:
    """List the options of sbatch: those of the spec's own last, so that they win."""
    asked = plan.slurm
    options = [f"--job-name={plan.spec}", "--nodes=1", "--ntasks-per-node=1"]
    if plan.is_cuda:
        options += [] if _gpu_options(asked) else ["--gpus-per-node=1"]
        options.append(f"--cpus-per-gpu={asked.cpus_per_gpu}")
    else:
        options.append("--cpus-per-task=1")
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
    """Make the lines for the warning before a job's end: a file, by which the images' `warned.sh` signals programs that
    handle a signal.
    """
    if asked.signal is None:
        return []
    return [
        "# The warning before the job's end: a file. When it is there, processes that handle the signal get that.",
        "export ENVSPEC_CHECKPOINT=$here/.checkpoint-$SLURM_JOB_ID",
        'rm -f "$ENVSPEC_CHECKPOINT"',
        f"trap 'touch \"$ENVSPEC_CHECKPOINT\"' {asked.signal.partition('@')[0]}",
    ]


def _training(plan: SpecPlan, begin: str, carried: str, python: str, torchrun: str) -> list[str]:
    """Make the lines that run the training program, and wait for it where there can be a warning meanwhile. `carried`
    is the folder of the carried files, `begin` what each program begins with."""
    asked = plan.slurm
    name, _, _ = (asked.signal or "").partition("@")
    begin += f"sh {carried}/warned.sh {name} " if name else ""
    end = " &" if name else ""
    if asked.launch == "srun":
        node = (
            'export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_NTASKS"\n'
            'export LOCAL_WORLD_SIZE="$1" MASTER_ADDR="$2" MASTER_PORT="$3"; shift 3\n'
            f'exec {begin}{python} "$@"'
        )
        words = ["python", '"$ranks" "${address:-$first}" "$port" "$@"']
    elif asked.max_restarts is None:
        node = f'exec {begin}{torchrun} --node-rank="$SLURM_NODEID" "$@"'
        words = [
            "torchrun",
            '--nnodes="$SLURM_JOB_NUM_NODES" --nproc-per-node="$ranks"',
            '--master-addr="${address:-$first}" --master-port="$port" "$@"',
        ]
    else:
        least = "" if asked.min_nodes is None else f"{asked.min_nodes}:"
        node = f'exec {begin}{torchrun} "$@"'
        words = [
            "torchrun",
            f'--nnodes="{least}$SLURM_JOB_NUM_NODES" --nproc-per-node="$ranks"',
            f'--max-restarts={asked.max_restarts} --rdzv-backend=c10d --rdzv-id="$SLURM_JOB_ID"',
            '--rdzv-endpoint="${address:-$first}:$port" "$@"',
        ]
    given = " \\\n    ".join(words)
    lines = f"inside sh -c '{node}' {given}{end}".split("\n")
    if not name:
        return lines
    lines += [
        "program=$!",
        "# A warning cuts a wait short.",
        'while kill -0 "$program" 2>/dev/null; do wait "$program" || true; done',
        "status=0",
        'wait "$program" || status=$?',
        f"trap '' {name}",
    ]
    if asked.requeue:
        lines += [
            "# What was warned goes on later if it wrote into the file or failed, unless the text is the last one.",
            "last=$ENVSPEC_CHECKPOINT.last",
            "if [[ ! -e $ENVSPEC_CHECKPOINT ]] || { ((status == 0)) && [[ ! -s $ENVSPEC_CHECKPOINT ]]; }; then",
            '    rm -f "$ENVSPEC_CHECKPOINT" "$last"',
            'elif [[ -e $last && $(<"$ENVSPEC_CHECKPOINT") == "$(<"$last")" ]]; then',
            '    echo "no progress since the last start by what $ENVSPEC_CHECKPOINT says: not queued again" >&2',
            f"elif ((${{SLURM_RESTART_COUNT:-0}} >= {asked.max_requeues})); then",
            f'    echo "max-requeues is {asked.max_requeues}: not queued again" >&2',
            "else",
            '    mv "$ENVSPEC_CHECKPOINT" "$last"',
            '    scontrol requeue "$SLURM_JOB_ID"',
            "fi",
        ]
    return [*lines, 'exit "$status"']
