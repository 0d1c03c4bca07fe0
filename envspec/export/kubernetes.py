"""A Kubernetes manifest of a target: a Job that runs the smoke check or the spec's program, on one node or several."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envspec.export.plan import CARRIED, UID, WORKSPACE, Plan, hash_heading
from envspec.facts.compute_capability import read_capability
from envspec.lock.formats.yaml_text import inline_strings, string

FILE = "job.yaml"
PORT = 29500
"""Where torchrun's processes meet: on the first pod."""
_SECCOMP = "seccompProfile: { type: RuntimeDefault }"
_POLICY = (
    "  podFailurePolicy: # a pod that the cluster took away is no failure of its program",
    '    rules: [{ action: Ignore, onPodConditions: [{ type: DisruptionTarget, status: "True" }] }]',
)
_NAME_LENGTH = 52
"""The greatest length of a Job's name: its pods' names have 63 characters, of which Kubernetes adds up to 11."""


def render(plan: Plan) -> dict[str, str]:
    """`<target>/job.yaml`."""
    return {f"{plan.target}/{FILE}": _job(plan)}


def _usage(plan: Plan) -> list[str]:
    if plan.repository:
        before = f"Before that: docker push {plan.image}"
    else:
        before = "Before that: push the image to a registry of yours, which [image] name in the spec names."
    manifest = f"{plan.target}/{FILE}"
    if not plan.shares:
        return [f"kubectl apply -f {manifest}", before]
    # with the slice's digest, which plain git would merge in no file
    return [f"python3 -IB ../_shared/preflight.py --manifest {manifest} | kubectl apply -f -", before]


def _job(plan: Plan) -> str:
    asked = plan.kubernetes
    name = job_name(plan.title)
    several = asked.nodes > 1
    usage = [*_usage(plan), "[kubernetes] program is what it trains; without one it runs the smoke check."]
    lines = [
        *hash_heading(plan, usage),
        *(_headless(plan, name) if several else ()),
        "apiVersion: batch/v1",
        "kind: Job",
        *_metadata(plan, name),
        "spec:",
        f"  backoffLimit: {asked.retries * asked.nodes}",
        *([f"  activeDeadlineSeconds: {asked.deadline}"] if asked.deadline else ()),
        *(_POLICY if asked.retries else ()),
        *([f"  completions: {asked.nodes}", f"  parallelism: {asked.nodes}"] if several else ()),
        *(["  completionMode: Indexed"] if several else ()),
        "  template:",
        "    metadata:",
        f"      labels: {{ app.kubernetes.io/name: {string(name)} }}",
        "    spec:",
        *([f"      subdomain: {string(name)}"] if several else ()),
        "      restartPolicy: Never",
        *_pod(plan),
        "        - name: train",
        *_image(plan),
        f"          args: {inline_strings(_training(plan, name))}",
        *_container(plan),
    ]
    return "\n".join(lines) + "\n"


def _training(plan: Plan, name: str) -> list[str]:
    """The command of the Job's pods. Kubernetes itself puts a pod's number into `$(JOB_COMPLETION_INDEX)`."""
    asked = plan.kubernetes
    if not asked.program:
        return ["smoke"]
    ranks = asked.gpus if plan.is_cuda else 1
    warned = ["sh", f"{CARRIED}/warned.sh", "TERM"]
    if asked.nodes == 1:
        return [*warned, "torchrun", "--standalone", f"--nproc-per-node={ranks}", *map(_literal, asked.program)]
    return [
        *warned,
        "torchrun",
        f"--nnodes={asked.nodes}",
        f"--nproc-per-node={ranks}",
        "--node-rank=$(JOB_COMPLETION_INDEX)",
        f"--master-addr={name}-0.{name}",
        f"--master-port={PORT}",
        *map(_literal, asked.program),
    ]


def _literal(word: str) -> str:
    """Keep Kubernetes from putting a variable's value into a word of the spec's."""
    return word.replace("$", "$$")


def _headless(plan: Plan, name: str) -> list[str]:
    """Make the Service that gives each pod of the Job a name, also before it is ready."""
    return [
        "apiVersion: v1",
        "kind: Service",
        *_metadata(plan, name),
        "spec:",
        "  clusterIP: None",
        "  publishNotReadyAddresses: true",
        f"  selector: {{ app.kubernetes.io/name: {string(name)} }}",
        f"  ports: [{{ name: torchrun, port: {PORT} }}]",
        "---",
    ]


def job_name(title: str) -> str:
    """Make a valid Kubernetes name (RFC 1123 label) from a spec's and a target's name. A Service's begins with a
    letter (RFC 1035).
    """
    name = re.sub(r"[^a-z0-9]+", "-", title)
    return ("e" * (name[:1].isdigit()) + name)[:_NAME_LENGTH].strip("-") or "envspec"


def _metadata(plan: Plan, name: str) -> list[str]:
    space = plan.kubernetes.namespace
    return [
        "metadata:",
        f"  name: {string(name)}",
        *([f"  namespace: {string(space)}"] if space else ()),
        f'  labels: {{ app.kubernetes.io/name: {string(name)}, app.kubernetes.io/managed-by: "envspec" }}',
        f"  annotations: {{ envspec/spec: {string(plan.spec)}, envspec/target: {string(plan.target)} }}",
    ]


def _pod(plan: Plan) -> Iterator[str]:
    """Render what pods have, up to their containers."""
    asked = plan.kubernetes
    labels = {"kubernetes.io/arch": plan.oci_platform.rpartition("/")[2], **asked.node_selector}
    yield "      automountServiceAccountToken: false"
    yield f"      nodeSelector: {_pairs(labels)}"
    if asked.pull_secret:
        yield f"      imagePullSecrets: [{{ name: {string(asked.pull_secret)} }}]"
    if asked.grace:
        yield f"      terminationGracePeriodSeconds: {asked.grace}"
    taints = [_toleration(taint) for taint in asked.tolerations]
    if plan.architectures:
        taints.insert(0, "{ key: nvidia.com/gpu, operator: Exists, effect: NoSchedule }")
    if taints:
        yield f"      tolerations: [{', '.join(taints)}]"
    yield from _affinity(plan)
    ids = f"runAsUser: {UID}, runAsGroup: {UID}, fsGroup: {UID}"
    yield f"      securityContext: {{ runAsNonRoot: true, {ids}, {_SECCOMP} }}"
    yield "      volumes:"
    yield f"        - {{ name: shm, emptyDir: {{ medium: Memory, sizeLimit: {plan.shm.upper()}i }} }}"
    yield "        - { name: tmp, emptyDir: {} }"
    if asked.volume:
        yield f"        - {{ name: workspace, persistentVolumeClaim: {{ claimName: {string(asked.volume)} }} }}"
    else:
        yield "        - { name: workspace, emptyDir: {} } # goes with the pod: name one by [kubernetes] volume"
    yield "      containers:"


def _image(plan: Plan) -> Iterator[str]:
    """Render the image and when it is pulled: its name stays when a new one is pushed."""
    yield f"          image: {string(plan.image)}"
    if policy := plan.kubernetes.pull_policy or ("Always" if plan.repository else None):
        yield f"          imagePullPolicy: {policy}"
    if not plan.shares:
        yield f"          env: [{{ name: ENVSPEC_LOCK, value: {string(f'{plan.target}={plan.lock_digest}')} }}]"


def _toleration(taint: str) -> str:
    rest, _, effect = taint.partition(":")
    key, given, value = rest.partition("=")
    how = f"operator: Equal, value: {string(value)}" if given else "operator: Exists"
    return f"{{ key: {_key(key)}, {how}{f', effect: {effect}' if effect else ''} }}"


def _container(plan: Plan) -> Iterator[str]:
    """Render what every container has, after its name, image and program."""
    asked = plan.kubernetes
    if asked.secret:
        yield f"          envFrom: [{{ secretRef: {{ name: {string(asked.secret)} }} }}]"
    limits = {"nvidia.com/gpu": str(asked.gpus)} if plan.is_cuda else {}
    if asked.rdma:
        limits[asked.rdma] = "1"
    wanted = {"cpu": str(asked.cpus)} if asked.cpus else {}
    if asked.memory:
        wanted["memory"] = limits["memory"] = asked.memory
    resources = [f"{name}: {_pairs(given)}" for name, given in (("requests", wanted), ("limits", limits)) if given]
    if resources:
        yield f"          resources: {{ {', '.join(resources)} }}"
    # RDMA's memory is locked
    more = ', add: ["IPC_LOCK"]' if asked.rdma else ""
    rights = f'capabilities: {{ drop: ["ALL"]{more} }}'
    yield f"          securityContext: {{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, {rights} }}"
    yield "          volumeMounts:"
    yield "            - { name: shm, mountPath: /dev/shm } # DataLoader workers and NCCL share memory here"
    yield "            - { name: tmp, mountPath: /tmp }"
    yield f"            - {{ name: workspace, mountPath: {WORKSPACE} }}"


def _pairs(values: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{_key(name)}: {string(value)}' for name, value in values.items())} }}"


def _key(name: str) -> str:
    """Write a label's or a resource's name, which YAML may read as something else where it has no domain."""
    return name if "/" in name and name[:1].isalpha() else string(name)


def _affinity(plan: Plan) -> Iterator[str]:
    """Keep pods off nodes whose GPUs the lock has no code for, or whose driver is older than its floor, where NVIDIA's
    GPU feature discovery has labelled them. A node without its labels is taken: a plain requirement would have the pod
    wait for ever in a cluster that has none, and there the image's preflight tells of a wrong GPU.
    """
    if not plan.architectures:
        return
    yield "      affinity:"
    yield "        nodeAffinity:"
    yield "          requiredDuringSchedulingIgnoredDuringExecution:"
    yield "            nodeSelectorTerms: # one of them holds"
    for needs in _nodes(plan):
        yield f"              - {{ matchExpressions: [{', '.join(needs)}] }}"


def _nodes(plan: Plan) -> Iterator[list[str]]:
    """List the kinds of node that do, each by what its labels are."""
    driver = "cuda.driver-version.major"
    lowest: dict[int, int] = {}
    for one in map(read_capability, plan.architectures):
        lowest[one.major] = min(one.number % 10, lowest.get(one.major, 9))
    # code runs on its own major version, from its own minor version on
    alike: dict[int, list[int]] = {}
    for major, minor in sorted(lowest.items()):
        alike.setdefault(minor, []).append(major)
    for minor, majors in alike.items():
        gpu = [_label("gpu.compute.major", "In", *majors)]
        gpu += [_label("gpu.compute.minor", "Gt", minor - 1)] if minor else []
        if plan.driver_floor:
            # Gt has no form for "or the same"
            yield [*gpu, _label(driver, "Gt", int(plan.driver_floor.partition(".")[0]) - 1)]
            yield [*gpu, _label(driver, "DoesNotExist")]
        else:
            yield gpu
    yield [_label("gpu.compute.major", "DoesNotExist")]


def _label(name: str, operator: str, *values: int) -> str:
    more = f", values: {inline_strings(map(str, values))}" if values else ""
    return f"{{ key: nvidia.com/{name}, operator: {operator}{more} }}"
