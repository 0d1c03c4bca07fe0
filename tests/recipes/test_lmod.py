"""The Lmod modulefile, loaded by a real Lmod where there is one, else parsed by Lua."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from recipe_plans import shipped

from envspec.recipes.lmod import FILE, render
from envspec.recipes.plan import Plan

_INIT = (Path("/usr/share/lmod/lmod/init/bash"), Path("/etc/lmod/init/bash"))
LMOD = next((path for path in _INIT if path.is_file()), None)
HOSTILE = 'a"]]--\n\\ os.execute("touch owned") \u2028 é \r'


def module(tmp_path: Path, plan: Plan, command: str, *, envs: str = "envs") -> subprocess.CompletedProcess[str]:
    """What a shell says that loads the module first."""
    folder = tmp_path / "modules" / plan.spec
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{plan.target}.lua").write_text(render(plan)[FILE], "utf-8")
    script = f"""
        . {LMOD}
        module use {tmp_path}/modules
        module load {plan.spec}/{plan.target} || exit
        {command}
    """
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "ENVSPEC_ENVS": str(tmp_path / envs), "PYTHONPATH": "/leaks"}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=env, cwd=tmp_path)


def environment(tmp_path: Path, plan: Plan) -> Path:
    prefix = tmp_path / "envs" / plan.title
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").write_text("#!/bin/sh\necho $0\n")
    (prefix / "bin" / "python").chmod(0o755)
    return prefix


needs_lmod = pytest.mark.skipif(LMOD is None, reason="Lmod isn't installed")


@needs_lmod
def test_loading_puts_the_environment_first_and_keeps_others_out(tmp_path: Path) -> None:
    plan = shipped("mm-v2.9", "cu128-hopper")
    prefix = environment(tmp_path, plan)
    ran = module(tmp_path, plan, 'python; echo "$VIRTUAL_ENV $PYTHONNOUSERSITE $PYTORCH_VERSION ${PYTHONPATH-unset}"')
    assert ran.stdout.splitlines() == [f"{prefix}/bin/python", f"{prefix} 1 2.9.1 unset"], ran.stderr


@needs_lmod
def test_a_missing_environment_is_said(tmp_path: Path) -> None:
    ran = module(tmp_path, shipped("mm-v2.9", "cu128-hopper"), "echo loaded", envs="nowhere")
    assert "there is no environment in" in ran.stderr.replace("\n", " ") and "loaded" not in ran.stdout


@needs_lmod
def test_a_description_stays_text(tmp_path: Path) -> None:
    plan = replace(shipped("mm-v2.9", "cpu"), description=HOSTILE)
    environment(tmp_path, plan)
    ran = module(tmp_path, plan, "echo loaded")
    assert ran.stdout.splitlines() == ["loaded"], ran.stderr
    assert not (tmp_path / "owned").exists()


@pytest.mark.skipif(shutil.which("luac5.4") is None and shutil.which("luac") is None, reason="luac isn't installed")
@pytest.mark.parametrize("description", ["", HOSTILE])
def test_it_is_lua(description: str) -> None:
    luac = shutil.which("luac5.4") or shutil.which("luac") or ""
    text = render(replace(shipped("hpc-v2.7", "cu126-ampere"), description=description))[FILE]
    assert text.isascii() and 'setenv("CONDA_PREFIX", prefix)' in text and "-- Loading runs no activation" in text
    subprocess.run([luac, "-p", "-"], input=text, text=True, check=True)
