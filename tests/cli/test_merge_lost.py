"""A merge that loses a version against a side of it: `lock` says so, and `diff` rates it."""

import json
import subprocess
from pathlib import Path

import pytest
from cli_project import Envspec, Project, without_settings
from diff_git import git, in_git
from support.index import Index
from support.packages import wheel

pytest_plugins = ["cli_fixtures"]

PATH = "specs/demo.toml"
SPEC = """\
[env]
name = "demo"
python = "3.12"
[pip]
dependencies = [
  "lib{lib}",
  #
  #
  #
{other}
]
[targets.a]
platform = "linux-64"
"""


@pytest.mark.slow
@pytest.mark.parametrize("conflict", [False, True], ids=["clean", "conflict"])
def test_lock_says_so_and_diff_rates_it(
    project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, conflict: bool
) -> None:
    """One side upgrades; the other asks for a package that the newer release doesn't go with."""
    without_settings(monkeypatch, tmp_path / "home")
    project.lock_path.unlink()
    with Index() as index:
        for version in ("1.0", "1.1", "1.2"):
            index.add(wheel("lib", version))
        index.add(wheel("other", "1.0", "lib<1.2"))
        monkeypatch.setenv("UV_DEFAULT_INDEX", index.url)
        project.spec(SPEC.format(lib="==1.0", other=""))
        assert envspec("lock", PATH).code == 0
        project.spec(SPEC.format(lib="", other=""))
        assert envspec("lock", PATH).code == 0
        in_git(project, monkeypatch)
        git(project, "switch", "-qc", "topic")
        project.spec(SPEC.format(lib="", other='  "other",'))
        assert envspec("lock", PATH, *(["-P", "lib"] if conflict else [])).code == 0
        git(project, "add", "-A")
        git(project, "commit", "-qm", "other")
        git(project, "switch", "-q", "main")
        assert envspec("lock", PATH, "-U").code == 0
        git(project, "commit", "-qam", "upgrade")
        git(project, "switch", "-q", "topic")
        merged = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "merge", "-q", "main"],
            cwd=project.folder, check=False, capture_output=True,
        )  # fmt: skip
        assert (b"conflict in locks/demo/envspec.lock" in merged.stdout) is conflict
        told = envspec("lock", PATH)
    assert told.code == 0 and "lib goes back from 1.2 to 1." in told.err
    lost = [one for one in json.loads(envspec("diff", PATH, "--json").out)["spec"] if one["code"] == "merge-lost"]
    assert [one["risk"] for one in lost] == ["high"]
