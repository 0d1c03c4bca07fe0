"""The service `tensorboard` with a real TensorBoard: only who knows its path gets an answer."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.machine import ROOT
from support.ports import free_ports

from envspec.resolve.uv.program import find_uv

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.e2e]

SERVICES = ROOT / "envspec" / "carried"
TOKEN = "a-Path_that-nobody-guesses"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tensorboard") / "env"
    uv = str(find_uv(os.environ).executable)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(folder)], check=True)
    subprocess.run([uv, "pip", "install", "-q", "--python", str(folder), "tensorboard", "setuptools<82"], check=True)
    return folder


@pytest.fixture
def service(prefix: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str], str]]:
    given = {
        **{"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        **{"ENVSPEC_PREFIX": str(prefix), "ENVSPEC_BIND": "127.0.0.1", "TENSORBOARD_PORT": str(free_ports(1)[0])},
        **{"TENSORBOARD_LOGDIR": str(tmp_path), "TENSORBOARD_TOKEN": TOKEN},
    }
    script = str(SERVICES / "services" / "tensorboard.sh")
    with subprocess.Popen(["sh", script], env=given, stderr=subprocess.PIPE, text=True) as process:
        yield process, given, f"http://127.0.0.1:{given['TENSORBOARD_PORT']}"
        process.terminate()


def status(url: str) -> int | None:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def test_only_who_knows_its_path_gets_an_answer(
    service: tuple[subprocess.Popen[str], dict[str, str], str], tmp_path: Path
) -> None:
    process, given, address = service
    end = time.monotonic() + 60
    while status(f"{address}/{TOKEN}/") != 200:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.2)
    assert status(f"{address}/") == status(f"{address}/data/runs") == 404
    assert status(f"{address}/{TOKEN}/data/runs") == 200
    shown = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert TOKEN not in shown
    (tmp_path / f"envspec-services.{os.getuid()}").write_text("tensorboard\n")
    assert subprocess.run(["sh", str(SERVICES / "healthcheck.sh")], env=given).returncode == 0
    process.terminate()
    assert process.wait(30) == 0 and list(tmp_path.glob("envspec-????????")) == []
    assert (
        subprocess.run(["sh", str(SERVICES / "healthcheck.sh")], env=given, stderr=subprocess.DEVNULL).returncode == 1
    )
