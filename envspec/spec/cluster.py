"""The clusters of a spec's jobs: the tables `[slurm]` and `[kubernetes]`, and their frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct, field

from envspec.base.reader.nodes import Array, Boolean, Integer, Names, Table, Text

_NONE: Mapping[str, str] = MappingProxyType({})


class SlurmTable(Struct, frozen=True):
    """`[slurm]`: what a job asks Slurm for. None and an empty tuple leave a matter to the recipes, or to the site.

    memory        of a node, in sbatch's form
    signal        NAME@SECONDS: sent so long before the job's time ends
    max_requeues  how often the job is queued again after that
    launch        what starts the ranks: torchrun, one a node, or srun itself
    mpi           srun's name for how the ranks of such a job find each other by MPI
    constraint    features that its nodes must have, in sbatch's form
    environment   names of the caller's variables that get into the container; a `*` at the end stands for anything
    max_restarts  how often torchrun starts its processes again; None for a torchrun of fixed nodes
    min_nodes     the fewest with which an elastic torchrun goes on; None for all
    options       further options of sbatch, each whole
    """

    account: str | None = None
    partition: str | None = None
    constraint: str | None = None
    cpus_per_gpu: int = 8
    memory: str | None = None
    time: str = "01:00:00"
    requeue: bool = False
    signal: str | None = None
    max_requeues: int = 100
    launch: str = "torchrun"
    mpi: str | None = None
    environment: tuple[str, ...] = ()
    max_restarts: int | None = None
    min_nodes: int | None = None
    options: tuple[str, ...] = ()


class KubernetesTable(Struct, frozen=True):
    """`[kubernetes]`: what a Job asks for.

    program      and its arguments; empty for the smoke check
    nodes        pods of the Job, each with a node's GPUs
    gpus         of a pod
    volume       the PersistentVolumeClaim at the workspace
    secret       whose keys become environment variables
    rdma         the resource by which a pod gets an RDMA device
    memory       of a pod, which it gets and isn't given more than
    deadline     seconds, after which the Job is ended
    grace        seconds between a pod's SIGTERM and its end
    retries      how often the Job starts its pods again; those that the cluster took away don't count
    tolerations  KEY[=VALUE][:EFFECT], as kubectl writes taints
    """

    namespace: str | None = None
    program: tuple[str, ...] = ()
    nodes: int = 1
    gpus: int = 1
    volume: str | None = None
    pull_secret: str | None = None
    secret: str | None = None
    rdma: str | None = None
    cpus: int | None = None
    memory: str | None = None
    deadline: int | None = None
    grace: int | None = None
    retries: int = 0
    pull_policy: str | None = None
    tolerations: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=lambda: _NONE)


# The spec's `[slurm]` and `[kubernetes]` tables, as `envspec.spec.schema` describes the others.
#
# Their values stand in jobs as they are: each has a pattern that leaves no room for a line's end, a blank or a quote.

_SIGNALS = "USR1|USR2|TERM|INT|HUP"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_OF_ENVSPEC = (
    "account|constraint|cpus-per-gpu|cpus-per-task|job-name|mem|ntasks-per-gpu|ntasks-per-node|open-mode|partition|"
)
_OF_ENVSPEC += "requeue|no-requeue|signal|time"
"""Options of sbatch that have a key, or that the job needs as they are."""

SLURM_TABLE = Table(
    doc="What the Slurm jobs of the recipes ask for. An option of sbatch's command line replaces the same one here.",
    keys={
        "account": Text(
            doc="The account that is charged.",
            example="proj-vision",
            says="an account's name: letters, digits, '_', '.', '@' and '-'",
            pattern="[A-Za-z0-9_][A-Za-z0-9_.@-]*",
            max_length=100,
        ),
        "partition": Text(
            doc="The partition, or several with commas.",
            example="a100,h100",
            says="a list of partitions with commas",
            pattern="[A-Za-z0-9_][A-Za-z0-9_.-]*(?:,[A-Za-z0-9_][A-Za-z0-9_.-]*)*",
            max_length=200,
        ),
        "constraint": Text(
            doc="The features that nodes must have, in sbatch's form: a site's own names, such as those of its GPUs.",
            example="h100&ib",
            says="a constraint in sbatch's form: features with '&', '|', '*', brackets and parentheses",
            pattern=r"[A-Za-z0-9_\[(][A-Za-z0-9_.:=&|*()\[\],-]*",
            max_length=200,
        ),
        "cpus-per-gpu": Integer(
            doc="The CPUs for each GPU: workers that load data, and the memory that sites allot by CPU.",
            example=16,
            minimum=1,
            maximum=1024,
            default=SlurmTable().cpus_per_gpu,
        ),
        "mem": Text(
            doc="The memory of a node; 0 for all of it.",
            example="500G",
            says="an amount of memory like 500G, or 0",
            pattern="0|[1-9][0-9]{0,9}[KMGT]?",
        ),
        "time": Text(
            doc="The job's time limit.",
            example="2-00:00:00",
            says="a time in sbatch's form: MINUTES, MM:SS, HH:MM:SS, DAYS-HH, DAYS-HH:MM or DAYS-HH:MM:SS",
            pattern="[0-9]{1,6}(?::[0-9]{1,2}){0,2}|[0-9]{1,4}-[0-9]{1,2}(?::[0-9]{1,2}){0,2}",
            default=SlurmTable().time,
        ),
        "requeue": Boolean(
            doc="Whether a job goes back into the queue when its node fails, when it is preempted, and after the"
            " warning of `signal`.",
            example=True,
            default=SlurmTable().requeue,
        ),
        "signal": Text(
            doc="A warning before the job's time ends: so many seconds before, the file that ENVSPEC_CHECKPOINT names"
            " appears, and training processes that handle this signal get it. With `requeue` the job is queued again if"
            " the program wrote into the file, or failed.",
            example="USR1@300",
            says="a signal and seconds like USR1@300, of USR1, USR2, TERM, INT and HUP",
            pattern=f"(?:{_SIGNALS})@(?:[1-9][0-9]{{0,3}}|[1-5][0-9]{{4}})",
        ),
        "max-requeues": Integer(
            doc="How often a job is queued again after its warning, also where each time there is progress: another"
            " text in the file.",
            example=20,
            minimum=0,
            maximum=1_000_000,
            default=SlurmTable().max_requeues,
        ),
        "launch": Text(
            doc="What starts the ranks: `torchrun`, one a node, or `srun`, as Lightning, Megatron and mpi4py want: a"
            " task for each rank, which runs `python` with the job's arguments and has RANK, LOCAL_RANK, WORLD_SIZE,"
            " LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT.",
            example="srun",
            says="torchrun or srun",
            choices=("torchrun", "srun"),
            default=SlurmTable().launch,
        ),
        "mpi": Text(
            doc="How such ranks find each other by MPI, in srun's words (`srun --mpi=list`); else as the site has it.",
            example="pmix",
            says="a name of `srun --mpi=list`",
            pattern="[a-z0-9_]{1,40}",
        ),
        "environment": Array(
            doc="The caller's variables that get into the container, beside Slurm's and NCCL's; none other does.",
            items=Text(
                doc="A variable's name; with `*` at its end, all that begin so.",
                example="WANDB_*",
                says="a variable's name: letters, digits and '_', with '*' at most at its end",
                pattern=rf"{_VARIABLE}\*?",
                max_length=100,
            ),
            example=("HF_TOKEN", "WANDB_*"),
            unique=True,
        ),
        "max-restarts": Integer(
            doc="Makes torchrun elastic: how often it starts all processes again when one fails, or a node comes or"
            " goes. Without it, torchrun has fixed nodes and ends with the first failure.",
            example=3,
            minimum=0,
            maximum=1000,
        ),
        "min-nodes": Integer(
            doc="The fewest nodes with which an elastic torchrun goes on; all of the job's, if left out.",
            example=2,
            minimum=1,
            maximum=100_000,
        ),
        "options": Array(
            doc="Further options of sbatch, one each. Those that ask for GPUs replace the job's own of one GPU a node.",
            items=Text(
                doc="An option, with its value behind '='.",
                example="--qos=long",
                says="an option of sbatch like --qos=long, without blanks and quotes, and none that [slurm] has a key"
                " for or that the job sets itself",
                pattern=rf"--(?!(?:{_OF_ENVSPEC})(?:=|$))[a-z][a-z0-9-]*(?:=[A-Za-z0-9_@%+:,./=&|*()\[\]~^!-]+)?",
                max_length=500,
            ),
            example=("--qos=long", "--exclusive"),
            unique=True,
        ),
    },
)

_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(?:\.{_LABEL})*"
_NAME = "[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_OBJECT_SAYS = "a name of lower-case letters, digits, '-' and '.'"


def _object(doc: str, example: str) -> Text:
    return Text(doc=doc, example=example, says=_OBJECT_SAYS, pattern=_SUBDOMAIN, max_length=253)


KUBERNETES_TABLE = Table(
    doc="What the Kubernetes manifests of the recipes ask for.",
    keys={
        "namespace": Text(
            doc="The namespace.",
            example="vision",
            says="a namespace's name: lower-case letters, digits and '-', up to 63 long",
            pattern=_LABEL,
        ),
        "program": Array(
            doc="The training program and its arguments, which torchrun starts; the smoke check without it.",
            items=Text(doc="A word of it.", example="train.py"),
            example=("train.py", "--epochs", "3"),
            min_items=1,
        ),
        "nodes": Integer(
            doc="The pods that train together, each on a node's GPUs: with two or more, an Indexed Job and a headless"
            " Service by which they meet.",
            example=4,
            minimum=1,
            maximum=10_000,
            default=KubernetesTable().nodes,
        ),
        "gpus": Integer(
            doc="The GPUs of each pod, where the target has CUDA.",
            example=8,
            minimum=1,
            maximum=64,
            default=KubernetesTable().gpus,
        ),
        "volume": _object("The PersistentVolumeClaim that is seen as /workspace; else what is there goes.", "datasets"),
        "pull-secret": _object("The Secret with the login of the image's registry.", "registry-login"),
        "secret": _object("A Secret whose keys are environment variables of the program.", "tokens"),
        "rdma": Text(
            doc="The resource by which the cluster's device plugin gives an RDMA device; each pod asks for one.",
            example="rdma/hca_shared_devices_a",
            says="a resource's name like rdma/hca_shared_devices_a",
            pattern=rf"{_SUBDOMAIN}/{_NAME}",
            max_length=317,
        ),
        "cpus": Integer(
            doc="The CPUs that each pod asks for: workers that load data.", example=16, minimum=1, maximum=4096
        ),
        "memory": Text(
            doc="The memory that each pod asks for, which is its limit too; what lies in /dev/shm counts.",
            example="64Gi",
            says="an amount of memory like 64Gi",
            pattern="[1-9][0-9]{0,6}[MGT]i",
        ),
        "deadline": Integer(
            doc="The seconds after which the Job is ended, retries and all.",
            example=86400,
            minimum=1,
            maximum=2**31 - 1,
        ),
        "grace": Integer(
            doc="The seconds between a pod's warning, SIGTERM, and its end; 30, if left out.",
            example=300,
            minimum=1,
            maximum=86400,
        ),
        "retries": Integer(
            doc="How often all pods of the Job start again after a failure. With it, pods that the cluster takes away"
            " (preempted, drained) start again and don't count.",
            example=3,
            minimum=0,
            maximum=1000,
            default=KubernetesTable().retries,
        ),
        "pull-policy": Text(
            doc="When nodes ask the registry for the image; each time, if left out and `[image] name` says where it is:"
            " its tag is that of each new lock.",
            example="IfNotPresent",
            choices=("Always", "IfNotPresent", "Never"),
        ),
        "tolerations": Array(
            doc="Taints of nodes that pods take, beside that of NVIDIA's GPUs.",
            items=Text(
                doc="A taint, as kubectl writes it: KEY=VALUE:EFFECT, KEY:EFFECT, or KEY for all of its effects.",
                example="dedicated=training:NoSchedule",
                says="a taint like dedicated=training:NoSchedule",
                pattern=rf"(?:{_SUBDOMAIN}/)?{_NAME}(?:=(?:{_NAME})?)?(?::(?:NoSchedule|PreferNoSchedule|NoExecute))?",
                max_length=400,
            ),
            example=("dedicated=training:NoSchedule",),
            unique=True,
        ),
        "node-selector": Names(
            doc="Labels that nodes must have.",
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
        ),
    },
)
