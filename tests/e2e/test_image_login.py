"""`envspec image` to a real registry on loopback that lets in who is logged in: by Docker's configuration."""

import base64
import json
import shutil
from pathlib import Path

import pytest
from support.base_image import system, write_base
from support.hub import serving_hub
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("docker-registry") is None, reason="no docker-registry"),
]

USER, WORD = "me", "a-password"
"""Of this test alone, for a registry on loopback."""
USERS = f"{USER}:$2b$04$Vn3TmhCKKzB0p1JPu5fA9eNjUlwKKr80CI9hKQn/5VdM6ZLYcK.IG\n"
HELPER = f"""#!/bin/sh
[ "$1" = get ] && cat > /dev/null && echo '{{"Username": "{USER}", "Secret": "{WORD}"}}'
"""


def test_logins_are_those_of_docker(machine: Machine, index: Index, tmp_path: Path) -> None:
    lib = wheel("lib", "1.0")
    index.add(lib)
    write_lock(machine, [pip_pin(lib)], platform="linux-64")
    write_base(machine.folder / "base", system(PYTHON))
    docker = machine.home / ".docker" / "config.json"
    docker.parent.mkdir()
    programs = machine.base / "programs"
    programs.mkdir()
    (programs / "docker-credential-box").write_text(HELPER)
    (programs / "docker-credential-box").chmod(0o755)
    machine.variables["PATH"] = f"{programs}:{machine.environment()['PATH']}"

    def pushed(config: dict[str, object], tag: str) -> tuple[int, str]:
        docker.write_text(json.dumps(config))
        ran = machine.envspec("image", SPEC, "--base", "./base", "-o", f"{hub.host}/team/demo:{tag}")
        return ran.status, ran.out + ran.err

    def written(user: str, word: str) -> dict[str, object]:
        return {"auths": {hub.host: {"auth": base64.b64encode(f"{user}:{word}".encode()).decode()}}}

    with serving_hub(tmp_path, users=USERS) as hub:
        for nobody in ({}, written(USER, "another"), written("you", WORD)):
            status, told = pushed(nobody, "0")
            assert status == 3 and hub.host in told and "another" not in told, told
        status, told = pushed(written(USER, WORD), "1")
        assert status == 0 and ", 0 there already" in told, told
        status, told = pushed({"credHelpers": {hub.host: "box"}}, "2")
        assert status == 0 and " 0 blobs sent" in told, told
        status, told = pushed({"credsStore": "box"}, "3")
        assert status == 0 and WORD not in told, told
