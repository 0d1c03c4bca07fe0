"""The Lmod modulefile, loaded by a real Lmod where there is one, else parsed by Lua."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from recipe_plans import of_target, shipped_spec
from support.index import Index
from support.machine import Machine
from support.packages import wheel
from test_heads import heads

from envspec.export.lmod import FILE, render
from envspec.export.plan import SpecPlan

_INIT = (Path("/usr/share/lmod/lmod/init/bash"), Path("/etc/lmod/init/bash"))
LMOD = next((path for path in _INIT if path.is_file()), None)
HOSTILE = 'a"]]--\n\\ os.execute("touch owned") \u2028 é \r'


def module(
    tmp_path: Path, plan: SpecPlan, target: str, command: str, *, envs: str = "envs"
) -> subprocess.CompletedProcess[str]:
    """What a shell says that loads the module first, by a link of the target's name."""
    folder = tmp_path / "modules" / plan.spec
    folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / FILE).write_text(render(plan)[FILE], "utf-8")
    (folder / f"{target}.lua").symlink_to(tmp_path / FILE)
    script = f"""
        . {LMOD}
        module use {tmp_path}/modules
        module load {plan.spec}/{target} || exit
        {command}
    """
    env = {"PATH": os.defpath, "HOME": str(tmp_path), "ENVSPEC_ENVS": str(tmp_path / envs), "PYTHONPATH": "/leaks"}
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, env=env, cwd=tmp_path)


def environment(tmp_path: Path, title: str) -> Path:
    prefix = tmp_path / "envs" / title
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").write_text("#!/bin/sh\necho $0\n")
    (prefix / "bin" / "python").chmod(0o755)
    return prefix


needs_lmod = pytest.mark.skipif(LMOD is None, reason="Lmod isn't installed")


@needs_lmod
def test_loading_puts_the_environment_first_and_keeps_others_out(tmp_path: Path) -> None:
    prefix = environment(tmp_path, "mm-v2.9-cu128-hopper")
    plan = shipped_spec("mm-v2.9")
    ran = module(
        tmp_path,
        plan,
        "cu128-hopper",
        'python; echo "$VIRTUAL_ENV $PYTHONNOUSERSITE $PYTORCH_VERSION ${PYTHONPATH-unset}"',
    )
    assert ran.stdout.splitlines() == [f"{prefix}/bin/python", f"{prefix} 1 2.9.1 unset"], ran.stderr


@needs_lmod
@pytest.mark.slow
def test_the_commands_of_the_head_make_what_it_loads(machine: Machine, index: Index, tmp_path: Path) -> None:
    """With its two words in capitals, which are the user's own; without ENVSPEC_ENVS."""
    index.add(wheel("alpha", "1.0"))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    spec = f'[env]\npython = "{python}"\n[pip]\ndependencies = ["alpha"]\n[targets.cpu]\nplatform = "linux-64"\n'
    machine.spec(spec)
    machine.locked()
    machine.envspec("export", "specs/demo.toml", "--format", "lmod", "-o", "recipes/demo", status=0)
    lines = list(heads(machine.folder / "recipes"))
    assert [one.words[0] for one in lines] == ["envspec", "mkdir"]
    for one in lines:
        line = re.sub(r"\bSPEC\b", "../../specs/demo.toml", one.line).replace("MODULES", f"{tmp_path}/modules")
        subprocess.run(["sh", "-c", line], cwd=one.folder, env=machine.environment(), check=True, timeout=120)
    script = (
        f". {LMOD}; module use {tmp_path}/modules; module load demo/cpu; python -c 'import alpha; print(alpha.version)'"
    )
    env = {"PATH": os.defpath, "HOME": str(machine.home)}
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=env, cwd=tmp_path)
    assert ran.stdout == "1.0\n", ran.stderr


@needs_lmod
def test_a_missing_environment_is_said(tmp_path: Path) -> None:
    ran = module(tmp_path, shipped_spec("mm-v2.9"), "cu128-hopper", "echo loaded", envs="nowhere")
    assert "there is no environment in" in ran.stderr.replace("\n", " ") and "loaded" not in ran.stdout


@needs_lmod
def test_a_description_stays_text(tmp_path: Path) -> None:
    plan = replace(shipped_spec("mm-v2.9"), description=HOSTILE)
    environment(tmp_path, "mm-v2.9-cpu")
    ran = module(tmp_path, plan, "cpu", "echo loaded")
    assert ran.stdout.splitlines() == ["loaded"], ran.stderr
    assert not (tmp_path / "owned").exists()


@needs_lmod
def test_a_name_that_is_no_target_is_said(tmp_path: Path) -> None:
    ran = module(tmp_path, shipped_spec("mm-v2.9"), "cu1", "echo loaded")
    told = " ".join(ran.stderr.split())
    assert "there is no target cu1 of mm-v2.9: name the file after one of cpu, cu126-volta," in told
    assert "loaded" not in ran.stdout


@pytest.mark.skipif(shutil.which("luac5.4") is None and shutil.which("luac") is None, reason="luac isn't installed")
@pytest.mark.parametrize("description", ["", HOSTILE])
def test_it_is_lua(description: str) -> None:
    luac = shutil.which("luac5.4") or shutil.which("luac") or ""
    text = render(replace(of_target("hpc-v2.7", "cu126-ampere"), description=description))[FILE]
    assert text.isascii() and 'active = "CONDA_PREFIX"' in text and "-- Loading runs no activation" in text
    subprocess.run([luac, "-p", "-"], input=text, text=True, check=True)
