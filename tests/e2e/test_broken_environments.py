"""Environments that are really broken, each in one way: the check that should tell fails, no other does.

Each starts as the shipped lock's own environment, copied by hard links; what is broken in it is replaced, never written
to. The checks run in it as they do in an image: by its Python, as one file, with no envspec.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.smoke_env import CHECK, CONFIG, changed_config, copied, site_packages

pytestmark = [pytest.mark.slow, pytest.mark.network, pytest.mark.e2e]

KEPT_OUT = ("PYTHON", "LD_", "VIRTUAL_ENV", "CONDA", "OMP_", "CC", "CXX")
"""Variables of whoever runs the tests that would reach into the environment."""


@pytest.fixture
def env(smoke_env: Path, tmp_path: Path) -> Path:
    """A copy of the environment, to be broken."""
    return copied(smoke_env, tmp_path / "env")


def replace(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change a file of a copy, and not the one that it is a link to."""
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(change(content))


def checked(
    env: Path,
    folder: Path,
    groups: Sequence[str],
    *,
    before: Sequence[str] = (),
    words: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    config: Path = CONFIG,
) -> dict[str, dict[str, Any]]:
    """The checks that failed, by name. `before` are words before the program's."""
    report = folder / "check.json"
    only = [word for group in groups for word in ("--only", group)]
    program = [str(env / "bin/python"), str(CHECK), "--config", str(config), "--quick"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(KEPT_OUT)}
    done = subprocess.run(
        [*before, *program, "--json", str(report), *only, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**clean, **(variables or {})},
        timeout=600,
    )
    assert report.is_file(), done.stderr
    found = json.loads(report.read_text())
    assert done.returncode == (1 if found["summary"]["failed"] else 0), done.stderr
    return {one["name"]: one for one in found["checks"] if one["status"] == "fail"}


def test_the_whole_environment_passes(smoke_env: Path, tmp_path: Path) -> None:
    assert checked(smoke_env, tmp_path, ["static", "operators", "dataloader", "collectives"]) == {}


@pytest.mark.nightly
def test_another_torch_than_the_locked(smoke_env: Path, tmp_path: Path) -> None:
    config = changed_config(tmp_path / "target.json", '"2.13.0+cpu"', '"2.12.0+cpu"')
    failed = checked(smoke_env, tmp_path, ["static"], config=config)
    assert set(failed) == {"static.distributions", "static.torch"}
    assert failed["static.torch"]["reason"] == "torch is 2.13.0+cpu, locked is 2.12.0+cpu"
    assert failed["static.torch"]["remedy"] == "install the environment again from its lock"


@pytest.mark.nightly
def test_another_libstdcxx_first_on_the_library_path(smoke_env: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc is missing")
    (tmp_path / "none.c").write_text("int none(void) { return 0; }\n")
    library = tmp_path / "libstdc++.so.6"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "none.c")], check=True)
    failed = checked(smoke_env, tmp_path, ["static"], variables={"LD_LIBRARY_PATH": str(tmp_path)})
    assert set(failed) == {"static.runtimes", "static.import"}
    assert failed["static.runtimes"]["reason"] == f"LD_LIBRARY_PATH brings {library}, which is no libstdc++"
    assert "LD_LIBRARY_PATH" in failed["static.runtimes"]["remedy"]
    assert "LD_LIBRARY_PATH" in failed["static.import"]["remedy"]


def user_site(folder: Path) -> Path:
    """A user site with a package that the environment has in another version."""
    user = folder / "lib/python3.11/site-packages"
    info = user / "filelock-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: filelock\nVersion: 1.0\n")
    (user / "filelock.py").write_text("FileLock = None\n")
    return user


@pytest.mark.nightly
def test_a_package_of_the_user_site(env: Path, tmp_path: Path) -> None:
    user = user_site(tmp_path / "user")
    setting = b"include-system-site-packages = "
    replace(env / "pyvenv.cfg", lambda text: text.replace(setting + b"false", setting + b"true"))
    failed = checked(env, tmp_path, ["static"], variables={"PYTHONUSERBASE": str(tmp_path / "user")})
    assert set(failed) == {"static.isolation"}
    assert f"{user} is the user site" in failed["static.isolation"]["reason"]
    assert "filelock 1.0" in failed["static.isolation"]["reason"]
    assert "export PYTHONNOUSERSITE=1" in failed["static.isolation"]["remedy"]


@pytest.mark.nightly
def test_a_package_by_pythonpath(smoke_env: Path, tmp_path: Path) -> None:
    path = user_site(tmp_path)
    failed = checked(smoke_env, tmp_path, ["static"], variables={"PYTHONPATH": str(path)})
    assert set(failed) == {"static.isolation"}
    assert failed["static.isolation"]["remedy"] == "unset PYTHONPATH"


@pytest.mark.nightly
def test_no_c_compiler(smoke_env: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    failed = checked(smoke_env, tmp_path, ["compile"], variables={"PATH": str(tmp_path / "bin")})
    assert set(failed) == {"compile.eager"}
    assert failed["compile.eager"]["reason"] == "torch.compile needs a C and C++ compiler, and there is none"
    assert "apt install g++" in failed["compile.eager"]["remedy"]


@pytest.mark.nightly
def test_a_dev_shm_of_one_mebibyte(smoke_env: Path, tmp_path: Path) -> None:
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    small = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$@"'
    before = [*unshare, "sh", "-c", small, "sh"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*before, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("unshare can't mount a file system here")
    failed = checked(smoke_env, tmp_path, ["dataloader"], before=before)
    assert set(failed) == {"dataloader.shared_memory"}
    reason = failed["dataloader.shared_memory"]["reason"]
    assert reason.startswith("/dev/shm has 1.0 MiB; 2 workers need 64, and workers ran out of shared memory")
    assert "--shm-size" in failed["dataloader.shared_memory"]["remedy"]
    assert "--ipc=host" in failed["dataloader.shared_memory"]["remedy"]


def recorded_anew(env: Path, name: str) -> None:
    """RECORD as an installer of the changed file would have written it."""
    content = (site_packages(env) / name).read_bytes()
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    (record,) = site_packages(env).glob("torch-*.dist-info/RECORD")
    lines = [line for line in record.read_text().splitlines() if not line.startswith(f"{name},")]
    replace(record, lambda _: "\n".join([*lines, f"{name},sha256={digest},{len(content)}", ""]).encode())


SLOW_TO_KILL = b"""
import multiprocessing.process, time
_kill = multiprocessing.process.BaseProcess.kill
multiprocessing.process.BaseProcess.kill = lambda self: (_kill(self), time.sleep(0.5))
"""
"""Time for torch's handler of SIGCHLD, which raises that a worker was killed: by chance, it would run later."""


@pytest.mark.nightly
def test_a_worker_that_hangs(env: Path, tmp_path: Path) -> None:
    name = "torch/utils/data/_utils/worker.py"
    start, hang = (
        b"def _worker_loop(",
        SLOW_TO_KILL + b"def _worker_loop(*_):\n    time.sleep(3600)\n\n\ndef _unused(",
    )
    replace(site_packages(env) / name, lambda text: text.replace(start, hang, 1))
    recorded_anew(env, name)
    failed = checked(env, tmp_path, ["static", "dataloader"], words=["--timeout", "12"])
    assert set(failed) == {"dataloader.workers", "dataloader.shared_memory"}
    assert failed["dataloader.workers"]["reason"] == "a worker gave nothing for 4 s: it hangs"
    assert "py-spy" in failed["dataloader.workers"]["remedy"]


@pytest.mark.nightly
def test_a_wheel_file_that_was_cut_short(env: Path, tmp_path: Path) -> None:
    path = site_packages(env) / "sympy/parsing/sympy_parser.py"
    replace(path, lambda content: content[: len(content) // 2])
    failed = checked(env, tmp_path, ["static"])
    assert set(failed) == {"static.files"}
    assert f"{path} of sympy" in failed["static.files"]["reason"]
    assert "is cut short" in failed["static.files"]["reason"]
    assert "install the package again" in failed["static.files"]["remedy"]


@pytest.mark.nightly
def test_a_library_that_was_cut_short(env: Path, tmp_path: Path) -> None:
    path = site_packages(env) / "torch/lib/libtorch_python.so"
    replace(path, lambda content: content[: len(content) // 2])
    failed = checked(env, tmp_path, ["static", "operators"])
    assert set(failed) == {"static.files", "static.import"}
    assert str(path) in failed["static.files"]["reason"]
    assert "static.files" in failed["static.import"]["remedy"]


# -- training: NaN loss, a checkpoint without optimizer state ----------------------------------------------------------
