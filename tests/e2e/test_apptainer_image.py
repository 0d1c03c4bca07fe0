"""A SIF from the exported definitions, by the real Apptainer: what is in it, what it may do, and what it says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.debian import debian_tree
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import sdist, wheel
from support.sif import built_sif, shipped_recipe, skip_without_tools

from envspec.lock.model import BuildPin

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

skip_without_tools()

_LOOK = """
import json, os, sys, torch
from importlib.metadata import distributions
def writable(path):
    try:
        open(path, "w").close()
    except OSError:
        return False
    return True
print(json.dumps({
    "torch": torch.__version__, "prefix": sys.prefix, "target": os.environ["ENVSPEC_TARGET"],
    "user site": os.environ["PYTHONNOUSERSITE"], "path": os.environ["PATH"].split(":")[0],
    "writable": [path for path in ("/opt/env/x", "/opt/envspec/x", "/workspace/x", "/usr/x") if writable(path)],
    "carried": sorted(os.listdir("/opt/envspec")), "uv": os.path.exists("/usr/local/bin/uv"),
    "requirements": os.path.exists("/layers"),
    "packages": len({d.metadata["name"] for d in distributions(path=[p for p in sys.path if "site-packages" in p])}),
}))
"""


def run(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, **(env or {})}
    return subprocess.run(
        ["apptainer", *arguments], cwd=cwd, capture_output=True, text=True, env=given, stdin=subprocess.DEVNULL
    )


@pytest.fixture(scope="module")
def sif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_sif(shipped_recipe("cpu-py311", "cpu"), tmp_path_factory.mktemp("sif"))


def test_what_is_in_it(sif: Path, tmp_path: Path) -> None:
    """Read-only, with no home of the host, and nothing of its environment."""
    import json

    leak = {"PYTHONPATH": str(tmp_path), "PYTHONUSERBASE": str(tmp_path)}
    ran = run("exec", "--containall", "--no-home", str(sif), "python", "-c", _LOOK, cwd=tmp_path, env=leak)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["torch"] == "2.13.0+cpu" and found["prefix"] == "/opt/env" and found["path"] == "/opt/env/bin"
    assert found["target"] == "cpu" and found["user site"] == "1"
    assert found["writable"] == []
    assert found["carried"] == [
        "SHA256SUMS", "bytecode.py", "check", "entrypoint.sh", "healthcheck.sh", "preflight.py", "requirements",
        "target.json", "warned.sh",
    ]  # fmt: skip
    assert not found["uv"] and not found["requirements"]
    assert found["packages"] == shipped_packages()


def shipped_packages() -> int:
    from envspec.lock.read import load

    lock = load(Path(__file__).resolve().parents[2] / "locks" / "cpu-py311" / "envspec.lock")
    return len(next(iter(lock)).pins)


def test_it_says_what_it_is(sif: Path, tmp_path: Path) -> None:
    labels = run("inspect", "--labels", str(sif), cwd=tmp_path).stdout
    assert "envspec.target: cpu" in labels
    assert "apptainer test IMAGE" in run("run-help", str(sif), cwd=tmp_path).stdout
    assert run("inspect", "--list-apps", str(sif), cwd=tmp_path).stdout.split() == ["smoke"]


def test_its_test_is_the_smoke_check(sif: Path, tmp_path: Path) -> None:
    ran = run("test", "--containall", "--no-home", str(sif), cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    assert " 0 failed" in ran.stdout + ran.stderr


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="the base image has Python 3.11, and the lock is for this one"
)
def test_offline_from_a_bundle(machine: Machine, index: Index, tmp_path: Path) -> None:
    """`Bootstrap: localimage`, and a network namespace without a network. What is compiled finds its build backend."""
    app, lib, builder = wheel("app", "1.0", "lib"), wheel("lib", "1.0"), wheel("builder", "1.0")
    backend = '[build-system]\nrequires = ["builder==1.0"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    source = sdist("slow", "1.0", files={"pyproject.toml": backend})
    index.add(app, lib, source, builder)
    built_with = (BuildPin("builder", "1.0", builder.file, builder.sha256, len(builder.content)),)
    slow = replace(pip_pin(source), built_with=built_with)
    write_lock(machine, [pip_pin(app), pip_pin(lib), slow], pip='allow-source = ["slow"]')
    assert machine.envspec("bundle", SPEC, "-o", "r/here/bundle.tar").status == 0
    machine.envspec("export", SPEC, "--format", "apptainer", "-o", "r", status=0)
    folder = machine.folder / "r" / "here"
    made = run("build", "--force", "base.sif", str(debian_tree()), cwd=folder)
    assert made.returncode == 0, made.stderr
    (folder / "build.sif").symlink_to("base.sif")
    env = dict(os.environ)
    (folder / "empty").mkdir()
    closed = [f"--bind={folder / 'empty'}:{place}:ro" for place in ("/tmp", "/var/tmp")]
    built = subprocess.run(
        ["unshare", "--net", "apptainer", "build", *closed, "--notest", "here/out.sif", "here/apptainer-offline.def"],
        cwd=folder.parent, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-3000:]
    code = """
import os, sys
from importlib.metadata import version
print(sys.prefix, *(version(name) for name in ("app", "lib", "slow")))
print(os.environ["VIRTUAL_ENV"], "CONDA_PREFIX" in os.environ, open(os.environ["HOME"] + "/x", "w").name)
"""
    # as a job runs it: no home, the folder as /workspace, and another environment active outside
    words = ["--no-home", "--bind", f"{folder}:/workspace", "out.sif", "python", "-c", code]
    callers = {"CONDA_PREFIX": "/callers", "VIRTUAL_ENV": "/callers", "APPTAINERENV_TMPDIR": "/workspace"}
    ran_inside = run("run", *words, cwd=folder, env=callers)
    home = f"/workspace/envspec-home.{os.getuid()}/x"
    assert ran_inside.stdout.split() == ["/opt/env", "1.0", "1.0", "1.0", "/opt/env", "False", home], ran_inside.stderr
