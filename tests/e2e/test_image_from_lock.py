"""The shipped cpu-py311 as an image straight from its lock: on a base that `--base-recipe` describes, run by buildah
and Apptainer as nobody special, with nothing to write to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.oci import Builder, entry, envspec, opened_builder, skip_without
from support.sif import torch_wheel

from envspec.errors import ToolError
from envspec.install.interpreter import find_interpreter

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the lock is for linux-64"),
]


def image(root: Path, *arguments: str) -> str:
    return envspec(root, "image", str(root / "specs" / "cpu-py311.toml"), *arguments)


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    skip_without()
    torch_wheel()
    folder = tmp_path_factory.mktemp("buildah")
    with opened_builder(folder, folder, "cpu", "") as made:
        yield made


@pytest.fixture(scope="module")
def base(root: Path, builder: Builder) -> Path:
    """The base that the recipe makes, as an OCI layout."""
    return builder.ready_base(image(root, "--base-recipe"))


@pytest.fixture(scope="module")
def archive(root: Path, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "image.tar"
    image(root, "--base", str(base), "-o", str(path))
    return path


def test_the_smoke_check_passes_in_the_image(builder: Builder, archive: Path) -> None:
    container = builder("from", f"oci-archive:{archive}").strip()
    ran = builder.run(container, *entry("sh", "-c", "id -u && python -c 'import sys; print(sys.prefix)'"))
    assert ran.stdout.split() == ["1000", "/opt/env"], ran.stderr
    ran = builder.run(container, *entry("smoke", "--quick"))
    assert ran.returncode == 0 and " 0 failed" in ran.stderr, ran.stderr[-3000:]


def apptainer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["apptainer", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer")
def test_apptainer_builds_and_runs_it_read_only(root: Path, base: Path, archive: Path, tmp_path: Path) -> None:
    sif = tmp_path / "image.sif"
    image(root, "--base", str(base), "--sif", str(sif))
    reports = tmp_path / "reports"
    reports.mkdir()
    reports.chmod(0o777)
    nobody = ("--containall", "--no-home", "--security", "uid:1000,gid:1000", "--bind", f"{reports}:/mnt")
    ran = apptainer("exec", *nobody, str(sif), "sh", "-c", "id -u; touch /opt/x || echo read-only")
    assert ran.stdout.split() == ["1000", "read-only"], ran.stderr
    ran = apptainer("run", *nobody, str(sif), "smoke", "--quick", "--json", "/mnt/report.json")
    assert ran.returncode == 0, ran.stderr[-3000:]
    report = json.loads((reports / "report.json").read_text())
    assert report["summary"]["verdict"] == "pass"
    labels = json.loads(apptainer("inspect", "--json", str(sif)).stdout)["data"]["attributes"]["labels"]
    assert report["lock_digest"] == labels["envspec.lock.digest"], "put together of what each layer says"


@pytest.mark.parametrize("version", ["3.10", "3.13"])
def test_another_python_makes_the_same_image(
    version: str, root: Path, base: Path, archive: Path, tmp_path: Path
) -> None:
    from uv import find_uv_bin

    env = tmp_path / "env"
    try:
        python = find_interpreter(version, os.environ)
    except ToolError:
        pytest.skip(f"no Python {version}")
    uv = [find_uv_bin(), "--quiet"]
    subprocess.run([*uv, "venv", "--python", str(python), str(env)], check=True)
    subprocess.run([*uv, "pip", "install", "--python", str(env), f"{root}[image]"], check=True)
    path = tmp_path / "image.tar"
    command = [str(env / "bin" / "envspec"), "image", str(root / "specs" / "cpu-py311.toml"), "--base", str(base)]
    ran = subprocess.run(
        [*command, "-o", str(path)], env={**os.environ, "TZ": "Asia/Tokyo"}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert path.read_bytes() == archive.read_bytes()
