"""A SIF from a bundle alone, by the real Apptainer in a network namespace without a network: the base, Debian with what
`--base-recipe` says, comes in the bundle, and the sources come as wheels."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.oci import BASE, opened_builder, skip_without
from support.packages import sdist, wheel

from envspec.lock.model import BuildPin

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.e2e,
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="the base has Python 3.11, and the lock is for this one"
    ),
    pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer"),
]

BACKEND = '[build-system]\nrequires = ["builder==1.0"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'
LOOK = """
import os, shutil, sys
from importlib.metadata import version
print(sys.prefix, *(version(name) for name in ("app", "lib", "slow")))
print([path for path in ("/layers", "/opt/bundle", "/opt/env/bin/c++") if os.path.exists(path)])
print([name for name in ("g++", "cc", "nvcc") if shutil.which(name)], os.environ["ENVSPEC_TARGET"])
"""


@pytest.fixture
def base(machine: Machine, tmp_path: Path) -> Path:
    """The base that the recipe makes, as an OCI layout."""
    skip_without()
    ran = machine.envspec("image", SPEC, "--base-recipe", status=0)
    recipe = "\n".join(f"FROM {BASE}" if line.startswith("FROM ") else line for line in ran.out.splitlines())
    folder = tmp_path / "recipe"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"{recipe}\n", encoding="utf-8")
    storage = tmp_path / "buildah"
    storage.mkdir()
    with opened_builder(storage, folder, "here", "") as builder:
        builder("bud", "--isolation", "chroot", "-t", "localhost/ready", "-f", str(folder / "Dockerfile"), str(folder))
        builder("push", "-q", "localhost/ready", f"oci:{tmp_path / 'layout'}:base")
    return tmp_path / "layout"


@pytest.fixture
def locked(machine: Machine, index: Index) -> Machine:
    app, lib, builder = wheel("app", "1.0", "lib"), wheel("lib", "1.0"), wheel("builder", "1.0")
    source = sdist("slow", "1.0", files={"pyproject.toml": BACKEND})
    index.add(app, lib, source, builder)
    built_with = (BuildPin("builder", "1.0", builder.file, builder.sha256, len(builder.content)),)
    slow = replace(pip_pin(source), built_with=built_with)
    write_lock(machine, [pip_pin(app), pip_pin(lib), slow], pip='allow-source = ["slow"]')
    return machine


def test_a_sif_from_a_bundle_alone(locked: Machine, base: Path, tmp_path: Path) -> None:
    ran = locked.envspec(
        "bundle", SPEC, "-o", "demo.tar", "--build-wheels", "--with-base", "--base", str(base), "--json", status=0
    )
    assert json.loads(ran.out)["built"] == ["slow"]
    folder = tmp_path / "carried over"
    with tarfile.open(locked.folder / "demo.tar") as tar:
        tar.extractall(folder, filter="data")
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS", "BASE"], cwd=folder, check=True)
    (tmp_path / "empty").mkdir()
    # nothing of the network, of the machine's /tmp, or of a cache
    closed = [f"--bind={tmp_path / 'empty'}:{place}:ro" for place in ("/tmp", "/var/tmp")]
    env = {**os.environ, "APPTAINER_CACHEDIR": str(tmp_path / "cache"), "APPTAINER_TMPDIR": str(tmp_path)}
    built = subprocess.run(
        ["unshare", "--net", "apptainer", "build", *closed, "--notest", "demo.sif", "apptainer.def"],
        cwd=folder, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr[-3000:]
    assert list((tmp_path / "empty").iterdir()) == []
    ran_inside = subprocess.run(
        ["apptainer", "run", "--containall", "--no-home", "demo.sif", "python", "-c", LOOK],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    assert ran_inside.stdout.splitlines() == ["/opt/env 1.0 1.0 1.0", "[]", "[] here"], ran_inside.stderr
