"""What is compiled in an image sees the lock's torch: the recipes' own commands, run by uv."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from recipe_plans import compiled, shipped, text_in, with_values
from support.matrix import first_by_day
from support.packages import sdist, source_files, wheel
from uv import find_uv_bin

from envspec.export import apptainer, dockerfile
from envspec.export.carried import carried_files
from envspec.export.dockerfile_steps import install
from envspec.export.pip_steps import pip_steps
from envspec.export.plan import PipStep, Plan
from envspec.export.template import command
from envspec.lock.model import Artifact, BuildPin, LockedTarget, Pin, TargetInputs
from envspec.spec.parse import parse_spec

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
BACKEND = source_files("extension", "1.0")["backend.py"]
EXTENSION = sdist("extension", "1.0", static=False, files={"backend.py": f"import torch\n{BACKEND}"})
"""Imports torch when it is built, without declaring it, as extensions of torch do."""


def with_extension() -> Plan:
    step = PipStep(("source.txt",), ("extension",), "source")
    compiling = compiled("mm-v2.1", "cu118").sources.compiling
    assert compiling is not None
    compiling = replace(compiling, wheels=())
    plan = shipped("cpu-py311", "cpu")
    return with_values(plan, python=PYTHON, pip=(step,), compiling=compiling)


def compiling_step(text: str) -> str:
    """The step that compiles, of a recipe's text."""
    (given,) = re.finditer("sh /layers/build.sh (compile .*)", re.sub(r" \\\n\s*", " ", text))
    return given[1]


def dockerfile_step() -> str:
    return compiling_step(text_in(dockerfile.render(with_extension()), "Dockerfile"))


def apptainer_step() -> str:
    return compiling_step(text_in(apptainer.render(with_extension()), apptainer.FILE))


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """An environment with a stand-in for torch; beside it the files that there are, and the requirements."""
    house = tmp_path / "house"
    house.mkdir()
    for dist in (EXTENSION, wheel("torch", "1.0")):
        (house / dist.file).write_bytes(dist.content)
    (tmp_path / "source.txt").write_text(f"extension==1.0 --hash=sha256:{EXTENSION.sha256}\n")
    made = tmp_path / "env"
    uv: list[str | Path] = [find_uv_bin(), "--quiet", "--no-config", "--offline"]
    subprocess.run([*uv, "venv", "--python", sys.executable, made], check=True)
    install: list[str | Path] = [
        "pip",
        "install",
        "--python",
        made,
        "--no-index",
        "--no-deps",
        "--find-links",
        house,
        "torch",
    ]
    subprocess.run([*uv, *install], check=True)
    return made


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("step", first_by_day(1, [dockerfile_step, apptainer_step]))
@pytest.mark.parametrize("sees", [True, False])
def test_a_build_sees_the_locks_torch(environment: Path, tmp_path: Path, step: Callable[[], str], sees: bool) -> None:
    """Without the variable that lets it, the very same commands fail: uv builds in isolation."""
    script = carried_files()["build.sh"]
    assert ' PYTHONPATH="$packages"' in script and "--require-hashes" in script
    if not sees:
        script = script.replace(' PYTHONPATH="$packages"', "")
    script = script.replace('then finish "$layer"; else set_times -; fi', "then true; fi")
    script = re.sub(r"(/layers/\$?\w+)?/opt/env\b", str(environment), script).replace("/var/cache/uv", f"{tmp_path}/uv")
    (tmp_path / "build.sh").write_text(script.replace("${REQUIREMENTS:-/layers}", str(tmp_path)))
    settings = {
        "UV_OFFLINE": "1", "UV_NO_INDEX": "1", "UV_FIND_LINKS": str(tmp_path / "house"), "UV_NO_CONFIG": "1",
    }  # fmt: skip
    ran = subprocess.run(
        ["sh", "-c", f"sh build.sh {step()}"],
        env={**os.environ, **settings, "UV": find_uv_bin()},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode == 0) is sees, ran.stderr
    assert sees or "No module named 'torch'" in ran.stderr
    imports: list[str | Path] = [environment / "bin" / "python", "-c", "import extension"]
    assert (subprocess.run(imports, check=False, capture_output=True).returncode == 0) is sees


def built_with(index: str) -> PipStep:
    """The run for a source that is built with a file of the target from an index."""
    artifact = Artifact("core-1.0-py3-none-any.whl", "a" * 64)
    wheels = (BuildPin("core", "1.0", artifact.file, artifact.sha256), BuildPin("tool", "1", "tool-1.whl", "b" * 64))
    source = Pin("pip", "extension", "1.0", "pypi", Artifact("extension-1.0.tar.gz", "c" * 64), built_with=wheels)
    pins = (Pin("pip", "core", "1.0", index, artifact), source)
    spec = parse_spec(
        "[env]\npython = '3.12'\n"
        "[pip]\ndependencies = ['extension']\nindexes = { own = 'https://own.example/simple' }\n"
        "[targets.t]\nplatform = 'linux-64'\n",
        "t.toml",
    )
    target = LockedTarget("t", TargetInputs("linux-64", "3.12", "2.28"), pins)
    (step,) = (step for step, _ in pip_steps(spec, [target])["t"] if step.source)
    return step


@pytest.mark.parametrize(
    ("index", "options"),
    [("pypi", []), ("pytorch/cu126", ["--beside --torch-backend cu126"]), ("own", ['--index "$INDEX_OWN"'])],
)
def test_a_source_finds_what_it_is_built_with_beside_pypi(index: str, options: list[str]) -> None:
    step = built_with(index)
    line = command(install(step, "source"))
    assert "--default-index" not in line
    assert [option for option in options if option not in line] == []
    assert line.startswith("sh /layers/build.sh install source source=extension") and step.built_with
