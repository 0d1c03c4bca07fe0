"""`envspec image` to a real registry that lets in who is logged in, and the memory that a large layer takes."""

import base64
import json
import random
import shutil
from pathlib import Path

import pytest
from support.base_image import system, write_base
from support.hub import serving_hub
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, serve_lock, write_lock
from support.machine import Machine
from support.packages import Dist, packed_anew, wheel

from bench.measure import envspec, run

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
    serve_lock(machine, index, lib, platform="linux-64")
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


LIBRARIES, LIBRARY = 14, 450 << 20
"""Wheels with one library each, as CUDA's are; more than are fetched at a time would be."""
FILES = 40_000
"""Of all other packages of a large environment."""
MOST = 200


def library(seed: int) -> bytes:
    piece = random.Random(seed).randbytes(1 << 10) + bytes(19 << 10)
    return (piece * (LIBRARY // len(piece) + 1))[:LIBRARY]


def packed(name: str, files: dict[str, bytes]) -> Dist:
    return packed_anew(wheel(name, "1.0", files=files))


def test_six_gigabytes_take_less_than_200_megabytes(machine: Machine, index: Index, tmp_path: Path) -> None:
    many = {f"many/{n % 200}/module_of_a_package_{n}.py": b"%d" % n for n in range(FILES)}
    dists = [packed(f"nvidia-lib{n:02}-cu12", {f"nvidia/lib{n:02}.so": library(n)}) for n in range(LIBRARIES)]
    dists.append(packed("many", many))
    index.add(*dists)
    write_lock(machine, [pip_pin(one) for one in dists], platform="linux-64")
    write_base(machine.folder / "base", system(PYTHON))
    with serving_hub(tmp_path) as hub:
        command = envspec("image", SPEC, "--base", "./base", "-o", f"{hub.host}/team/large:1")
        taken = run(command, env=machine.environment(), cwd=machine.folder)
    assert taken.megabytes < MOST
