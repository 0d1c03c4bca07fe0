"""A wheel's files in an image beside what uv installs of the same wheel."""

import csv
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.installs import PYTHON, pip_pin
from support.packages import Dist, wheel
from uv import find_uv_bin

from envspec.base.errors import IndexFailure
from envspec.image.layer import LayerEntry, in_order
from envspec.image.wheel import Scheme, wheel_entries

DATA = "many_things-1.0.data"
MANY = wheel(
    "many-things",
    "1.0",
    files={
        "many/__init__.py": b"def main(): pass\nclass Tool:\n    @staticmethod\n    def run(): pass\n",
        "many/päth.txt": "ünï".encode(),
        f"{DATA}/scripts/by-hand": b"#!python -u\nprint(1)\n",
        f"{DATA}/scripts/windowed": b"#!pythonw\nprint(1)\n",
        f"{DATA}/scripts/of-a-shell": b"#!/bin/sh\nexit 0\n",
        f"{DATA}/data/share/man/many.1": b"a page",
        f"{DATA}/data/etc/many/config": b"a setting",
        f"{DATA}/headers/many.h": b"int many;",
        f"{DATA}/purelib/pure.py": b"",
        f"{DATA}/platlib/plat.py": b"",
        "many_things-1.0.dist-info/entry_points.txt": (
            b"[console_scripts]\nmany = many:main\ntool=many:Tool.run [extra]\n"
            b"# a comment\n[gui_scripts]\nmany-window = many:main\n[other]\nnot = a:command\n"
        ),
    },
)


def entries(tmp_path: Path, dist: Dist, prefix: str = "/opt/env") -> dict[str, LayerEntry]:
    path = tmp_path / dist.file
    path.write_bytes(dist.content)
    found = in_order(wheel_entries(path, pip_pin(dist), Scheme(prefix, PYTHON)))
    return {entry.path: entry for entry in found if not entry.is_folder}


def content(entry: LayerEntry) -> bytes:
    assert entry.content is not None
    with entry.content() as file:
        return file.read()


def installed(tmp_path: Path, dist: Dist) -> Path:
    """The environment into which uv installed the wheel, with no Python to be found elsewhere."""
    prefix, path = tmp_path / "env", tmp_path / dist.file
    path.write_bytes(dist.content)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "cache")}
    uv = [find_uv_bin(), "--quiet", "--no-config", "--offline"]
    for command in (
        ["venv", "--python", sys.executable, str(prefix)],
        ["pip", "install", "--python", str(prefix), str(path)],
    ):
        subprocess.run([*uv, *command], env=env, check=True, capture_output=True, cwd=tmp_path)
    return prefix


def rows(text: bytes) -> dict[str, tuple[str, str]]:
    return {row[0]: (row[1], row[2]) for row in csv.reader(text.decode().splitlines())}


def test_every_file_is_where_uv_puts_it(tmp_path: Path) -> None:
    bare = {path.relative_to(tmp_path / "env") for path in installed_bare(tmp_path)}
    prefix = installed(tmp_path, MANY)
    own = entries(tmp_path, MANY, str(prefix))
    theirs = {
        path.relative_to(prefix).as_posix(): path
        for path in prefix.rglob("*")
        if path.is_file() and path.relative_to(prefix) not in bare and not path.is_symlink()
    }
    root = str(prefix).strip("/")
    ours = {path.removeprefix(f"{root}/"): entry for path, entry in own.items()}
    # uv says that it was asked for, and where from: an image is asked for nothing by hand
    uvs = ("/REQUESTED", "/direct_url.json", "/uv_cache.json", "/uv_build.json")
    left = {".lock", *(path for path in theirs if path.endswith(uvs))}
    assert set(ours) == set(theirs) - left
    for path, entry in ours.items():
        executable = bool(theirs[path].stat().st_mode & 0o111)
        assert bool(entry.mode & 0o111) == executable, path
        if path.endswith(("/RECORD", "/INSTALLER")) or path in ("bin/many", "bin/tool", "bin/many-window"):
            continue
        assert content(entry) == theirs[path].read_bytes(), path


def installed_bare(tmp_path: Path) -> list[Path]:
    """The files of an environment before anything is installed."""
    prefix = tmp_path / "env"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "cache")}
    command = [find_uv_bin(), "--quiet", "--no-config", "venv", "--python", sys.executable, str(prefix)]
    subprocess.run(command, env=env, check=True, capture_output=True, cwd=tmp_path)
    found = [path for path in prefix.rglob("*") if path.is_file()]
    subprocess.run(["rm", "-r", str(prefix)], check=True)
    return found


def test_the_record_is_true(tmp_path: Path) -> None:
    own = entries(tmp_path, MANY)
    site = Scheme("/opt/env", PYTHON).site
    (record,) = (entry for path, entry in own.items() if path.endswith("/RECORD"))
    listed = rows(content(record))
    assert {os.path.normpath(f"{site}/{path}") for path in listed} == set(own)
    for path, (digest, size) in listed.items():
        entry = own[os.path.normpath(f"{site}/{path}")]
        if entry is record:
            continue
        import base64

        data = content(entry)
        right = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert (digest, int(size)) == (f"sha256={right}", len(data) == entry.size and len(data)), path


def test_commands_run(tmp_path: Path) -> None:
    own = entries(tmp_path, MANY)
    assert content(own["opt/env/bin/by-hand"]) == b"#!/opt/env/bin/python\nprint(1)\n"
    assert content(own["opt/env/bin/of-a-shell"]).startswith(b"#!/bin/sh\n")
    tool = content(own["opt/env/bin/tool"]).decode()
    assert tool.startswith("#!/opt/env/bin/python\n") and "from many import Tool" in tool and "Tool.run()" in tool
    site = tmp_path / "site"
    (site / "many").mkdir(parents=True)
    (site / "many" / "__init__.py").write_bytes(b"def main():\n    return 7\n")
    (tmp_path / "many").write_bytes(content(own["opt/env/bin/many"]))
    ran = subprocess.run([sys.executable, str(tmp_path / "many")], env={"PYTHONPATH": str(site)}, check=False)
    assert ran.returncode == 7


@pytest.mark.parametrize(
    "line", ["../up = a:b", "x/y = a:b", "no-target = nothing", "code = os:system('true')", "= a:b"]
)
def test_an_entry_point_that_is_no_command_is_refused(line: str, tmp_path: Path) -> None:
    points = f"[console_scripts]\n{line}\n".encode()
    bad = wheel("bad", "1.0", files={"bad-1.0.dist-info/entry_points.txt": points})
    with pytest.raises(IndexFailure, match="can't be a command"):
        entries(tmp_path, bad)
