"""Frameworks that are broken in one place: the check that should say so does, in the words that it should."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import envspec_check.checks  # noqa: F401
import pytest
import tomlkit
from envspec_check.interface import CHECKS
from envspec_check.lock import slice_digest
from support.smoke_env import CHECK, SECONDS, copied, run_one, site_packages
from uv import find_uv_bin

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.e2e]

MUTANTS = tomlkit.parse(Path(__file__).with_name("frameworks.toml").read_text(encoding="utf-8")).unwrap()["mutant"]

LINES = {"jax": "jax==0.10.2", "onnxruntime": "onnxruntime==1.32.0", "tensorflow": "tensorflow-cpu==2.21.0"}
"""The build for CPUs of each framework, of a release that has wheels for this project's own Python."""


@pytest.fixture(scope="module", params=LINES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A framework's name and an environment of it. Skipped where its wheels can't be had."""
    prefix = tmp_path_factory.mktemp("framework") / "env"
    uv = find_uv_bin()
    subprocess.run([uv, "-q", "venv", "--python", sys.executable, str(prefix)], check=True, timeout=SECONDS)
    words = [uv, "-q", "pip", "install", "--python", str(prefix), "--only-binary", ":all:", LINES[request.param]]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode:
        pytest.skip(f"{LINES[request.param]} can't be had here: {done.stderr.strip().splitlines()[-1]}")
    return request.param, prefix


def target_json(folder: Path, line: str, cuda: str | None, *others: str) -> Path:
    """A target that locks a framework, which its spec asks for, and others."""
    target = {"platform": "linux-64", **({"cuda": cuda, "architectures": ["sm_90"]} if cuda else {})}
    pip = [{"name": one[0], "version": one[1], "direct": True} for one in (it.split("==") for it in (line, *others))]
    lock = {"lock-version": 5, "env": {"name": "demo"}, "targets": {"here": target}, "pip": pip}
    document = {"schema": 2, "target": "here", "lock": lock, "lock_digest": slice_digest(lock)}
    path = folder / "target.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_the_builds_for_cpus_pass(made: tuple[str, Path], tmp_path: Path) -> None:
    """And what needs a GPU is skipped by name."""
    framework, prefix = made
    report = tmp_path / "report.json"
    words = ["--config", target_json(tmp_path, LINES[framework], None), "--json", report, "--scratch", tmp_path]
    command = [prefix / "bin" / "python", "-I", CHECK, *words, "--only", framework, "--quick"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    status = {one["name"]: one["status"] for one in json.loads(report.read_text(encoding="utf-8"))["checks"]}
    mine = {name for name in CHECKS if name.startswith(f"{framework}.")}
    assert set(status) == mine
    assert {name for name in mine if status[name] == "skip"} == {name for name in mine if CHECKS[name].needs == "gpu"}


def test_each_is_told_when_it_is_broken(made: tuple[str, Path], tmp_path: Path, subtests: pytest.Subtests) -> None:
    framework, prefix = made
    for mutant in MUTANTS:
        if mutant["framework"] != framework:
            continue
        with subtests.test(mutant["broken"]):
            folder = tmp_path / re.sub(r"\W+", "-", mutant["broken"])
            folder.mkdir()
            env = broken(prefix, folder, mutant)
            config = target_json(folder, LINES[framework], mutant.get("cuda"))
            found = run_one(env, config, mutant["check"], folder, mutant.get("variables", {}))
            assert found.get("status") == "fail" or "error" in found, found
            assert mutant["words"] in (found.get("reason") or found["error"])


def broken(prefix: Path, folder: Path, mutant: dict[str, Any]) -> Path:
    """The environment itself, or a copy of it with code at the end of one file, or in a new one."""
    if "code" not in mutant:
        return prefix
    env = copied(prefix, folder / "env")
    append(site_packages(env) / mutant.get("new", Path(mutant["framework"], mutant.get("file", ""))), mutant["code"])
    return env


def append(path: Path, code: str) -> None:
    """Put code at the end of a file, or into a new one."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # it may be a link to the file of the environment that was copied
    path.write_text(f"{text}\n{code}\n", encoding="utf-8")


TOGETHER = (
    ("jax/__init__.py", "", "", ""),
    (
        "torch/__init__.py",
        "_from_dlpack = from_dlpack\ndef from_dlpack(array):\n    return _from_dlpack(array) + 1",
        "together.exchange",
        "an array of jax holds other numbers when torch reads it",
    ),
    (
        "jax/numpy/__init__.py",
        "_matmul = matmul\ndef matmul(a, b, **options):\n    return _matmul(a, b, **options) * 1.001",
        "together.compute",
        "jax, of torch, then jax in one process, is off by",
    ),
)
"""A file of a framework, code at its end, and the check that says so: of the first nothing is wrong."""


@pytest.mark.parametrize(("file", "code", "check", "words"), TOGETHER)
def test_torch_and_jax_in_one_process(
    smoke_env: Path, tmp_path: Path, file: str, code: str, check: str, words: str
) -> None:
    """By the torch of the shipped lock, and JAX beside it."""
    prefix = copied(smoke_env, tmp_path / "env")
    line = [find_uv_bin(), "-q", "pip", "install", "--python", str(prefix), "--only-binary", ":all:", LINES["jax"]]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=SECONDS)
    if done.returncode:
        pytest.skip(f"{LINES['jax']} can't be had here: {done.stderr.strip().splitlines()[-1]}")
    append(site_packages(prefix) / file, code)
    config = target_json(tmp_path, LINES["jax"], None, "torch==2.0")
    for name in (check,) if check else ("together.compute", "together.exchange"):
        found = run_one(prefix, config, name, tmp_path, {})
        assert found["status"] == ("fail" if check else "pass"), found
        assert words in (found["reason"] or "")
