"""compose.yaml: a service per target, for `docker compose`, podman's compose and `docker buildx bake`.

All services share one profile, so that a bare `up` starts none: name a service, or the profile for all. Ports are
published to this machine alone.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

from envspec.export import apt_mirrors, dockerfile
from envspec.export.devcontainer import GIVEN
from envspec.export.dockerfile_steps import CONTEXT, index_argument
from envspec.export.plan import EPOCH, WORKSPACE, LocalIndex, OwnProject, Plan, SpecPlan, hash_heading
from envspec.lock.formats.yaml_text import dump

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
    secrets = {name: entry for text in texts for name, entry in apt_mirrors.secrets(text).items()}
    *taken, last = (f"{entry} ({_SAID[name]})" for name, entry in secrets.items())
    usage = [
        "In this folder:",
        f"  docker buildx bake {target}          # docker compose build {target}: the same",
        f"  docker compose run --rm {target} python train.py",
        f"  docker compose --profile {PROFILE} build",
        f"ENVSPEC_WORKSPACE=FOLDER is seen as {WORKSPACE}; without it, a volume.",
        f"Builds take {', '.join(taken)} and {last} where you have them.",
    ]
    if own := plan.targets[0].sources.project:
        folder = _default_folder(plan.targets[0])
        usage.append(f"{FOLDER_VARIABLE}=FOLDER has {own.name}{f'; without it, {folder}' if folder else ''}")
    named = {GIVEN[service.name]: None for of in plan.targets for service in of.image.services}
    if named:
        usage.append(f"Who may get in is in your environment: {', '.join(named)}.")
    document = {
        "name": _project(plan.spec),
        "services": {of.target: _service(of, text) for of, text in zip(plan.targets, texts, strict=True)},
        "volumes": {_VOLUME: {}},
        "secrets": {name: {"environment": variable} for name, variable in secrets.items()},
    }
    return {FILE: "\n".join([*hash_heading(plan, usage), dump(document)])}


def _project(name: str) -> str:
    """Make a project's name from valid characters."""
    return re.sub(r"[^a-z0-9_-]", "-", name)


def _default_folder(plan: Plan) -> str | None:
    """Give the folder of the spec's project, seen from this file's."""
    return posixpath.relpath(plan.sources.project.path, plan.place) if plan.sources.project and plan.shares else None


def _folder(plan: Plan, project: OwnProject) -> str:
    folder = _default_folder(plan)
    otherwise = f":-{folder}" if folder else f":?the folder of {project.name}"
    return f"${{{FOLDER_VARIABLE}{otherwise}}}"


def _index_folder(plan: Plan, index: LocalIndex) -> str:
    """Give the folder of an index, seen from this file's, or the variable that has it where that can be anywhere."""
    if index.folder is None:
        return f"${{{index_argument(index.name)}_FOLDER:?the folder of the index {index.name}}}"
    return posixpath.relpath(index.path, plan.place) if not index.path.startswith("/") else index.path


def _service(plan: Plan, text: str) -> dict[str, Any]:
    """Make a target's service. `text` is its Dockerfile."""
    build: dict[str, Any] = {
        "context": ".." if plan.shares else ".",
        "dockerfile": f"{plan.own}{plan.target}/{dockerfile.FILE}",
        "platforms": [plan.runtime.oci_platform],
        # a name alone has its value from the environment, and stays unset where that has none
        "args": [f"SOURCE_DATE_EPOCH={EPOCH}", *apt_mirrors.arguments(text)],
        "secrets": [*apt_mirrors.secrets(text)],
    }
    contexts = {CONTEXT: _folder(plan, plan.sources.project)} if plan.sources.project else {}
    contexts |= {index.context: _index_folder(plan, index) for index in plan.sources.local_indexes}
    if contexts:
        build["additional_contexts"] = contexts
    service: dict[str, Any] = {
        "profiles": [PROFILE],
        "image": plan.image_name,
        "platform": plan.runtime.oci_platform,
        "build": build,
        # DataLoader workers and NCCL share memory in /dev/shm
        "shm_size": f"{plan.image.shm}b",
        "volumes": [f"${{ENVSPEC_WORKSPACE:-{_VOLUME}}}:{WORKSPACE}"],
    }
    if plan.image.services:
        service["ports"] = [server.mapping for server in plan.image.services]
        service["environment"] = [GIVEN[server.name] for server in plan.image.services]
    if plan.runtime.is_cuda:
        gpus = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        service["deploy"] = {"resources": {"reservations": {"devices": [gpus]}}}
    return service
