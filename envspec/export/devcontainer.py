"""devcontainer.json: the recipe's image as a development container, with a GPU if there is one.

Editors look for the file below `.devcontainer/` in the opened folder: one folder per target.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterator
from typing import Any

from envspec.export import apt_mirrors, dockerfile
from envspec.export.dockerfile_steps import CONTEXT
from envspec.export.plan import CARRIED, ENVIRONMENT, Plan, heading

FOLDER = ".devcontainer"
FILE = "devcontainer.json"

GIVEN = {
    "jupyter": "JUPYTER_TOKEN",
    "ssh": "AUTHORIZED_KEYS",
    "code-server": "HASHED_PASSWORD",
    "tensorboard": "TENSORBOARD_TOKEN",
}
"""Service -> the variable on the user's own machine that says who can log in."""


def render(plan: Plan) -> dict[str, str]:
    """Render `devcontainer.json`, JSON with comments by its format, for `.devcontainer/<spec>-<target>/` of the folder
    that editors open, from which `plan.place` leads to the spec's folder.
    """
    context = posixpath.relpath(posixpath.dirname(plan.place) if plan.shares else plan.place, _own(plan))
    recipe = f"{plan.target}/{dockerfile.FILE}"
    build: dict[str, Any] = {
        "dockerfile": f"{context}/{plan.own}{recipe}",
        "context": context,
        "options": [
            f"--platform={plan.runtime.oci_platform}",
            *_project(plan),
            *_indexes(plan),
            *_build_options(dockerfile.render(plan)[recipe]),
        ],
    }
    document: dict[str, Any] = {
        "name": plan.title,
        "build": build,
        "remoteUser": plan.image.user,
        # Dev containers replace the entrypoint, and so its init.
        "init": True,
        # DataLoader workers share memory in /dev/shm, of which a container has 64 MB
        "runArgs": [f"--shm-size={plan.image.shm}"],
        "postStartCommand": _start(plan),
        "customizations": {
            "vscode": {
                "extensions": ["ms-python.python"],
                "settings": {"python.defaultInterpreterPath": f"{ENVIRONMENT}/bin/python"},
            }
        },
    }
    if plan.runtime.is_cuda:
        document["hostRequirements"] = {"gpu": "optional"}
    if plan.image.services:
        document["forwardPorts"] = [service.port for service in plan.image.services]
        document["portsAttributes"] = {str(service.port): {"label": service.name} for service in plan.image.services}
        names = [GIVEN[service.name] for service in plan.image.services]
        document["remoteEnv"] = {name: f"${{localEnv:{name}}}" for name in names}
    comment = "".join(f"// {line}".rstrip() + "\n" for line in heading(plan))
    return {path_of(plan): comment + json.dumps(document, indent=2) + "\n"}


def path_of(plan: Plan) -> str:
    """Give the file's path below the spec's folder."""
    return posixpath.relpath(posixpath.join(_own(plan), FILE), plan.place)


def _own(plan: Plan) -> str:
    return posixpath.join(FOLDER, plan.title)


def _project(plan: Plan) -> Iterator[str]:
    """Give the option for the folder of the spec's project: below the opened one, or the opened one itself."""
    if project := plan.sources.project:
        below = "" if project.path == "." or project.folder is None else f"/{project.path}"
        yield f"--build-context={CONTEXT}=${{localWorkspaceFolder}}{below}"


def _indexes(plan: Plan) -> Iterator[str]:
    """Give the options for indexes that are folders."""
    for index in plan.sources.local_indexes:
        path = index.path if index.path.startswith("/") else f"${{localWorkspaceFolder}}/{index.path}"
        yield f"--build-context={index.context}={path}"


def _build_options(text: str) -> Iterator[str]:
    """Give the options for what the editor's environment has. `build.args` would have an empty value for what it
    hasn't; a name alone leaves the Dockerfile's own."""
    yield from (f"--build-arg={name}" for name in apt_mirrors.arguments(text))
    yield from (f"--secret=id={name},env={variable}" for name, variable in apt_mirrors.secrets(text).items())


def _start(plan: Plan) -> str:
    """Make the command that replaces the entrypoint: check the driver, then start the services. Each runs by itself,
    because a service without an authorised user ends at once, and without the terminal, which closes after the
    start.
    """
    entrypoint = f"{CARRIED}/entrypoint.sh"
    if not plan.image.services:
        return f"{entrypoint} true"
    names = " ".join(service.name for service in plan.image.services)
    return (
        f"{entrypoint} true && umask 077 && trap '' HUP && export ENVSPEC_SKIP_PREFLIGHT=1 && for service in {names};"
        f' do {entrypoint} "$service" </dev/null >"/tmp/envspec-$service.log" 2>&1 & done'
    )
