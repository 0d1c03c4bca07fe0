"""Packages that share a path: pip's order says whose content stands there, and what goes takes nothing with it."""

import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.index import Index
from support.installs import PYTHON, SUBDIR, uv_alone
from support.machine import Machine
from support.packages import Dist, wheel

from envspec.install.installed import read_packages, site_packages

pytestmark = [pytest.mark.slow, pytest.mark.e2e]


def tool(name: str, version: str = "1.0", *requires: str, extras: Sequence[str] = ()) -> Dist:
    """A wheel with a command, a module of tests and a folder's `__init__` that the others have too."""
    info = f"{name}-{version}.dist-info/entry_points.txt"
    files = {
        info: f"[console_scripts]\nshared = {name}:main\n".encode(),
        "tests/__init__.py": f"who = {name!r}\n".encode(),
        "space/__init__.py": b"",
        f"space/{name}.py": b"",
    }
    return wheel(name, version, *requires, files=files, extras=extras)


SPEC = """\
[env]
python = "{}"
[pip]
dependencies = {}
[targets.here]
platform = "{}"
glibc = "2.17"
"""


@pytest.fixture
def installed(machine: Machine, index: Index) -> Callable[..., Path]:
    """Lock and install a spec, twice: the second run has nothing to do. Gives the folder of packages."""

    def install(*asked: str) -> Path:
        machine.locked(spec=SPEC.format(PYTHON, list(asked), SUBDIR))
        for words in ("", "already"):
            ran = machine.envspec("install", "specs/demo.toml", "--prefix", "env")
            assert ran.status == 0 and words in ran.out, ran.err
        return site_packages(machine.folder / "env", PYTHON)

    return install


def who(site: Path) -> str:
    text = (site / "tests/__init__.py").read_text()
    name = text.split("'")[1]
    assert f"from {name} import main" in (site / "../../../bin/shared").read_text()
    return name


def test_the_content_is_that_of_pips_order_also_after_changes(
    installed: Callable[..., Path], index: Index, tmp_path: Path
) -> None:
    # b requires a through an extra of d: pip has a before it, and c, which nothing requires, after both
    dists = [
        tool("a"),
        tool("b", "1.0", "d[more]"),
        tool("c"),
        wheel("d", "1.0", "a; extra == 'more'", extras=["more"]),
    ]
    index.add(*dists)
    for asked in (["a", "b", "c"], ["b"], ["a", "c"], ["c"], ["b", "c"]):
        site = installed(*asked)
        assert who(site) == by_pip(dists, asked, tmp_path / "-".join(asked)), asked
        assert (site / "space/__init__.py").exists()


def by_pip(dists: Sequence[Dist], asked: Sequence[str], folder: Path) -> str:
    """Whose content pip leaves."""
    folder.mkdir()
    for dist in dists:
        (folder / dist.file).write_bytes(dist.content)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--find-links", ".", "--prefix", "env"]
    subprocess.run([*command, "--ignore-installed", *asked], cwd=folder, check=True, capture_output=True)
    return who(next(folder.glob("env/lib/python*/site-packages")))


def test_an_upgrade_of_the_one_below_leaves_the_other(installed: Callable[..., Path], index: Index) -> None:
    index.add(tool("a"), tool("b", "1.0", "a"), tool("a", "2.0"))
    assert who(installed("a<2", "b")) == "b"
    assert who(installed("a>=2", "b")) == "b"


def test_what_is_overwritten_is_told_and_mended(installed: Callable[..., Path], index: Index) -> None:
    index.add(tool("a"), tool("b", "1.0", "a"))
    site = installed("b")
    (site / "tests/__init__.py").unlink()
    (site / "tests/__init__.py").write_text("who = 'a'\n")
    found = read_packages(site.parents[2], PYTHON, (), ["a", "b"]).pip
    assert found["b"].fault == "tests/__init__.py has another package's content" and not found["a"].fault
    assert who(installed("b")) == "b"


@pytest.mark.by_commit(2)
@pytest.mark.parametrize("by", ["uv", "pip"])
def test_a_bundle_leaves_the_content_of_pips_order(machine: Machine, index: Index, tmp_path: Path, by: str) -> None:
    """pip installs by the name alone where it is told to leave dependencies out, and uv side by side."""
    index.add(tool("a"), tool("b", "1.0", "a"), tool("c", "1.0", "b"))
    machine.locked(spec=SPEC.format(PYTHON, ["c"], SUBDIR))
    machine.envspec("bundle", "specs/demo.toml", "--target", "here", "-o", str(tmp_path / "b.tar"), status=0)
    with tarfile.open(tmp_path / "b.tar") as tar:
        tar.extractall(tmp_path / "b", filter="fully_trusted")
    path = f"{uv_alone(tmp_path)}:/usr/bin:/bin" if by == "uv" else "/usr/bin:/bin"
    env = {"PATH": path, "HOME": str(tmp_path), "PYTHON": sys.executable}
    subprocess.run(["sh", tmp_path / "b/install.sh", tmp_path / "env"], check=True, env=env, capture_output=True)
    assert who(site_packages(tmp_path / "env", PYTHON)) == "c"


@pytest.mark.parametrize("by", ["uv", "pip"])
def test_a_rendered_list_has_the_commands(
    installed: Callable[..., Path], machine: Machine, index: Index, tmp_path: Path, by: str
) -> None:
    """Without dependencies pip goes by the name alone, whose first one would stay, and uv by its threads."""
    index.add(tool("a"), tool("b", "1.0", "a"), tool("c", "1.0", "b"))
    assert who(installed("c")) == "c"
    folder = machine.locks / "demo/here"
    lines = [line[4:] for line in (folder / "requirements.txt").read_text().splitlines() if line.startswith("#   ")]
    commands = [line for line in lines if line.startswith((f"{by} ", "sed"))]
    assert len(commands) == 5
    uv, pip = uv_alone(tmp_path), tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python "$VIRTUAL_ENV/bin/python" "$@"\n')
    pip.chmod(0o755)
    env = {**machine.environment(), "PATH": f"{uv}:{tmp_path}:/usr/bin:/bin", "VIRTUAL_ENV": str(tmp_path / "env")}
    env |= {"PIP_INDEX_URL": index.url, "PIP_CONFIG_FILE": "/dev/null"}
    subprocess.run([uv / "uv", "venv", "-q", "--python", sys.executable, tmp_path / "env"], env=env, check=True)
    subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=folder, env=env, check=True, capture_output=True)
    assert who(site_packages(tmp_path / "env", PYTHON)) == "c"
