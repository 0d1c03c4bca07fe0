"""devcontainer.json."""

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from recipe_plans import shipped, text_in, with_values

from envspec.configuration.user_config import PROXY_VARIABLES
from envspec.export import dockerfile
from envspec.export.devcontainer import FILE, render
from envspec.export.plan import Plan


def document(plan: Plan) -> dict[str, Any]:
    text = text_in(render(plan), FILE)
    loaded: dict[str, Any] = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("//")))
    return loaded


def test_it_builds_the_dockerfile_in_the_specs_folder_and_works_as_the_specs_user() -> None:
    found = document(shipped("mm-v2.9", "cpu"))
    platform, *_ = found["build"].pop("options")
    assert found["build"] == {"dockerfile": "../../cpu/Dockerfile", "context": "../.."}
    assert platform == "--platform=linux/amd64"
    assert found["remoteUser"] == "dev"


@pytest.mark.parametrize(("spec", "target"), [("hpc-v2.7", "cu128-gh200"), ("mm-v2.9", "cu126-volta")])
def test_it_gives_every_argument_and_mirror_that_the_environment_has(spec: str, target: str) -> None:
    """By name, as an empty value would take the place of the Dockerfile's own."""
    plan = shipped(spec, target)
    text = text_in(dockerfile.render(plan), "Dockerfile")
    asked = dict.fromkeys(re.findall(r"^ARG (\w+)", text, re.MULTILINE))
    _, *given = document(plan)["build"]["options"]
    names = [*(name for name in asked if name != "SOURCE_DATE_EPOCH"), *PROXY_VARIABLES]
    secrets = ["--secret=id=apt-mirrors,env=APT_MIRRORS", "--secret=id=uv,env=UV_SETTINGS"]
    secrets += ["--secret=id=netrc,env=NETRC_LOGINS"] if "id=netrc" in text else []
    assert given == [*(f"--build-arg={name}" for name in names), *secrets]


def start(plan: Plan, folder: Path, entrypoint: str) -> subprocess.CompletedProcess[str]:
    """What runs when a dev container has started, with an entrypoint of the test's own."""
    program = folder / "entrypoint.sh"
    program.write_text(f"#!/bin/sh\n{entrypoint}\n")
    program.chmod(0o755)
    command = document(plan)["postStartCommand"].replace("/tmp/envspec-", f"{folder}/envspec-")
    command = command.replace("/opt/envspec/entrypoint.sh", str(program))
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


def test_the_driver_is_looked_at_and_then_services_start(tmp_path: Path) -> None:
    """Dev containers replace the entrypoint."""
    said = 'echo "$1 ${ENVSPEC_SKIP_PREFLIGHT:-look}"'
    ran = start(shipped("team-v2.9", "cpu"), tmp_path, f"{said}; [ $1 = true ] || touch $1.done")
    assert (ran.returncode, ran.stdout) == (0, "true look\n")
    for name in ("jupyter", "ssh", "code-server"):
        for _ in range(500):
            if (tmp_path / f"{name}.done").exists():
                break
            time.sleep(0.01)
        log = tmp_path / f"envspec-{name}.log"
        assert log.read_text() == f"{name} 1\n" and log.stat().st_mode & 0o077 == 0


def test_no_service_starts_on_a_machine_that_the_image_is_not_for(tmp_path: Path) -> None:
    ran = start(shipped("team-v2.9", "cpu"), tmp_path, "exit 1")
    assert ran.returncode == 1 and not list(tmp_path.glob("*.log"))


def test_names_stay_text() -> None:
    name = '"},//\\ \u2028'
    assert document(with_values(shipped("cpu-py311", "cpu"), user=name))["remoteUser"] == name
