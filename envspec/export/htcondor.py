"""An HTCondor submit description of a target: the smoke check or a program on one machine, in the SIF or the image.

What a GPU must be comes from the lock. Source: HTCondor's manual, condor_submit, "Commands for matchmaking". A pool
knows properties of GPUs from HTCondor 9.8 on (`require_gpus` there).
"""

from __future__ import annotations

from collections.abc import Iterator

from envspec.export import compat
from envspec.export.plan import CARRIED, Plan, hash_heading
from envspec.facts import compute_capability as cc, gpus, toolkits

FILE = "job.sub"
_ARCH = {"linux-64": "X86_64", "linux-aarch64": "aarch64"}


def render(plan: Plan) -> dict[str, str]:
    """`<target>/job.sub`."""
    name = f"{plan.target}/{FILE}"
    more, ranks = ("gpus=8 cpus=64 memory=512GB ", 8) if plan.runtime.is_cuda else ("", 1)
    train = f"'command=torchrun --standalone --nproc-per-node={ranks} train.py' files=train.py"
    digest = "$(lock)" if plan.shares else f"{plan.target}={plan.lock_digest}"
    # plain git merges what stands in no file of a repository
    reads = f'lock="$(python3 -IB ../_shared/preflight.py --locks {plan.target}/target.json)" ' if plan.shares else ""
    usage = [
        f"condor_submit {reads}{name}     # the smoke check, with {plan.title}.sif beside where it is submitted",
        f"condor_submit {reads}{more}{train} {name}",
        f"condor_submit {reads}image=docker://{plan.image_name} {name}     # the image instead, from its registry",
    ]
    lines = [
        *hash_heading(plan, usage),
        "# a default in $(NAME:DEFAULT) can't have a dash",
        *("if ! defined image", f"    image = {plan.title}.sif", "endif"),
        "universe = container",
        "container_image = $(image)",
        "executable = /bin/sh",
        "transfer_executable = false",
        f'arguments = "{CARRIED}/entrypoint.sh $(command:smoke)"',
        f'environment = "ENVSPEC_LOCK={digest}"',
        "transfer_input_files = $(files)",
        "should_transfer_files = YES",
        "when_to_transfer_output = ON_EXIT_OR_EVICT",
        f"request_cpus = $(cpus:{8 if plan.runtime.is_cuda else 1})",
        "request_memory = $(memory:32GB)",
        f'requirements = TARGET.Arch == "{_ARCH[plan.runtime.platform]}"',
        *_gpus(plan),
        f"output = {plan.title}-$(Cluster).out",
        f"error = {plan.title}-$(Cluster).err",
        f"log = {plan.title}-$(Cluster).log",
        "queue",
    ]
    return {name: "\n".join(lines) + "\n"}


def _gpus(plan: Plan) -> Iterator[str]:
    if not plan.runtime.is_cuda:
        return
    yield "request_gpus = $(gpus:1)"
    if plan.runtime.architectures:
        yield from _capabilities([cc.read_capability(sm) for sm in plan.runtime.architectures])
    brought = any(source.name == compat.NAME for source in plan.image.toolkit)
    floor = plan.runtime.driver_floor
    runtime = toolkits.of_driver(floor, plan.runtime.platform) if floor and not brought else None
    if runtime:
        yield f"# what a driver from {floor} on says that it runs"
        yield f"gpus_minimum_runtime = {runtime}"


def _capabilities(compiled: list[cc.Architecture]) -> Iterator[str]:
    """Ask for GPUs that run the lock's architectures: from the oldest on, to the end of the newest one's major version,
    without those between that none of them runs on.
    """
    compiled = sorted(compiled)
    first, last = compiled[0].capability, f"{compiled[-1].major}.9"
    between = [gpu for gpu in gpus.capabilities() if cc.order(first) <= cc.order(gpu) <= cc.order(last)]
    if all(
        cc.covers([str(capability) for capability in compiled], capability, None)
        for capability in between
        if not cc.is_integrated(capability)
    ):
        yield f"gpus_minimum_capability = {first}"
        yield f"gpus_maximum_capability = {last}"
    else:
        majors = {capability.major: capability.capability for capability in reversed(compiled)}
        spans = (f"(Capability >= {majors[major]} && Capability <= {major}.9)" for major in sorted(majors))
        yield f"require_gpus = {' || '.join(spans)}"
