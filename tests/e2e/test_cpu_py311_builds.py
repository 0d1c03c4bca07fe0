"""The shipped cpu-py311, built anew as an OCI image, a SIF and a Nix environment, and trained in each.

Each build's digest and the whole report of its smoke check stay below `.scratch/builds/`, for whoever wants to see what
was proved: `<kind>.json` is `{"digest": …, "check": …}`.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from flakes import checkout as checkout, files as files, host, locks as locks
from support.nix import Files, Nix, flake_in
from support.oci import entry, opened_builder, skip_without, torch_mirror
from support.sif import TOOLS, built_sif, shipped_recipe
from test_nix_environments import downloaded_for, patching as patching

from envspec.export.plan import encode
from envspec.lock.model import Lock

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.e2e,
    pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the lock is for Python 3.11"),
    pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="the lock is for linux-64"),
]


@pytest.fixture(scope="module")
def kept(root: Path) -> Path:
    folder = root / ".scratch" / "builds"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def proved(kept: Path, kind: str, digest: str, report: Any) -> None:
    """Keep what was proved, and hold the report to it."""
    (kept / f"{kind}.json").write_text(json.dumps({"digest": digest, "check": report}, indent=1), encoding="utf-8")
    summary = report["summary"]
    assert summary["verdict"] == "pass" and summary["failed"] == 0, summary
    passed = {check["name"] for check in report["checks"] if check["status"] == "pass"}
    assert {"static.distributions", "training.fp32", "determinism.resume", "compile.eager"} <= passed


def test_the_oci_image(kept: Path, tmp_path: Path) -> None:
    skip_without()
    (tmp_path / "mirror").mkdir()
    (tmp_path / "buildah").mkdir()
    report = tmp_path / "report"
    for path, text in shipped_recipe("cpu-py311", "cpu", "dockerfile").items():
        (tmp_path / "recipe" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "recipe" / path).write_bytes(encode(text))
    with (
        torch_mirror(tmp_path / "mirror") as mirror,
        opened_builder(tmp_path / "buildah", tmp_path / "recipe", "cpu", mirror) as builder,
    ):
        builder.build("localhost/cpu-py311", "--no-cache")
        (digest,) = json.loads(builder("images", "--json", "--digests", "localhost/cpu-py311"))
        container = builder("from", "localhost/cpu-py311").strip()
        ran = builder.run(container, *entry("smoke", "--json", "/workspace/report.json"))
        assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
        shutil.copy(Path(builder("mount", container).strip()) / "workspace" / "report.json", report)
        builder("umount", container)
    proved(kept, "oci", digest["digest"], json.loads(report.read_text(encoding="utf-8")))


@pytest.mark.skipif(any(shutil.which(tool) is None for tool in TOOLS), reason=f"one of {', '.join(TOOLS)} is missing")
def test_the_sif(kept: Path, tmp_path: Path) -> None:
    sif = built_sif(shipped_recipe("cpu-py311", "cpu"), tmp_path)
    command = ["apptainer", "run", "--containall", "--no-home", "--bind", f"{tmp_path}:/mnt", str(sif)]
    smoke = ["smoke", "--json", "/mnt/report.json"]
    ran = subprocess.run([*command, *smoke], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    digest = hashlib.sha256(sif.read_bytes()).hexdigest()
    proved(kept, "sif", f"sha256:{digest}", json.loads((tmp_path / "report.json").read_text(encoding="utf-8")))


@pytest.mark.skipif(shutil.which("nix") is None, reason="nix isn't installed")
def test_the_nix_environment(
    patching: Nix, checkout: Path, files: Files, locks: dict[str, Lock], kept: Path, tmp_path: Path
) -> None:
    recipes = checkout / "recipes" / "cpu-py311"
    files.content = downloaded_for(patching, "cpu", locks["cpu-py311"].targets[0], recipes)
    patching.nixpkgs(host(files))
    result = patching.build("cpu", cwd=recipes)
    told = patching.run("path-info", "--json", result)
    report = tmp_path / "report.json"
    ran = patching.flake("run", f"{flake_in(recipes)}#cpu-check", "--", "--json", report, cwd=recipes)
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-3000:]
    paths = json.loads(told.stdout)
    (known,) = paths if isinstance(paths, list) else paths.values()
    proved(kept, "nix", known["narHash"], json.loads(report.read_text(encoding="utf-8")))
