"""compose.yaml: a service per target, for `docker compose`, podman's compose and `docker buildx bake`.

All services share one profile, so that a bare `up` starts none: name a service, or the profile for all. Ports are
published to this machine alone.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from envspec.export import apt_mirrors, dockerfile
from envspec.export.devcontainer import GIVEN
from envspec.export.dockerfile_steps import CONTEXT, index_argument
from envspec.export.plan import WORKSPACE, LocalIndex, OwnProject, Plan, SpecPlan, hash_heading
from envspec.lock.formats.yaml_text import inline_strings, string

FILE = "compose.yaml"
PROFILE = "all"
FOLDER_VARIABLE = "ENVSPEC_PROJECT"
"""The variable with the folder of the spec's project."""
_VOLUME = "workspace"
_SAID = {apt_mirrors.FILE: "words like debian=URL", "uv": "a uv.toml", "netrc": "a netrc"}


def render(plan: SpecPlan) -> dict[str, str]:
    """`compose.yaml`."""
    target = plan.names[0]
    texts = [dockerfile.render(of)[f"{of.target}/{dockerfile.FILE}"] for of in plan.targets]
    secrets = {name: one for text in texts for name, one in apt_mirrors.secrets(text).items()}
    *taken, last = (f"{one} ({_SAID[name]})" for name, one in secrets.items())
    usage = [
        "In this folder:",
        f"  docker buildx bake {target}          # docker compose build {target}: the same",
        f"  docker compose run --rm {target} python train.py",
        f"  docker compose --profile {PROFILE} build",
        f"ENVSPEC_WORKSPACE=FOLDER is seen as {WORKSPACE}; without it, a volume.",
        f"Builds take {', '.join(taken)} and {last} where you have them.",
    ]
    if own := plan.targets[0].project:
        folder = _default_folder(plan.targets[0])
        usage.append(f"{FOLDER_VARIABLE}=FOLDER has {own.name}{f'; without it, {folder}' if folder else ''}")
    lines = [
        *hash_heading(plan, usage),
        f"name: {string(_project(plan.spec))}",
        "services:",
        *(line for of, text in zip(plan.targets, texts, strict=True) for line in _service(of, text)),
        "volumes:",
        f"  {_VOLUME}: {{}}",
        "secrets: # of builds, from your environment, where it has them",
        *(f"  {name}: {{ environment: {string(variable)} }}" for name, variable in secrets.items()),
    ]
    return {FILE: "\n".join(lines) + "\n"}


def _project(name: str) -> str:
    """Make a project's name from valid characters."""
    return re.sub(r"[^a-z0-9_-]", "-", name)


def _default_folder(plan: Plan) -> str | None:
    """Give the folder of the spec's project, seen from this file's."""
    return posixpath.relpath(plan.project.path, plan.place) if plan.project and plan.shares else None


def _folder(plan: Plan, project: OwnProject) -> str:
    folder = _default_folder(plan)
    otherwise = f":-{folder}" if folder else f":?the folder of {project.name}"
    return f"${{{FOLDER_VARIABLE}{otherwise}}}"


def _index_folder(plan: Plan, index: LocalIndex) -> str:
    """Give the folder of an index, seen from this file's, or the variable that has it where that can be anywhere."""
    if index.folder is None:
        return f"${{{index_argument(index.name)}_FOLDER:?the folder of the index {index.name}}}"
    return posixpath.relpath(index.path, plan.place) if not index.path.startswith("/") else index.path


def _service(plan: Plan, text: str) -> Iterator[str]:
    """Make the lines of a target's service. `text` is its Dockerfile."""
    yield f"  {string(plan.target)}:"
    yield f"    profiles: {inline_strings([PROFILE])}"
    yield f"    image: {string(plan.image)}"
    yield f"    platform: {string(plan.oci_platform)}"
    # a name alone has its value from the environment, and stays unset where that has none
    arguments = inline_strings([f"SOURCE_DATE_EPOCH={plan.epoch}", *apt_mirrors.arguments(text)])
    secrets = inline_strings(apt_mirrors.secrets(text))
    platforms = f"platforms: {inline_strings([plan.oci_platform])}"
    contexts = [f"{CONTEXT}: {string(_folder(plan, plan.project))}"] if plan.project else []
    contexts += [f"{one.context}: {string(_index_folder(plan, one))}" for one in plan.local_indexes]
    more = f", additional_contexts: {{ {', '.join(contexts)} }}" if contexts else ""
    path = f"{plan.own}{plan.target}/{dockerfile.FILE}"
    place = f"context: {'..' if plan.shares else '.'}, dockerfile: {string(path)}"
    yield f"    build: {{ {place}, {platforms}, args: {arguments}, secrets: {secrets}{more} }}"
    yield f"    shm_size: {plan.shm}b # DataLoader workers and NCCL share memory here"
    yield f"    volumes: {inline_strings([f'${{ENVSPEC_WORKSPACE:-{_VOLUME}}}:{WORKSPACE}'])}"
    if plan.services:
        yield f"    ports: {inline_strings(one.mapping for one in plan.services)}"
        names = inline_strings(GIVEN[one.name] for one in plan.services)
        yield f"    environment: {names} # of yours, where it is set: who may get in"
    if plan.is_cuda:
        gpus = '{ driver: nvidia, count: all, capabilities: ["gpu"] }'
        yield f"    deploy: {{ resources: {{ reservations: {{ devices: [{gpus}] }} }} }}"
