"""devcontainer.json: the recipe's image as a development container, with the GPU where there is one."""

from __future__ import annotations

import json
from typing import Any

from envspec.recipes.heading import heading
from envspec.recipes.plan import ENVIRONMENT, Plan

FILE = ".devcontainer/devcontainer.json"


def render(plan: Plan) -> dict[str, str]:
    """`.devcontainer/devcontainer.json`, JSON with comments as the format has it."""
    document: dict[str, Any] = {
        "name": plan.title,
        "build": {"dockerfile": "../Dockerfile", "context": ".."},
        "remoteUser": plan.user,
        # DataLoader workers share memory in /dev/shm, of which a container has 64 MB
        "runArgs": ["--shm-size=8g"],
        "forwardPorts": [service.port for service in plan.services],
        "portsAttributes": {str(service.port): {"label": service.name} for service in plan.services},
        "customizations": {
            "vscode": {
                "extensions": ["ms-python.python"],
                "settings": {"python.defaultInterpreterPath": f"{ENVIRONMENT}/bin/python"},
            }
        },
    }
    if plan.is_cuda:
        document["hostRequirements"] = {"gpu": "optional"}
    if not plan.services:
        del document["forwardPorts"], document["portsAttributes"]
    comment = "".join(f"// {line}".rstrip() + "\n" for line in heading(plan))
    return {FILE: comment + json.dumps(document, indent=2) + "\n"}
