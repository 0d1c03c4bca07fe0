"""compose.yaml: read by the schema of the Compose specification, by YAML, and by podman's program where it is there."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from check_jsonschema import main as check_jsonschema  # type: ignore[import-untyped]
from click.testing import CliRunner
from msgspec.structs import replace
from recipe_plans import ROOT, shipped, shipped_spec, text_in

from envspec.configuration.user_config import PROXY_VARIABLES
from envspec.export import dockerfile
from envspec.export.compose import FILE, PROFILE, render
from envspec.export.plan import EPOCH, SpecPlan

SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.toml") if path.stem != "dev")


def document(plan: SpecPlan) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(render(plan)[FILE])
    return loaded


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", SPECS)
def test_it_is_as_the_compose_specification_has_it(name: str, tmp_path: Path) -> None:
    """By the specification's own JSON Schema, which check-jsonschema brings."""
    file = tmp_path / FILE
    file.write_text(render(shipped_spec(name))[FILE], encoding="utf-8")
    ran = CliRunner().invoke(check_jsonschema, ["--builtin-schema", "vendor.compose-spec", str(file)])
    assert ran.exit_code == 0, ran.output


def test_the_compose_specification_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / FILE
    file.write_text(render(shipped_spec("cpu-py311"))[FILE].replace("    build:\n", "    bulid:\n"), encoding="utf-8")
    ran = CliRunner().invoke(check_jsonschema, ["--builtin-schema", "vendor.compose-spec", str(file)])
    assert ran.exit_code == 1 and "bulid" in ran.output, ran.output


@pytest.mark.skipif(shutil.which("podman-compose") is None, reason="podman-compose isn't installed")
def test_podmans_program_reads_it(tmp_path: Path) -> None:
    """Without an engine: a program that tells its version stands in for podman."""
    (tmp_path / "podman").write_text("#!/bin/sh\necho 'podman version 5.0.0'\n")
    (tmp_path / "podman").chmod(0o755)
    (tmp_path / FILE).write_text(render(shipped_spec("team-v2.9"))[FILE], encoding="utf-8")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "ENVSPEC_WORKSPACE": "/data"}
    command = ["podman-compose", "-f", str(tmp_path / FILE), "--profile", PROFILE, "config"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    found = yaml.safe_load(ran.stdout)["services"]
    assert [*found] == [*shipped_spec("team-v2.9").names]
    assert found["cpu"]["volumes"] == ["/data:/workspace"]


@pytest.mark.slow
def test_a_service_is_what_its_dockerfile_builds() -> None:
    for name in SPECS:
        plan = shipped_spec(name)
        services = document(plan)["services"]
        assert [*services] == [*plan.names]
        for of in plan.targets:
            build = services[of.target]["build"]
            assert build["context"] == ".." and build["dockerfile"].removeprefix(f"{name}/") in dockerfile.render(of)
            assert (services[of.target]["image"], build["platforms"]) == (of.image_name, [of.runtime.oci_platform])
            text = text_in(dockerfile.render(of), dockerfile.FILE)
            asked = set(re.findall(r"^ARG (\w+)", text, re.MULTILINE)) - {"SOURCE_DATE_EPOCH"}
            wanted = {"apt-mirrors", "uv", *(["netrc"] if "type=secret,id=netrc" in text else [])}
            assert set(build["secrets"]) == wanted <= set(document(plan)["secrets"])
            epoch, *by_name = build["args"]
            # by name alone each has its value where the builder runs, and none where there is none
            assert epoch == f"SOURCE_DATE_EPOCH={EPOCH}" and set(by_name) == asked | {*PROXY_VARIABLES}


@pytest.mark.skipif(shutil.which("podman-compose") is None, reason="podman-compose isn't installed")
def test_podmans_program_hands_a_build_what_the_environment_has(tmp_path: Path) -> None:
    (tmp_path / "podman").write_text(f"#!/bin/sh\necho 'podman version 5.0.0'\necho \"$@\" >>{tmp_path}/asked\n")
    (tmp_path / "podman").chmod(0o755)
    for path, text in {**render(shipped_spec("cpu-py311")), **dockerfile.render(shipped("cpu-py311", "cpu"))}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "APT_MIRRORS": "debian=http://m.example/d"}
    subprocess.run(["podman-compose", "--profile", PROFILE, "build", "cpu"], cwd=tmp_path, check=True, env=env)
    (built,) = [line for line in (tmp_path / "asked").read_text().splitlines() if line.startswith("build ")]
    assert " --secret id=apt-mirrors,env=APT_MIRRORS --secret id=uv,env=UV_SETTINGS " in built
    assert " --build-arg BASE_IMAGE --build-arg UV_IMAGE " in built and "m.example" not in built


@pytest.mark.parametrize("name", ["demo", "a.b", "9", "a_b-c.d"])
def test_a_project_has_a_name_that_engines_take(name: str) -> None:
    plan = replace(shipped_spec("cpu-py311"), spec=name, targets=(shipped("cpu-py311", "cpu"),))
    assert re.fullmatch("[a-z0-9][a-z0-9_-]*", document(plan)["name"])
