"""What recipes have for a lock with variants, and that no other has it."""

import os
import re
import subprocess
from pathlib import Path

from msgspec.structs import replace
from recipe_plans import parsed, shipped, text_in
from recipe_readers import read_apptainer, read_dockerfile
from test_dockerfile import stages

from envspec.export import apptainer, dockerfile
from envspec.export.carried import carried_files
from envspec.export.make import make_plan
from envspec.export.plan import FETCH_VARIANTS, Plan
from envspec.lock.model import LockedTarget, Pin, SoundLock, WheelVariant

CARRIED = f"envspec/{FETCH_VARIANTS}"


def as_variant(pin: Pin) -> Pin:
    assert pin.artifact is not None
    file = pin.artifact.file.replace(".whl", "-cu126.whl")
    return replace(pin, artifact=replace(pin.artifact, file=file, variant=WheelVariant("cu126")))


def plan_with_variants(target: str, *names: str) -> Plan:
    """The plan of a target of mm-v2.9 that has variants of these packages."""
    spec, lock = parsed("mm-v2.9")

    def changed(one: LockedTarget) -> LockedTarget:
        return replace(one, pins=tuple(as_variant(pin) if pin.name in names else pin for pin in one.pins))

    targets = tuple(changed(one) if one.name == target else one for one in lock.targets)
    found = replace(lock, targets=targets)
    locked = found.target(target)
    assert locked is not None
    return make_plan(spec, SoundLock.of(found), locked)


def test_a_dockerfile_fetches_them_before_anything_is_installed() -> None:
    plan = plan_with_variants("cu126-volta", "torch", "numpy")
    text = text_in(dockerfile.render(plan), "Dockerfile")
    read_dockerfile(text, plan)
    found = stages(text)
    assert list(found)[:5] == ["uv", "python", "fetched", "wheels", "stack"]
    assert found["wheels"] == ["FROM scratch AS wheels", "COPY --from=fetched /layers/wheels /"]
    *_, fetch = found["fetched"]
    for one in ("torch", "numpy"):
        (pin,) = (pin for step in plan.sources.pip for pin in step.variants if pin.file.startswith(f"{one}-"))
        assert f"{pin.file} {pin.sha256} {pin.size or 0}" in fetch
    # of the PyTorch index, or a mirror of it, and of the default one
    assert 'ARG PYTORCH_INDEX=""' in found["fetched"] and fetch.count("build.sh fetch --torch-backend cu126 -- ") == 1
    (nvidia,) = (line for line in found["stack"] if " install nvidia " in line)
    assert "--variants" not in nvidia
    for layer in ("stack", "rest"):
        assert "--mount=type=bind,from=wheels,target=/run/wheels" in found[layer][-1]
        assert " --variants" in found[layer][-1]
    assert "NV_VARIANT" not in text and "UV_PREVIEW" not in text and CARRIED in plan.sources.files


def test_a_definition_fetches_them_unless_it_is_given_wheels(tmp_path: Path) -> None:
    plan = plan_with_variants("cu126-volta", "torch")
    text = text_in(apptainer.render(plan), "apptainer.def")
    read_apptainer(text, plan)
    lines = [line.strip() for line in re.sub(r" \\\n\s*", " ", text).splitlines()]
    at = next(number for number, line in enumerate(lines) if "build.sh fetch " in line)
    (file,) = (one for step in plan.sources.pip for one in step.variants)
    assert lines[at].endswith(f" fetch --torch-backend cu126 -- {file.file} {file.sha256} {file.size or 0}")
    assert lines[at + 1].endswith(" install - torch+pytorch-cu126 --torch-backend cu126 --variants")
    # what the script makes of it, with what is run replaced by what shows its arguments
    (tmp_path / "uv").write_text('#!/bin/sh\necho uv "$@" NETRC=$NETRC\n')
    (tmp_path / "uv").chmod(0o755)
    (tmp_path / "netrc").write_text("machine here\n")
    (tmp_path / "torch+pytorch-cu126@x.txt").touch()
    script = carried_files()["build.sh"].replace("/opt/env/bin/python", "echo")
    (tmp_path / "build.sh").write_text(script.replace("else set_times -; fi", "fi"))
    env = {"SETTINGS": str(tmp_path), "UV": str(tmp_path / "uv"), "REQUIREMENTS": str(tmp_path), "PATH": os.defpath}
    for wheels in ("/layers/wheels", str(tmp_path / "wheels")):
        words = [line.replace("/layers/build.sh", str(tmp_path / "build.sh")) for line in lines[at : at + 2]]
        ran = subprocess.run(["sh", "-euc", "\n".join(words)], env=env, capture_output=True, text=True, check=True)
        *fetched, installed = ran.stdout.splitlines()
        asked = f"-I {tmp_path}/{FETCH_VARIANTS} {wheels} {file.file} {file.sha256} {file.size or 0} -- {env['UV']}"
        assert fetched == ([f"{asked} --torch-backend cu126"] if wheels.startswith("/layers") else [])
        assert f" --torch-backend cu126 --find-links {wheels} --requirements " in installed
        assert installed.endswith(f"NETRC={tmp_path}/netrc")
        (tmp_path / "wheels").mkdir(exist_ok=True)


def test_other_recipes_know_nothing_of_it() -> None:
    for plan in (shipped("mm-v2.9", "cu126-volta"), shipped("hpc-v2.7", "cu126-ampere")):
        made = {**plan.sources.files, **dockerfile.render(plan), **apptainer.render(plan)}
        scripts = {f"{folder}/build.sh" for folder in ("envspec", "_shared")}
        texts = [text for path, text in made.items() if path not in scripts]
        assert CARRIED not in made and not [text for text in texts if "/wheels " in text or " --variants" in text]
