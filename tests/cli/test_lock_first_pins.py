"""`lock --pins-from`: another tool's lock gives the first pins, where they fit."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel
from support.torch_packages import stand_ins

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SPEC = f"""\
[env]
name = "demo"
python = "{PYTHON}"
[pip]
dependencies = ["alpha"]
[targets.cpu]
platform = "linux-64"
"""


@pytest.mark.slow
def test_a_uv_lock_gives_the_first_pins_and_init_says_how(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))
    (machine.folder / "pyproject.toml").write_text(
        f'[project]\nname = "itself"\nversion = "1"\nrequires-python = ">={PYTHON}"\ndependencies = ["alpha"]\n',
        "utf-8",
    )
    uv = [str(Path(sys.executable).with_name("uv")), "lock", "--quiet"]
    subprocess.run(uv, cwd=machine.folder, env=machine.environment(), check=True, timeout=60)
    index.add(wheel("alpha", "2.0", "beta"), wheel("beta", "2.0"))
    begun = machine.envspec("init", "demo", "--from", "uv.lock")
    assert begun.status == 2 and "begin with pyproject.toml, then" in begun.hint, begun.err
    begun = machine.envspec("init", "demo", "--from", "pyproject.toml")
    assert "hint: `envspec lock specs/demo.toml --pins-from uv.lock`" in begun.err, begun.err
    assert machine.envspec("lock", "specs/demo.toml", "--pins-from", "uv.lock").status == 0
    assert machine.versions("cpu") == {"alpha": "1.0", "beta": "1.0"}
    assert machine.envspec("check").status == 0


def test_pins_that_do_not_fit_give_way(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", "beta>=2"), *(wheel("beta", one) for one in ("1.0", "2.0", "3.0")))
    spec = machine.spec(SPEC)
    (machine.folder / "requirements.txt").write_text("alpha==0.9\nbeta==2.0\n", "utf-8")
    machine.envspec("lock", spec, "--pins-from", "requirements.txt", status=0)
    assert machine.versions("cpu") == {"alpha": "1.0", "beta": "2.0"}


def test_a_lock_of_conda_s_gives_them_by_platform(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"), wheel("alpha", "2.0"))
    spec = machine.spec(SPEC)
    text = "version: 1\nmetadata: {platforms: [linux-64], channels: [], sources: [], content_hash: {linux-64: '0'}}\n"
    said = f"url: 'https://a/alpha-1.0-py3-none-any.whl', hash: {{sha256: '{'0' * 64}'}}, dependencies: {{}}"
    for one in ("linux-64", "osx-arm64"):
        text += "package:\n" * (one == "linux-64")
        text += f"- {{name: alpha, version: '1.0', manager: pip, platform: {one}, {said}}}\n"
    (machine.folder / "conda-lock.yml").write_text(text, "utf-8")
    machine.envspec("lock", spec, "--pins-from", "conda-lock.yml", status=0)
    assert machine.versions("cpu") == {"alpha": "1.0"}


@pytest.mark.slow
def test_a_release_of_torch_is_kept_as_the_target_s_own_build(machine: Machine, index: Index) -> None:
    index.add(*stand_ins("cu126", "2.8.0"), *stand_ins("cu126", "2.9.1"))
    gpu = '[targets.gpu]\nplatform = "linux-64"\ncuda = "12.6"\ngpus = ["A100"]\n'
    spec = machine.spec(cpu("torch>=2.6", targets=gpu))
    for named in ("2.8.0", "2.8.0+cu128"):
        (machine.folder / "requirements.txt").write_text(f"torch=={named}\n", "utf-8")
        machine.envspec("lock", spec, "--pins-from", "requirements.txt", status=0)
        assert machine.versions("gpu")["torch"] == "2.8.0+cu126"


def test_what_gives_no_pins(machine: Machine) -> None:
    spec = machine.spec(SPEC)
    (machine.folder / "requirements.txt").write_text("alpha>=1\n", "utf-8")
    ran = machine.envspec("lock", spec, "--pins-from", "requirements.txt")
    assert (ran.status, "requirements.txt: it pins nothing" in ran.error) == (2, True), ran.err
    ran = machine.envspec("lock", spec, "--pins-from", "nowhere.lock")
    assert ran.status == 2 and "nowhere.lock" in ran.error, ran.err
    ran = machine.envspec("lock", spec, "--pins-from", "requirements.txt", "--upgrade")
    assert ran.status == 2 and "--upgrade asks for newer versions" in ran.err
