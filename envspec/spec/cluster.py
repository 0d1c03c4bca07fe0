"""The clusters of a spec's jobs: `[slurm]` and `[kubernetes]`, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class SlurmTable:
    """`[slurm]`: what a job asks Slurm for. None and an empty tuple leave a matter to the recipes, or to the site.

    memory        of a node, in sbatch's form
    signal        NAME@SECONDS: sent so long before the job's time ends
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
    environment: tuple[str, ...] = ()
    max_restarts: int | None = None
    min_nodes: int | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Serving:
    """`[kubernetes.serve]`: a program that answers at a port."""

    program: tuple[str, ...]
    port: int = 8000
    replicas: int = 1
    health: str | None = None


@dataclass(frozen=True)
class KubernetesTable:
    """`[kubernetes]`: what a Job asks for.

    program      and its arguments; empty for the smoke check
    nodes        pods of the Job, each with a node's GPUs
    gpus         of a pod
    volume       the PersistentVolumeClaim at the workspace
    secret       whose keys become environment variables
    rdma         the resource by which a pod gets an RDMA device
    """

    namespace: str | None = None
    program: tuple[str, ...] = ()
    nodes: int = 1
    gpus: int = 1
    volume: str | None = None
    pull_secret: str | None = None
    secret: str | None = None
    rdma: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=lambda: _NONE)
    serve: Serving | None = None
