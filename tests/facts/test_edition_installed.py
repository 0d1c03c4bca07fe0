"""`pip install envspec-facts` beside an installed envspec: two real wheels in a fresh virtual environment."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest
from test_edition import edited, renamed

from envspec.facts.edition import MANIFEST
from envspec.resolve.uv.program import find_uv
from tools.refresh import edition as writer

NEW = '  { name = "Z900", capability = "12.0", kind = "datacentre", memory = [999], source = "nvidia" },\n'


def built(project: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.mark.slow
def test_an_older_envspec_learns_of_a_new_row(tmp_path: Path, root: Path) -> None:
    project = tmp_path / "envspec-facts"
    project.mkdir()
    for name in ("pyproject.toml", "README.md"):
        (project / name).write_bytes((root / "tools" / "publish" / "facts" / name).read_bytes())
    folder = project / "envspec_facts"
    writer.write(folder)
    edited(folder, "gpus.toml", lambda text: text.replace("\ngpus = [\n", "\ngpus = [\n" + NEW))
    renamed(folder, version="2099.2.3")
    (folder / MANIFEST).write_text(json.dumps(json.loads((folder / MANIFEST).read_text()), indent=1))
    facts, ours = built(project, tmp_path / "facts"), built(root, tmp_path / "envspec")
    with ZipFile(facts) as archive:
        assert not [name for name in archive.namelist() if name.endswith((".py", ".pth", ".so"))]

    place, env = tmp_path / "environment", {key: os.environ[key] for key in ("HOME", "PATH")}
    uv = find_uv(os.environ).executable
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(place)], env=env, check=True)
    (site,) = place.glob("lib/python*/site-packages")
    # envspec's dependencies are those of the tests' own environment, whose envspec a .pth doesn't bring along
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    def pip(*words: str) -> None:
        subprocess.run([uv, "pip", *words, "--python", str(place), "--quiet"], env=env, check=True)

    def envspec(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(place / "bin" / "envspec"), *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    pip("install", "--no-deps", "--offline", str(ours))
    assert envspec("gpus", "Z900").returncode == 2
    pip("install", "--no-deps", "--offline", str(facts))
    known = envspec("gpus", "Z900")
    assert known.returncode == 0 and "12.0" in known.stdout, known.stderr
    document = json.loads(envspec("facts", "--json").stdout)
    assert (document["version"], document["from"]) == ("2099.2.3", "envspec-facts")
    pip("uninstall", "envspec-facts")
    assert envspec("gpus", "Z900").returncode == 2
