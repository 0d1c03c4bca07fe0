"""Slurm jobs: the SIF under Apptainer, the image under pyxis/enroot, and the environment on a machine's base. One of
each for all targets of a spec: a variable selects the target.

torchrun's processes meet on the first node, at the address by which Slurm reaches it and with ranks by Slurm's number
of each node: no name needs to resolve.
"""

from __future__ import annotations

from envspec.base.places import LIBRARIES
from envspec.export import template
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
    heading,
)
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
"""The variables of a job that enroot itself reads."""


def render(plan: SpecPlan) -> dict[str, str]:
    """Render `job.sbatch` and `job-pyxis.sbatch`; pyxis runs no SIF, and a machine's own base needs no container."""
    if is_on_machine(plan.targets[0]):
        return {APPTAINER_JOB: _job(plan, "machine")}
    base, made = plan.targets[0].runtime.on_base, {APPTAINER_JOB: _job(plan, "apptainer")}
    return made if base and base.kind == "sif" else {**made, PYXIS_JOB: _job(plan, "pyxis")}


def is_on_machine(plan: Plan) -> bool:
    """Return whether a target's jobs run in an environment of the machine, on a prefix or a module."""
    return plan.runtime.on_base is not None and plan.runtime.on_base.kind in ON_MACHINES


def _usage(plan: SpecPlan, kind: str) -> list[str]:
    base, place = plan.targets[0].runtime.on_base, f"{plan.spec}-$ENVSPEC_TARGET"
    if kind == "machine":
        return [
            *_submit(plan, APPTAINER_JOB),
            f"The environment: ENVSPEC_ENVIRONMENT, else {place} where the job is submitted, made by",
            *(f"  envspec install SPEC --target {of.target} --prefix {of.title}" for of in plan.targets),
        ]
    if kind == "apptainer":
        overlay = "An overlay: ENVSPEC_SIF=BASE.sif APPTAINER_OVERLAY=FILE.sqfs:ro, as envspec image --squashfs says."
        return [
            *_submit(plan, APPTAINER_JOB),
            f"The image: ENVSPEC_SIF, else {place}.sif where the job is submitted: see the target's",
            "apptainer.def.",
            *([overlay] if base else []),
            f"The container sees that folder, also as {WORKSPACE}, "
            f"and {'it is its home' if base else 'no home'}. APPTAINER_BIND=FOLDER gives it more, and",
            "APPTAINERENV_NAME=VALUE sets a variable otherwise than the image.",
        ]
    return [
        *_submit(plan, PYXIS_JOB),
        "The image: ENVSPEC_IMAGE, which may be a name that pyxis pulls, else a squashfs file made where the job is",
        "submitted, by",
        *(f"  enroot import -o {of.title}.sqsh dockerd://{of.image_name}" for of in plan.targets),
        "The image sets PYTORCH_VERSION, by which enroot knows to set MASTER_ADDR, RANK and the like.",
        f"{MOUNTS}=FROM:TO,… mounts more, {LIBRARIES}=FOLDER:… is where its programs look for libraries.",
    ]


def _submit(plan: SpecPlan, job: str) -> list[str]:
    """Show how to submit the job, with the spec's own targets as examples, and the options that don't go together:
    sbatch replaces an option by the same one alone."""
    sample = next((of for of in plan.targets if of.runtime.is_cuda), plan.targets[0])
    which = f"ENVSPEC_TARGET={sample.target} " if len(plan.targets) > 1 else ""
    own = _gpu_options(plan.slurm)
    gpus = " --gpus-per-node=8" if sample.runtime.is_cuda and not own else ""
    whose = "With NVIDIA's pyxis. " if job == PYXIS_JOB else ""
    lines = [
        f"{whose}Options of the command line replace the same ones here; the training program comes last:",
        f"  {which}sbatch --nodes=4{gpus} {job} train.py --epochs 3",
    ]
    without = [of for of in plan.targets if not of.runtime.is_cuda]
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


def _gpu_options(table: SlurmTable) -> tuple[str, ...]:
    """Name the options of the spec's own that ask for GPUs, in one of Slurm's ways."""
    given = (option.removeprefix("--").partition("=") for option in table.options)
    return tuple(
        name
        for name, _, value in given
        if name in ("gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task")
        or (name == _BY_GRES and any(resource.startswith("gpu") for resource in value.split(",")))
    )


def _job(plan: SpecPlan, kind: str) -> str:
    """Render a job whose programs run in what `kind` says: the template lists them."""
    base, slurm = plan.targets[0].runtime.on_base, plan.slurm
    signal = (slurm.signal or "").partition("@")[0]
    carried = CARRIED
    begin, smoke = ["sh", f"{CARRIED}/entrypoint.sh"], ["sh", f"{CARRIED}/entrypoint.sh", "smoke"]
    python, torchrun = ["python"], ["torchrun"]
    if base:
        # torchrun may be of a Python that sees none of what is added
        begin, python, torchrun = [], ["python3"], ["python3", "-m", "torch.distributed.run"]
        config, check = f"{CARRIED}/{SLICE}", f"{CARRIED}/{CHECK}"
        if kind == "machine":
            carried = f"../{SHARED_FOLDER}" if plan.shares else CARRIED_FOLDER
            config, check = f"$target/{SLICE}", f"{carried}/{CHECK_ARCHIVE}"
        smoke = ["python3", "-I", check, "--config", config]
    warned = ["sh", f"{carried}/warned.sh", signal] if signal else []
    passed = _passed_variables(slurm)
    return template.render(
        "job.sbatch.j2",
        plan=plan,
        slurm=slurm,
        kind=kind,
        heading=heading(plan, _usage(plan, kind)),
        options=_options(plan),
        by_node="gpus-per-node" in (_gpu_options(slurm) or ("gpus-per-node",)),
        cleared=OF_OTHERS,
        on_base=base,
        signal=signal,
        instead={"apptainer": "ENVSPEC_SIF", "pyxis": "ENVSPEC_IMAGE"}.get(kind),
        passed=(*_FOR_PYXIS, *passed) if kind == "pyxis" else passed,
        smoke=smoke,
        meeting_point=MEETING_POINT,
        begin=[*begin, *warned, *(python if slurm.launch == "srun" else torchrun)],
    )


def _passed_variables(table: SlurmTable) -> tuple[str, ...]:
    """List the caller's variables that get into containers."""
    return (*PASSED, "ENVSPEC_LOCK", *(["ENVSPEC_CHECKPOINT"] if table.signal else []), *table.environment)


def _options(plan: SpecPlan) -> list[str]:
    """List the options of sbatch: those of the spec's own last, so that they win."""
    table = plan.slurm
    options = [f"--job-name={plan.spec}", "--nodes=1", "--ntasks-per-node=1"]
    if plan.is_cuda:
        options += [] if _gpu_options(table) else ["--gpus-per-node=1"]
        options.append(f"--cpus-per-gpu={table.cpus_per_gpu}")
    else:
        options.append("--cpus-per-task=1")
    options += [f"--time={table.time}", "--output=%x-%j.out"]
    given = {
        "account": table.account,
        "partition": table.partition,
        "constraint": table.constraint,
        "mem": table.memory,
        # to the script alone: torchrun would end by it
        "signal": table.signal and f"B:{table.signal}",
    }
    options += [f"--{name}={value}" for name, value in given.items() if value is not None]
    # one log, however often the job starts
    options += ["--requeue", "--open-mode=append"] if table.requeue else []
    return [*options, *(["--no-kill"] if table.min_nodes is not None else []), *table.options]
