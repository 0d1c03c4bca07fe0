"""compose.yaml: a service per target, for `docker compose`, podman's compose and `docker buildx bake`.

All services share one profile, so that a bare `up` starts none: name a service, or the profile for all. Ports are
published to this machine alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from envspec.lock.formats.yaml_text import inline_strings, string
from envspec.recipes.devcontainer import GIVEN
from envspec.recipes.dockerfile import FILE as DOCKERFILE
from envspec.recipes.dockerfile_layers import CHANNEL_HOST
from envspec.recipes.dockerfile_project import CONTEXT
from envspec.recipes.heading import hash_heading
from envspec.recipes.plan import WORKSPACE, OwnProject, Plan, SpecPlan

FILE = "compose.yaml"
PROFILE = "all"
FOLDER_VARIABLE = "ENVSPEC_PROJECT"
"""The variable with the folder of the spec's project."""
_VOLUME = "workspace"


def render(plan: SpecPlan) -> dict[str, str]:
    """`compose.yaml`."""
    target = plan.names[0]
    usage = [
        "In this folder:",
        f"  docker buildx bake {target}          (docker compose build {target}: the same)",
        f"  docker compose run --rm {target} python train.py",
        f"  docker compose --profile {PROFILE} build",
        f"ENVSPEC_WORKSPACE=FOLDER is seen as {WORKSPACE}; without it, a volume.",
    ]
    if own := plan.targets[0].project:
        usage.append(f"{FOLDER_VARIABLE}=FOLDER has {own.name}{f'; without it, {own.folder}' if own.folder else ''}")
    lines = [
        *hash_heading(plan, usage),
        f"name: {string(_project(plan.spec))}",
        "services:",
        *(line for of in plan.targets for line in _service(of)),
        "volumes:",
        f"  {_VOLUME}: {{}}",
    ]
    return {FILE: "\n".join(lines) + "\n"}


def _project(name: str) -> str:
    """Make a project's name from valid characters."""
    return re.sub(r"[^a-z0-9_-]", "-", name)


def _folder(project: OwnProject) -> str:
    otherwise = f":-{project.folder}" if project.folder else f":?the folder of {project.name}"
    return f"${{{FOLDER_VARIABLE}{otherwise}}}"


def _service(plan: Plan) -> Iterator[str]:
    yield f"  {string(plan.target)}:"
    yield f"    profiles: {inline_strings([PROFILE])}"
    yield f"    image: {string(plan.image)}"
    yield f"    platform: {string(plan.oci_platform)}"
    yield "    build:"
    yield "      context: ."
    yield f"      dockerfile: {string(f'{plan.target}/{DOCKERFILE}')}"
    if plan.project:
        yield "      additional_contexts:"
        yield f"        {CONTEXT}: {string(_folder(plan.project))}"
    yield f"      platforms: {inline_strings([plan.oci_platform])}"
    yield "      args:"
    yield f"        SOURCE_DATE_EPOCH: {string(str(plan.epoch))}"
    if plan.explicit:
        yield f"        {CHANNEL_HOST}: {string(f'${{{CHANNEL_HOST}:-}}')}"
    yield "    shm_size: 8gb # DataLoader workers and NCCL share memory here"
    yield "    volumes:"
    yield f"      - {string(f'${{ENVSPEC_WORKSPACE:-{_VOLUME}}}:{WORKSPACE}')}"
    if plan.services:
        yield "    ports:"
        yield from (f"      - {string(f'127.0.0.1:{one.port}:{one.port}')}" for one in plan.services)
        yield "    environment: # of yours, where it is set: who may get in"
        yield from (f"      - {GIVEN[one.name]}" for one in plan.services)
    if plan.is_cuda:
        yield "    deploy:"
        yield "      resources:"
        yield "        reservations:"
        yield "          devices:"
        yield "            - driver: nvidia"
        yield "              count: all"
        yield '              capabilities: ["gpu"]'
