"""An image without an image: its scripts, in folders of their own, beside stand-ins of the programs that they start."""

import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "envspec" / "carried"


class Image:
    """A folder that looks to the scripts like an image: a prefix with Python and stand-ins, and the carried files."""

    def __init__(self, folder: Path) -> None:
        self._started: list[subprocess.Popen[str]] = []
        self.carried = folder / "envspec"
        shutil.copytree(DATA, self.carried, ignore=shutil.ignore_patterns("__pycache__"))
        for path in ("__main__.py", *(f"envspec_check/{one}.py" for one in ("__init__", "capability", "lock", "nvml"))):
            (self.carried / "check" / path).parent.mkdir(parents=True, exist_ok=True)
            (self.carried / "check" / path).write_bytes((DATA.parents[1] / "check" / path).read_bytes())
        shutil.rmtree(self.carried / "services")
        (self.carried / "services").mkdir()
        self.prefix = folder / "env"
        (self.prefix / "bin").mkdir(parents=True)
        (self.prefix / "bin" / "python").symlink_to(sys.executable)
        (self.carried / "target.json").write_text('{"cuda": null, "spec": "demo"}')
        self.tmp, self.home = folder / "tmp", folder / "home"
        self.tmp.mkdir()
        self.home.mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "ENVSPEC_PREFIX": str(self.prefix),
            "ENVSPEC_TARGET": "cpu",
            # a network that is the machine's
            "SLURM_JOB_ID": "1",
        }

    def program(self, name: str, text: str) -> Path:
        """A stand-in for a program of the environment."""
        path = self.prefix / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def service(self, name: str, text: str | None = None) -> None:
        """The service's own script, or a stand-in for it."""
        target = self.carried / "services"
        if text is None:
            shutil.copy(DATA / "services" / f"{name}.sh", target)
            shutil.copy(DATA / "services" / "common.sh", target)
        else:
            (target / f"{name}.sh").write_text(text)

    def start(
        self, *arguments: str, script: str = "entrypoint.sh", shell: str = "sh", **env: str
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [shell, str(self.carried / script), *arguments],
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        """End what a failed test left running."""
        for process in self._started:
            with process:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)

    def run(
        self, *arguments: str, script: str = "entrypoint.sh", shell: str = "sh", **env: str
    ) -> tuple[int, str, str]:
        process = self.start(*arguments, script=script, shell=shell, **env)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Image]:
    made = Image(tmp_path)
    yield made
    made.close()
