"""A real headless Chromium, driven by playwright-core with keys and clicks, and axe-core to look for what keeps people
out. Both are npm packages, kept in the user's cache and never in the repository.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PACKAGES = ("playwright-core@1.65.1", "axe-core@4.14.1")
_NAMES = ("chromium", "chromium-browser", "google-chrome")


class Missing(Exception):
    """What a browser test lacks here, by name."""


class Browser:
    """The driver's process. `run` evaluates the body of an async function of `open`, `axe`, `given`, `told`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, code: str, **given: Any) -> Any:
        """What the code returns. Raises AssertionError with its error."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"code": code, "given": given}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the browser's driver ended"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["value"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A running browser. Raises Missing where chromium, node or npm's packages aren't to be had."""
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        raise Missing("chromium isn't installed")
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Missing("node and npm aren't installed")
    command = [node, str(Path(__file__).with_suffix(".mjs")), str(_packages(npm)), program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Browser(process)
        finally:
            assert process.stdin
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests of a module, which are skipped where there is none."""
    try:
        with chromium() as running:
            yield running
    except Missing as missing:
        pytest.skip(str(missing))


def _packages(npm: str) -> Path:
    """The folder with the npm packages in these versions, installed when it isn't there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "envspec-tests" / "-".join(PACKAGES).replace("@", "-")
    if not (folder / "ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund", *PACKAGES]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise Missing("npm can't install playwright-core and axe-core")
        (folder / "ready").touch()
    return folder
