"""devcontainer.json."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from recipe_plans import shipped

from envspec.recipes.devcontainer import FILE, render
from envspec.recipes.plan import Plan


def document(plan: Plan) -> dict[str, Any]:
    text = render(plan)[FILE]
    loaded: dict[str, Any] = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("//")))
    return loaded


def test_the_gpu_is_optional() -> None:
    assert document(shipped("mm-v2.9", "cu128-hopper"))["hostRequirements"] == {"gpu": "optional"}
    assert "hostRequirements" not in document(shipped("mm-v2.9", "cpu"))


def test_it_builds_the_dockerfile_beside_it_and_works_as_the_specs_user() -> None:
    found = document(shipped("mm-v2.9", "cpu"))
    assert found["build"] == {"dockerfile": "../Dockerfile", "context": ".."}
    assert found["remoteUser"] == "dev"


def test_ports_of_the_services() -> None:
    found = document(shipped("team-v2.9", "cpu"))
    assert found["forwardPorts"] == [8888, 2222, 8080]
    assert [entry["label"] for entry in found["portsAttributes"].values()] == ["jupyter", "ssh", "code-server"]
    assert "forwardPorts" not in document(shipped("cpu-py311", "cpu"))


def test_names_stay_text() -> None:
    name = '"},\n//\\ \u2028'
    assert document(replace(shipped("cpu-py311", "cpu"), user=name))["remoteUser"] == name
