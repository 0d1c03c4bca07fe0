"""A Kubernetes manifest of a target: a Job that runs the smoke check or the spec's program, on one node or several."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from envspec.export.plan import CARRIED, UID, WORKSPACE, Plan, hash_heading
from envspec.facts.compute_capability import read_capability
from envspec.lock.formats.yaml_text import dump

FILE = "job.yaml"
_NAME = "app.kubernetes.io/name"
PORT = 29500
"""The port on the first pod at which torchrun's processes meet."""
_NAME_LENGTH = 52
"""The greatest length of a Job's name: its pods' names have 63 characters, of which Kubernetes adds up to 11."""


def render(plan: Plan) -> dict[str, str]:
    """`<target>/job.yaml`."""
    return {f"{plan.target}/{FILE}": _job(plan)}


def _usage(plan: Plan) -> list[str]:
    if plan.image.repository:
        before = f"Before that: docker push {plan.image_name}"
    else:
        before = "Before that: push the image to a registry of yours, which [image] name in the spec names."
    manifest = f"{plan.target}/{FILE}"
    if not plan.shares:
        return [f"kubectl apply -f {manifest}", before]
    # with the slice's digest, which plain git would merge in no file
    return [f"python3 -IB ../_shared/preflight.py --manifest {manifest} | kubectl apply -f -", before]


def _job(plan: Plan) -> str:
    table = plan.kubernetes
    name = job_name(plan.title)
    usage = [*_usage(plan), "[kubernetes] program is what it trains; without one it runs the smoke check."]
    if not table.volume:
        usage.append(f"{WORKSPACE} goes with the pod: [kubernetes] volume names a claim that stays.")
    pod = {
        **({"subdomain": name} if table.nodes > 1 else {}),
        "restartPolicy": "Never",
        **_pod(plan),
        "containers": [{"name": "train", **_image(plan), "args": _training(plan, name), **_container(plan)}],
    }
    spec: dict[str, Any] = {"backoffLimit": table.retries * table.nodes}
    if table.deadline:
        spec["activeDeadlineSeconds"] = table.deadline
    if table.retries:
        # a pod that the cluster took away is no failure of its program
        condition = {"type": "DisruptionTarget", "status": "True"}
        spec["podFailurePolicy"] = {"rules": [{"action": "Ignore", "onPodConditions": [condition]}]}
    if table.nodes > 1:
        spec |= {"completions": table.nodes, "parallelism": table.nodes, "completionMode": "Indexed"}
    spec["template"] = {"metadata": {"labels": {_NAME: name}}, "spec": pod}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(plan, name), "spec": spec}
    documents = [*([_headless(plan, name)] if table.nodes > 1 else []), job]
    return "\n".join([*hash_heading(plan, usage), "---\n".join(map(dump, documents))])


def _training(plan: Plan, name: str) -> list[str]:
    """The command of the Job's pods. Kubernetes itself puts a pod's number into `$(JOB_COMPLETION_INDEX)`."""
    table = plan.kubernetes
    if not table.program:
        return ["smoke"]
    ranks = table.gpus if plan.runtime.is_cuda else 1
    warned = ["sh", f"{CARRIED}/warned.sh", "TERM"]
    if table.nodes == 1:
        return [*warned, "torchrun", "--standalone", f"--nproc-per-node={ranks}", *map(_literal, table.program)]
    return [
        *warned,
        "torchrun",
        f"--nnodes={table.nodes}",
        f"--nproc-per-node={ranks}",
        "--node-rank=$(JOB_COMPLETION_INDEX)",
        f"--master-addr={name}-0.{name}",
        f"--master-port={PORT}",
        *map(_literal, table.program),
    ]


def _literal(word: str) -> str:
    """Keep Kubernetes from putting a variable's value into a word of the spec's."""
    return word.replace("$", "$$")


def _headless(plan: Plan, name: str) -> dict[str, Any]:
    """Make the Service that gives each pod of the Job a name, also before it is ready."""
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {_NAME: name},
        "ports": [{"name": "torchrun", "port": PORT}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(plan, name), "spec": spec}


def job_name(title: str) -> str:
    """Make a valid Kubernetes name (RFC 1123 label) from a spec's and a target's name. A Service's begins with a
    letter (RFC 1035).
    """
    name = re.sub(r"[^a-z0-9]+", "-", title)
    return ("e" * (name[:1].isdigit()) + name)[:_NAME_LENGTH].strip("-") or "envspec"


def _metadata(plan: Plan, name: str) -> dict[str, Any]:
    space = plan.kubernetes.namespace
    return {
        "name": name,
        **({"namespace": space} if space else {}),
        "labels": {_NAME: name, "app.kubernetes.io/managed-by": "envspec"},
        "annotations": {"envspec/spec": plan.spec, "envspec/target": plan.target},
    }


def _pod(plan: Plan) -> dict[str, Any]:
    """Make what pods have, but for their containers."""
    table = plan.kubernetes
    taints = [_toleration(taint) for taint in table.tolerations]
    if plan.runtime.architectures:
        taints.insert(0, {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    labels = {"kubernetes.io/arch": plan.runtime.oci_platform.rpartition("/")[2], **table.node_selector}
    workspace = {"persistentVolumeClaim": {"claimName": table.volume}} if table.volume else {"emptyDir": {}}
    spec = {
        "automountServiceAccountToken": False,
        "nodeSelector": labels,
        "imagePullSecrets": [{"name": table.pull_secret}] if table.pull_secret else None,
        "terminationGracePeriodSeconds": table.grace,
        "tolerations": taints,
        "affinity": _affinity(plan),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": UID,
            "runAsGroup": UID,
            "fsGroup": UID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [
            # DataLoader workers and NCCL share memory in /dev/shm
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{plan.image.shm.upper()}i"}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "workspace", **workspace},
        ],
    }
    return {name: value for name, value in spec.items() if value or value is False}


def _image(plan: Plan) -> dict[str, Any]:
    """Make the image and when it is pulled: its name stays when a new one is pushed."""
    policy = plan.kubernetes.pull_policy or ("Always" if plan.image.repository else None)
    lock = {"name": "ENVSPEC_LOCK", "value": f"{plan.target}={plan.lock_digest}"}
    return {
        "image": plan.image_name,
        **({"imagePullPolicy": policy} if policy else {}),
        **({} if plan.shares else {"env": [lock]}),
    }


def _toleration(taint: str) -> dict[str, str]:
    rest, _, effect = taint.partition(":")
    key, given, value = rest.partition("=")
    how = {"operator": "Equal", "value": value} if given else {"operator": "Exists"}
    return {"key": key, **how, **({"effect": effect} if effect else {})}


def _container(plan: Plan) -> dict[str, Any]:
    """Make what every container has, after its name, image and program."""
    table = plan.kubernetes
    limits = {"nvidia.com/gpu": str(table.gpus)} if plan.runtime.is_cuda else {}
    if table.rdma:
        limits[table.rdma] = "1"
    requests = {"cpu": str(table.cpus)} if table.cpus else {}
    if table.memory:
        requests["memory"] = limits["memory"] = table.memory
    resources = {name: given for name, given in (("requests", requests), ("limits", limits)) if given}
    # RDMA's memory is locked
    rights = {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if table.rdma else {})}
    places = {"shm": "/dev/shm", "tmp": "/tmp", "workspace": WORKSPACE}
    return {
        **({"envFrom": [{"secretRef": {"name": table.secret}}]} if table.secret else {}),
        **({"resources": resources} if resources else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": rights,
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, path in places.items()],
    }


def _affinity(plan: Plan) -> dict[str, Any] | None:
    """Keep pods off nodes whose GPUs the lock has no code for, or whose driver is older than its floor, where NVIDIA's
    GPU feature discovery has labelled them. A node without its labels is taken: a plain requirement would have the pod
    wait for ever in a cluster that has none, and there the image's preflight tells of a wrong GPU.
    """
    if not plan.runtime.architectures:
        return None
    terms = [{"matchExpressions": needs} for needs in _nodes(plan)]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _nodes(plan: Plan) -> Iterator[list[dict[str, Any]]]:
    """List the kinds of node that do, each by what its labels are."""
    driver = "cuda.driver-version.major"
    lowest: dict[int, int] = {}
    for architecture in map(read_capability, plan.runtime.architectures):
        lowest[architecture.major] = min(architecture.number % 10, lowest.get(architecture.major, 9))
    # code runs on its own major version, from its own minor version on
    alike: dict[int, list[int]] = {}
    for major, minor in sorted(lowest.items()):
        alike.setdefault(minor, []).append(major)
    for minor, majors in alike.items():
        gpu = [_label("gpu.compute.major", "In", *majors)]
        gpu += [_label("gpu.compute.minor", "Gt", minor - 1)] if minor else []
        if plan.runtime.driver_floor:
            # Gt has no form for "or the same"
            yield [*gpu, _label(driver, "Gt", int(plan.runtime.driver_floor.partition(".")[0]) - 1)]
            yield [*gpu, _label(driver, "DoesNotExist")]
        else:
            yield gpu
    yield [_label("gpu.compute.major", "DoesNotExist")]


def _label(name: str, operator: str, *values: int) -> dict[str, Any]:
    more = {"values": [*map(str, values)]} if values else {}
    return {"key": f"nvidia.com/{name}", "operator": operator, **more}
