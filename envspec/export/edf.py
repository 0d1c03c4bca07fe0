"""An EDF of a target: the environment definition file of CSCS's container engine, for Slurm on Alps.

The image's own variables hold in it, so it has only what the host would let in, and the hook that gives NCCL the
Slingshot network. Source: eth-cscs/cscs-docs@80abed13, edf.md and resource-hook.md of docs/software/container-engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.places import OF_OTHER_PYTHONS
from envspec.export.plan import CARRIED, WORKSPACE, Plan, hash_heading
from envspec.lock.toml_text import inline_strings, string

FILE = "environment.toml"
_STATIC = ("12", "13")
"""The CUDA majors for which the engine has a plugin that needs no libcudart.so of the image."""


def render(plan: Plan) -> dict[str, str]:
    """`<target>/environment.toml`."""
    name = f"{plan.target}/{FILE}"
    host, _, path = plan.image_name.partition("/")
    of_registry = f"{host}#{path}" if "." in host or ":" in host else plan.image_name
    image = of_registry if plan.image.repository else f"./{plan.title}.sqsh"
    made = f"enroot import -x mount -o {plan.title}.sqsh podman://{plan.image_name}     # where podman has the image"
    usage = [
        *([] if plan.image.repository else [made]),
        f'srun --environment="$PWD/{name}" sh {CARRIED}/entrypoint.sh smoke     # the smoke check, in a job',
        "The container sees the folder where srun is started, and no home.",
    ]
    lines = [
        *hash_heading(plan, usage),
        f"image = {string(image)}",
        f"mounts = {inline_strings(['${PWD}:${PWD}', '${PWD}:' + WORKSPACE])}",
        'workdir = "${PWD}"',
        "",
        "[env]",
        "# unset: the host's are for its own Python",
        *(f'{name} = ""' for name in OF_OTHER_PYTHONS),
        'PMIX_MCA_psec = "^munge"    # the container has no socket of munge',
        *([] if plan.shares else [f"ENVSPEC_LOCK = {string(f'{plan.target}={plan.lock_digest}')}"]),
        *_annotations(plan),
    ]
    return {name: "\n".join(lines) + "\n"}


def _annotations(plan: Plan) -> Iterator[str]:
    if not plan.runtime.is_cuda or plan.runtime.cuda is None:
        return
    major = plan.runtime.cuda.partition(".")[0]
    # packages of CUDA have no libcudart.so without a version, which the plugin for any CUDA loads
    own = plan.runtime.on_base is None and major in _STATIC
    yield from ("", "[annotations]", 'com.hooks.aws_ofi_nccl.enabled = "true"')
    yield f"com.hooks.aws_ofi_nccl.variant = {string(f'cuda{major}' if own else 'cuda-dl')}"
