"""A Kubernetes Job that runs the smoke check, or the program in its `args`, with the target's GPU."""

from __future__ import annotations

import re

from envspec.facts.compute_capability import known
from envspec.lock.formats.yaml_text import inline_strings, string
from envspec.recipes.heading import hash_heading
from envspec.recipes.plan import UID, WORKSPACE, Plan

FILE = "job.yaml"
_NO_CAPABILITIES = 'capabilities: { drop: ["ALL"] }'
_SECCOMP = "seccompProfile: { type: RuntimeDefault }"
_NAME_LENGTH = 52
"""The greatest length of a Job's name: its pods' names have 63 characters, of which Kubernetes adds up to 11."""


def render(plan: Plan) -> dict[str, str]:
    """`<target>/job.yaml`."""
    name = job_name(plan.title)
    usage = [
        f"kubectl apply -f {plan.target}/{FILE}",
        "Before that: push the image to a registry of yours and put its name at `image`.",
        "`args` is a program and its arguments; the smoke check stands there.",
    ]
    lines = [
        *hash_heading(plan, usage),
        "apiVersion: batch/v1",
        "kind: Job",
        "metadata:",
        f"  name: {string(name)}",
        f'  labels: {{ app.kubernetes.io/name: {string(name)}, app.kubernetes.io/managed-by: "envspec" }}',
        f"  annotations: {{ envspec/spec: {string(plan.spec)}, envspec/target: {string(plan.target)}, "
        f"envspec/fingerprint: {string(plan.fingerprint)} }}",
        "spec:",
        "  backoffLimit: 0",
        "  template:",
        "    metadata:",
        f"      labels: {{ app.kubernetes.io/name: {string(name)} }}",
        "    spec:",
        "      restartPolicy: Never",
        "      automountServiceAccountToken: false",
        f"      nodeSelector: {{ kubernetes.io/arch: {string(plan.oci_platform.rpartition('/')[2])} }}",
        *_affinity(plan),
        "      securityContext:"
        f" {{ runAsNonRoot: true, runAsUser: {UID}, runAsGroup: {UID}, fsGroup: {UID}, {_SECCOMP} }}",
        "      containers:",
        "        - name: train",
        f"          image: {string(plan.image)}",
        '          args: ["smoke"]',
        *_resources(plan),
        "          securityContext:"
        f" {{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, {_NO_CAPABILITIES} }}",
        "          volumeMounts:",
        "            - { name: shm, mountPath: /dev/shm } # DataLoader workers and NCCL share memory here",
        "            - { name: tmp, mountPath: /tmp }",
        f"            - {{ name: workspace, mountPath: {WORKSPACE} }}",
        "      volumes:",
        "        - { name: shm, emptyDir: { medium: Memory, sizeLimit: 8Gi } }",
        "        - { name: tmp, emptyDir: {} }",
        "        - { name: workspace, emptyDir: {} } # goes with the pod: name a volume of yours instead",
    ]
    return {f"{plan.target}/{FILE}": "\n".join(lines) + "\n"}


def job_name(title: str) -> str:
    """Make a valid Kubernetes name (RFC 1123 label) from a spec's and a target's name."""
    return re.sub(r"[^a-z0-9]+", "-", title)[:_NAME_LENGTH].strip("-") or "envspec"


def _resources(plan: Plan) -> list[str]:
    if not plan.is_cuda:
        return []
    return ['          resources: { limits: { nvidia.com/gpu: "1" } }']


def _affinity(plan: Plan) -> list[str]:
    """Prefer nodes whose GPUs the lock has code for, if GPU feature discovery has labelled them. A requirement would
    keep the pod waiting for ever without labels, and the image's preflight tells of a wrong GPU.
    """
    if not plan.architectures:
        return []
    majors = [str(major) for major in sorted({known(sm).major for sm in plan.architectures})]
    values = f"values: {inline_strings(majors)}"
    return [
        "      tolerations:",
        "        - { key: nvidia.com/gpu, operator: Exists, effect: NoSchedule }",
        "      affinity:",
        "        nodeAffinity:",
        "          preferredDuringSchedulingIgnoredDuringExecution:",
        "            - weight: 100",
        "              preference:",
        f"                matchExpressions: [{{ key: nvidia.com/gpu.compute.major, operator: In, {values} }}]",
    ]
