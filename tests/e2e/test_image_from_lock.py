"""The shipped cpu-py311 as an image straight from its lock: on a base that `--base-recipe` describes, run by buildah
and Apptainer as nobody special, with nothing to write to. Its Python is a stand-in of this machine's own, as the real
build can't be reached here."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.installs import SUBDIR
from support.oci import Builder, entry, opened_builder, skip_without
from support.other_python import envspec_of
from support.python_build import standalone_build
from support.shipped_project import ShippedProject, shipped_project
from support.sif import torch_wheel

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.e2e,
    pytest.mark.skipif(SUBDIR != "linux-64", reason="the lock is for linux-64"),
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShippedProject]:
    skip_without()
    torch_wheel()
    build = standalone_build(tmp_path_factory)
    with shipped_project("cpu-py311", build, tmp_path_factory.mktemp("shipped")) as made:
        yield made


@pytest.fixture(scope="module")
def builder(project: ShippedProject, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builder]:
    with opened_builder(tmp_path_factory.mktemp("buildah"), project.folder, "cpu", "") as made:
        yield made


@pytest.fixture(scope="module")
def base(project: ShippedProject, builder: Builder) -> Path:
    """The base that the recipe makes, as an OCI layout."""
    return builder.ready_base(project.envspec("image", "--base-recipe"))


@pytest.fixture(scope="module")
def archive(project: ShippedProject, base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("image") / "image.tar"
    project.envspec("image", "--base", str(base), "-o", str(path))
    return path


def test_the_smoke_check_passes_in_the_image(builder: Builder, archive: Path) -> None:
    container = builder("from", f"oci-archive:{archive}").strip()
    ran = builder.run(container, *entry("sh", "-c", "id -u && python -c 'import sys; print(sys.prefix)'"))
    assert ran.stdout.split() == ["1000", "/opt/env"], ran.stderr
    ran = builder.run(container, *entry("smoke", "--quick"))
    assert ran.returncode == 0 and " 0 failed" in ran.stderr, ran.stderr[-3000:]


def test_an_image_without_a_compiler_says_so(
    project: ShippedProject, builder: Builder, base: Path, tmp_path: Path
) -> None:
    """Refused on a base without one, by name; with `--without compile` smoke skips what needs it, and passes."""
    recipe = project.envspec("image", "--base-recipe")
    assert " g++ " in recipe
    poor = builder.ready_base(recipe.replace(" g++ ", " "), "poor")
    with pytest.raises(AssertionError, match=r"lacks g\+\+, and nothing is installed into it"):
        project.envspec("image", "--base", str(poor), "-o", str(tmp_path / "image.tar"))
    project.envspec("image", "--base", str(poor), "--without", "compile", "-o", str(tmp_path / "image.tar"))
    container = builder("from", f"oci-archive:{tmp_path}/image.tar").strip()
    ran = builder.run(container, *entry("smoke", "--quick", "--json", "/tmp/report.json"))
    assert ran.returncode == 0 and " 0 failed" in ran.stderr, ran.stderr[-3000:]
    report = json.loads(builder.run(container, "cat", "/tmp/report.json").stdout)
    told = {one["name"]: (one["status"], one["reason"]) for one in report["checks"] if one["group"] == "compile"}
    reason = "the image was made without what `compile` needs (envspec image --without)"
    assert told and set(told.values()) == {("skip", reason)}
    assert report["summary"]["verdict"] == "pass" and "compile.eager" in ran.stderr


def apptainer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["apptainer", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.skipif(shutil.which("apptainer") is None, reason="no apptainer")
def test_apptainer_builds_and_runs_it_read_only(project: ShippedProject, base: Path, tmp_path: Path) -> None:
    sif = tmp_path / "image.sif"
    project.envspec("image", "--base", str(base), "--sif", str(sif))
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
    version: str, project: ShippedProject, base: Path, archive: Path, tmp_path: Path
) -> None:
    path = tmp_path / "image.tar"
    program = [str(envspec_of(version, tmp_path / "env"))]
    project.envspec("image", "--base", str(base), "-o", str(path), program=program, TZ="Asia/Tokyo")
    assert path.read_bytes() == archive.read_bytes()
