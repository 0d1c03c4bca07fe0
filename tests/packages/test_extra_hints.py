"""The extras: what is missing is told before work starts, with a command that works for this very installation."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest
import tomli
from packaging.requirements import Requirement
from uv import find_uv_bin

from envspec.base.errors import ToolError
from envspec.packages import own_extras as extras


class Installed:
    """An installed envspec: its requirements, and where it came from."""

    requires = ("click>=8.1", "py-rattler<0.29,>=0.28; extra == 'conda'", 'zstandard>=0.25; extra == "image"')

    def __init__(self, origin: Mapping[str, object] | None) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        return json.dumps(self.origin) if name == "direct_url.json" and self.origin is not None else None

    def locate_file(self, name: str) -> Path:
        return Path(sys.prefix, "lib")


CLONE = {"url": "file:///src/envspec", "dir_info": {}}
GIT = {"url": "https://git.example/envspec", "vcs_info": {"vcs": "git", "commit_id": "abc"}}


@pytest.mark.parametrize(
    ("mark", "origin", "told"),
    [
        ("uv-receipt.toml", CLONE, "uv tool install --force 'envspec[conda] @ file:///src/envspec'"),
        ("uv-receipt.toml", GIT, "uv tool install --force 'envspec[conda] @ git+https://git.example/envspec@abc'"),
        ("uv-receipt.toml", None, "uv tool install --force 'envspec[conda]'"),
        ("pipx_metadata.json", CLONE, "pipx inject envspec 'py-rattler<0.29,>=0.28'"),
        ("pyvenv.cfg", CLONE, f"{shlex.quote(sys.executable)} -m pip install 'py-rattler<0.29,>=0.28'"),
    ],
)
def test_each_way_of_installing_has_its_command(
    mark: str, origin: dict[str, object] | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / mark).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(metadata, "distribution", lambda name: Installed(origin))
    monkeypatch.setattr(extras, "find_spec", lambda module: object() if module == "pip" else None)
    assert extras.how_to_get("conda") == told


def test_the_table_is_pyprojects(root: Path) -> None:
    listed = tomli.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, modules in extras.MODULES.items():
        assert {Requirement(line).name for line in listed[extra]} == set(modules.values())


def test_no_hint_asks_an_index_for_envspec(root: Path) -> None:
    """No index has it, and whoever takes the name there would be run."""
    texts = [*(root / "envspec").rglob("*.py"), *(root / "envspec").rglob("*.toml"), *(root / "docs").glob("**/*.md")]
    assert [path for path in texts if "install 'envspec" in path.read_text(encoding="utf-8")] == []


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(ToolError, match=r"^images need zstandard, which isn't installed$") as caught:
        extras.require_extra("image", "images need")
    assert caught.value.hint == extras.how_to_get("image")


SPEC = """
[env]
python = "3.12"
[conda]
channels = ["conda-forge"]
dependencies = ["b =2[build=cuda*]"]
[targets.cpu]
platform = "linux-64"
"""


@pytest.mark.nightly
@pytest.mark.network
@pytest.mark.e2e
@pytest.mark.parametrize("way", ["tool", "venv", "pip"])
def test_the_hint_works_in_a_fresh_home(way: str, root: Path, tmp_path: Path) -> None:
    """The refusal's hint, pasted, installs the extra: the same command asks for nothing more."""
    env = {
        "HOME": str(tmp_path),
        "PATH": f"{tmp_path / '.local/bin'}:{Path(find_uv_bin()).parent}:{os.environ['PATH']}",
    }
    env |= {name: value for name, value in os.environ.items() if name.startswith(("UV_", "PIP_", "SSL_"))}
    (tmp_path / "a.toml").write_text(SPEC)

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600)

    source, python = shlex.quote(str(root)), shlex.quote(sys.executable)
    ways = {
        "tool": (f"uv tool install --python {python} {source}", "envspec"),
        "venv": (f"uv venv --python {python} v && uv pip install --python v {source}", "v/bin/envspec"),
        "pip": (f"{python} -m venv v && v/bin/pip install {source}", "v/bin/envspec"),
    }
    install, envspec = ways[way]
    assert run(install).returncode == 0
    refused = run(f"{envspec} lock a.toml --offline --json")
    hint = json.loads(refused.stdout)["errors"][0]["hint"]
    installed = run(hint)
    assert refused.returncode == 3 and installed.returncode == 0, (refused.stdout, hint, installed.stderr)
    assert "py-rattler" not in run(f"{envspec} lock a.toml --offline --json").stdout
