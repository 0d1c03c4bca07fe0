"""The clusters of a spec's jobs: the records of the tables `[slurm]` and `[kubernetes]`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from msgspec import Struct, field

from envspec.base.reader.nodes import Array, Boolean, Integer, Names, Text

_NONE: Mapping[str, str] = MappingProxyType({})

# Values stand in jobs as they are: each has a pattern that leaves no room for a line's end, a blank or a quote.

_ACCOUNT = Text(
    example="proj-vision",
    says="an account's name: letters, digits, '_', '.', '@' and '-'",
    pattern="[A-Za-z0-9_][A-Za-z0-9_.@-]*",
    max_length=100,
)
_PARTITIONS = Text(
    example="a100,h100",
    says="a list of partitions with commas",
    pattern="[A-Za-z0-9_][A-Za-z0-9_.-]*(?:,[A-Za-z0-9_][A-Za-z0-9_.-]*)*",
    max_length=200,
)
_CONSTRAINT = Text(
    example="h100&ib",
    says="a constraint in sbatch's form: features with '&', '|', '*', brackets and parentheses",
    pattern=r"[A-Za-z0-9_\[(][A-Za-z0-9_.:=&|*()\[\],-]*",
    max_length=200,
)
_MEMORY = Text(example="500G", says="an amount of memory like 500G, or 0", pattern="0|[1-9][0-9]{0,9}[KMGT]?")
_TIME = Text(
    example="2-00:00:00",
    says="a time in sbatch's form: MINUTES, MM:SS, HH:MM:SS, DAYS-HH, DAYS-HH:MM or DAYS-HH:MM:SS",
    pattern="[0-9]{1,6}(?::[0-9]{1,2}){0,2}|[0-9]{1,4}-[0-9]{1,2}(?::[0-9]{1,2}){0,2}",
)
_SIGNALS = "USR1|USR2|TERM|INT|HUP"
_SIGNAL = Text(
    example="USR1@300",
    says="a signal and seconds like USR1@300, of USR1, USR2, TERM, INT and HUP",
    pattern=f"(?:{_SIGNALS})@(?:[1-9][0-9]{{0,3}}|[1-5][0-9]{{4}})",
)
_LAUNCH = Text(example="srun", says="torchrun or srun", choices=("torchrun", "srun"))
_MPI = Text(example="pmix", says="a name of `srun --mpi=list`", pattern="[a-z0-9_]{1,40}")
_VARIABLE = Text(
    doc="A variable's name; with `*` at its end, all that begin so.",
    example="WANDB_*",
    says="a variable's name: letters, digits and '_', with '*' at most at its end",
    pattern=r"[A-Za-z_][A-Za-z0-9_]*\*?",
    max_length=100,
)
_OF_ENVSPEC = (
    "account|constraint|cpus-per-gpu|cpus-per-task|job-name|mem|ntasks-per-gpu|ntasks-per-node|open-mode|partition|"
)
_OF_ENVSPEC += "requeue|no-requeue|signal|time"
"""Options of sbatch that have a key, or that the job needs as they are."""
_OPTION = Text(
    doc="An option, with its value behind '='.",
    example="--qos=long",
    says="an option of sbatch like --qos=long, without blanks and quotes, and none that [slurm] has a key for or that"
    " the job sets itself",
    pattern=rf"--(?!(?:{_OF_ENVSPEC})(?:=|$))[a-z][a-z0-9-]*(?:=[A-Za-z0-9_@%+:,./=&|*()\[\]~^!-]+)?",
    max_length=500,
)


class SlurmTable(Struct, frozen=True):
    """`[slurm]`: What the Slurm jobs of the recipes ask for. An option of sbatch's command line replaces the same one
    here.

    account       The account that is charged.
    partition     The partition, or several with commas.
    constraint    The features that nodes must have, in sbatch's form: a site's own names, such as those of its GPUs.
    cpus_per_gpu  The CPUs for each GPU: workers that load data, and the memory that sites allot by CPU.
    memory        The memory of a node; 0 for all of it.
    time          The job's time limit.
    requeue       Whether a job goes back into the queue when its node fails, when it is preempted, and after the
                  warning of `signal`.
    signal        A warning before the job's time ends: so many seconds before, the file that ENVSPEC_CHECKPOINT names
                  appears, and training processes that handle this signal get it. With `requeue` the job is queued again
                  if the program wrote into the file, or failed.
    max_requeues  How often a job is queued again after its warning, also where each time there is progress: another
                  text in the file.
    launch        What starts the ranks: `torchrun`, one a node, or `srun`, as Lightning, Megatron and mpi4py want: a
                  task for each rank, which runs `python` with the job's arguments and has RANK, LOCAL_RANK, WORLD_SIZE,
                  LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
    mpi           How such ranks find each other by MPI, in srun's words (`srun --mpi=list`); else as the site has it.
    environment   The caller's variables that get into the container, beside Slurm's and NCCL's; none other does.
    max_restarts  Makes torchrun elastic: how often it starts all processes again when one fails, or a node comes or
                  goes. Without it, torchrun has fixed nodes and ends with the first failure.
    min_nodes     The fewest nodes with which an elastic torchrun goes on; all of the job's, if left out.
    options       Further options of sbatch, one each. Those that ask for GPUs replace the job's own of one GPU a node.

    None and an empty tuple leave a matter to the recipes, or to the site.
    """

    account: Annotated[str | None, _ACCOUNT] = None
    partition: Annotated[str | None, _PARTITIONS] = None
    constraint: Annotated[str | None, _CONSTRAINT] = None
    cpus_per_gpu: Annotated[int, Integer(example=16, minimum=1, maximum=1024)] = 8
    memory: Annotated[str | None, _MEMORY] = field(name="mem", default=None)
    time: Annotated[str, _TIME] = "01:00:00"
    requeue: Annotated[bool, Boolean(example=True)] = False
    signal: Annotated[str | None, _SIGNAL] = None
    max_requeues: Annotated[int, Integer(example=20, minimum=0, maximum=1_000_000)] = 100
    launch: Annotated[str, _LAUNCH] = "torchrun"
    mpi: Annotated[str | None, _MPI] = None
    environment: Annotated[tuple[str, ...], Array(items=_VARIABLE, example=("HF_TOKEN", "WANDB_*"), unique=True)] = ()
    max_restarts: Annotated[int | None, Integer(example=3, minimum=0, maximum=1000)] = None
    min_nodes: Annotated[int | None, Integer(example=2, minimum=1, maximum=100_000)] = None
    options: Annotated[tuple[str, ...], Array(items=_OPTION, example=("--qos=long", "--exclusive"), unique=True)] = ()


_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_NAME = "[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_NAMESPACE = Text(
    example="vision", says="a namespace's name: lower-case letters, digits and '-', up to 63 long", pattern=_LABEL
)
_RESOURCE = Text(
    example="rdma/hca_shared_devices_a",
    says="a resource's name like rdma/hca_shared_devices_a",
    pattern=rf"{_SUBDOMAIN}/{_NAME}",
    max_length=317,
)
_POD_MEMORY = Text(example="64Gi", says="an amount of memory like 64Gi", pattern="[1-9][0-9]{0,6}[MGT]i")
_TAINT = Text(
    doc="A taint, as kubectl writes it: KEY=VALUE:EFFECT, KEY:EFFECT, or KEY for all of its effects.",
    example="dedicated=training:NoSchedule",
    says="a taint like dedicated=training:NoSchedule",
    pattern=rf"(?:{_SUBDOMAIN}/)?{_NAME}(?:=(?:{_NAME})?)?(?::(?:NoSchedule|PreferNoSchedule|NoExecute))?",
    max_length=400,
)
_LABELS = Names(
    names=Text(
        doc="The label's name.",
        example="node.kubernetes.io/instance-type",
        says="a label's name other than kubernetes.io/arch, which follows from the target",
        pattern=rf"(?!kubernetes\.io/arch$)(?:{_SUBDOMAIN}/)?{_NAME}",
        max_length=317,
    ),
    values=Text(
        doc="Its value.",
        example="p5.48xlarge",
        says="a label's value: up to 63 letters, digits, '-', '_' and '.'",
        pattern=f"(?:{_NAME})?",
    ),
)
_WORDS = Array(items=Text(doc="A word of it.", example="train.py"), example=("train.py", "--epochs", "3"), min_items=1)
_PULL_POLICY = Text(example="IfNotPresent", choices=("Always", "IfNotPresent", "Never"))


def _object(example: str) -> Text:
    says = "a name of lower-case letters, digits, '-' and '.'"
    return Text(example=example, says=says, pattern=_SUBDOMAIN, max_length=253)


class KubernetesTable(Struct, frozen=True):
    """`[kubernetes]`: What the Kubernetes manifests of the recipes ask for.

    namespace      The namespace.
    program        The training program and its arguments, which torchrun starts; the smoke check without it.
    nodes          The pods that train together, each on a node's GPUs: with two or more, an Indexed Job and a headless
                   Service by which they meet.
    gpus           The GPUs of each pod, where the target has CUDA.
    volume         The PersistentVolumeClaim that is seen as /workspace; else what is there goes.
    pull_secret    The Secret with the login of the image's registry.
    secret         A Secret whose keys are environment variables of the program.
    rdma           The resource by which the cluster's device plugin gives an RDMA device; each pod asks for one.
    cpus           The CPUs that each pod asks for: workers that load data.
    memory         The memory that each pod asks for, which is its limit too; what lies in /dev/shm counts.
    deadline       The seconds after which the Job is ended, retries and all.
    grace          The seconds between a pod's warning, SIGTERM, and its end; 30, if left out.
    retries        How often all pods of the Job start again after a failure. With it, pods that the cluster takes away
                   (preempted, drained) start again and don't count.
    pull_policy    When nodes ask the registry for the image; each time, if left out and `[image] name` says where it
                   is: its tag is that of each new lock.
    tolerations    Taints of nodes that pods take, beside that of NVIDIA's GPUs.
    node_selector  Labels that nodes must have.
    """

    namespace: Annotated[str | None, _NAMESPACE] = None
    program: Annotated[tuple[str, ...], _WORDS] = ()
    nodes: Annotated[int, Integer(example=4, minimum=1, maximum=10_000)] = 1
    gpus: Annotated[int, Integer(example=8, minimum=1, maximum=64)] = 1
    volume: Annotated[str | None, _object("datasets")] = None
    pull_secret: Annotated[str | None, _object("registry-login")] = None
    secret: Annotated[str | None, _object("tokens")] = None
    rdma: Annotated[str | None, _RESOURCE] = None
    cpus: Annotated[int | None, Integer(example=16, minimum=1, maximum=4096)] = None
    memory: Annotated[str | None, _POD_MEMORY] = None
    deadline: Annotated[int | None, Integer(example=86400, minimum=1, maximum=2**31 - 1)] = None
    grace: Annotated[int | None, Integer(example=300, minimum=1, maximum=86400)] = None
    retries: Annotated[int, Integer(example=3, minimum=0, maximum=1000)] = 0
    pull_policy: Annotated[str | None, _PULL_POLICY] = None
    tolerations: Annotated[tuple[str, ...], Array(items=_TAINT, example=(_TAINT.example,), unique=True)] = ()
    node_selector: Annotated[Mapping[str, str], _LABELS] = field(default_factory=lambda: _NONE)
