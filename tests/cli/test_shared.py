"""What all users of a machine share: a cache and environments of its administrator's, below each user's own."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conda_archives import Channel, data_package
from support.documents import valid
from support.index import Index
from support.installs import write_lock
from support.machine import ROOT, Machine, cpu
from support.packages import wheel
from support.python_build import lock_build, served, standalone_build
from support.site import place_policy, place_site

from envspec.export.python_build import folder_name
from envspec.install.prefix import STATE_PATH

SPEC = "specs/demo.toml"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root is an administrator, and gives files away")
PLAIN = 4001
"""A user id that nobody has."""
PROGRAM = (
    "import sys; from envspec.base import places; places.ETC = sys.argv.pop(1);"
    "from envspec.__main__ import main; main()"
)


@pytest.fixture
def project(machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A machine whose site shares a cache and environments, and a lock of two packages."""
    index.add(wheel("alpha", "1.0", "beta", padding=50_000), wheel("beta", "1.0"), uploaded="2020-01-01T00:00:00Z")
    machine.spec(cpu("alpha", python=PYTHON))
    machine.locked()
    share(monkeypatch, tmp_path)
    return machine


def share(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, environments: bool = True) -> None:
    text = f'[cache]\nshared = "{tmp_path}/shared/cache"\n'
    more = f'[run]\nshared = "{tmp_path}/shared/environments"\n' if environments else ""
    place_site(monkeypatch, tmp_path, "config.toml", text + more)


def another_users(machine: Machine, tmp_path: Path, name: str = "other") -> dict[str, str]:
    home = tmp_path / name
    home.mkdir(exist_ok=True)
    return {"HOME": str(home)}


def written(home: Path) -> tuple[int, int]:
    """Files and bytes below a home."""
    found = [path.lstat() for path in home.rglob("*")]
    return len(found), sum(one.st_size for one in found if stat.S_ISREG(one.st_mode))


@pytest.mark.slow
@pytest.mark.e2e
def test_what_is_filled_is_fetched_and_made_once_for_all(project: Machine, index: Index, tmp_path: Path) -> None:
    ran = project.envspec("cache", "fill", SPEC, "--json", status=0)
    document = valid(ran.out, "cache")
    (prefix,) = document["filled"]["environments"]
    assert document["cache"] == str(tmp_path / "shared/cache") and document["filled"]["files"] == 2
    assert Path(prefix).parent == tmp_path / "shared/environments"
    closed = [
        str(path)
        for path in (tmp_path / "shared").rglob("*")
        if not path.is_symlink() and not path.stat().st_mode & (stat.S_IXOTH if path.is_dir() else stat.S_IROTH)
    ]
    assert not closed, "all users read it"
    env = another_users(project, tmp_path)
    index.asked.clear()
    # a prefix of one's own is made of the shared files, the shared environment is run as it is
    project.envspec("install", SPEC, "--prefix", str(tmp_path / "p"), env=env, status=0)
    before = {str(path): path.lstat().st_mtime_ns for path in (tmp_path / "shared").rglob("*")}
    ran = project.envspec("run", SPEC, "--dry-run", "--", "true", env=env, status=0)
    assert f"prefix   {prefix} (ready)" in ran.out
    assert f"{prefix} is cpu already" in project.envspec("install", SPEC, env=env, status=0).out
    assert [one.path for one in index.asked if one.path.startswith("/files/")] == []
    assert {str(path): path.lstat().st_mtime_ns for path in (tmp_path / "shared").rglob("*")} == before
    assert not (tmp_path / "other" / ".local").exists()
    # again: nothing is fetched, and all is there
    index.asked.clear()
    again = valid(project.envspec("cache", "fill", SPEC, "--json", status=0).out, "cache")
    assert again == document and not [one.path for one in index.asked if one.path.startswith("/files/")]


@pytest.mark.e2e
@pytest.mark.slow
def test_the_python_of_shared_environments_is_every_users(
    project: Machine, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The lock's own build, at a prefix of one's own, where nobody may fetch any."""
    build = standalone_build(tmp_path_factory)
    lock_build(project, project.lock(), build)
    with served(build, tmp_path / "builds") as mirror:
        project.configure(f'python = "{mirror}"')
        project.envspec("cache", "fill", SPEC, env={"UV_PYTHON_DOWNLOADS": "automatic"}, status=0)
    env = another_users(project, tmp_path)
    ran = project.envspec("install", SPEC, "--prefix", str(tmp_path / "p"), "--offline", env=env, status=0)
    assert "this machine's Python" not in ran.err
    assert (tmp_path / "p/bin/python").resolve().is_relative_to(tmp_path / "shared/cache/python")
    assert not (tmp_path / "other/.local").exists()


@pytest.mark.e2e
def test_bundles_and_images_take_the_shared_files_too(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    share(monkeypatch, tmp_path, environments=False)
    project.envspec("cache", "fill", SPEC, status=0)
    index.asked.clear()
    env = another_users(project, tmp_path)
    project.envspec("bundle", SPEC, "-o", "x.tar", env=env, status=0)
    assert not [one.path for one in index.asked if one.path.startswith("/files/")]


def test_without_a_shared_folder_there_is_nothing_to_fill(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    machine.locked(spec=cpu("alpha"))
    ran = machine.envspec("cache", "fill", SPEC, status=2)
    assert "shares no cache and no environments" in ran.error and "[cache] shared" in ran.hint


def test_a_shared_folder_that_isnt_there_yet_is_no_obstacle(project: Machine, tmp_path: Path) -> None:
    project.envspec("bundle", SPEC, "-o", "x.tar", status=0)
    assert not (tmp_path / "shared").exists()


@pytest.mark.by_day(2)
@ROOT_ONLY
@pytest.mark.parametrize("what", ["owner", "group", "all"])
@pytest.mark.parametrize("key", ["cache", "run"])
def test_one_of_another_plain_user_or_a_group_is_refused(project: Machine, tmp_path: Path, what: str, key: str) -> None:
    folder = tmp_path / "shared" / ("cache" if key == "cache" else "environments")
    folder.mkdir(parents=True)
    tamper(folder, what)
    command = ("bundle", SPEC, "-o", "x.tar") if key == "cache" else ("run", SPEC, "--", "true")
    ran = project.envspec(*command, status=2)
    assert f"{folder}: what [{key}] shared names can't be trusted: " in ran.err and "no group's" in ran.hint


def tamper(path: Path, what: str) -> None:
    if what == "owner":
        os.chown(path, PLAIN, PLAIN)
    else:
        os.chown(path, 0, PLAIN)
        path.chmod(0o775 if what == "group" else 0o757)


@pytest.mark.by_day(1)
@pytest.mark.by_commit(4)
@ROOT_ONLY
@pytest.mark.e2e
@pytest.mark.parametrize("what", ["owner", "group", "all"])
@pytest.mark.parametrize("part", ["file", "folder", "artifacts"])
def test_a_file_that_another_could_have_written_is_fetched_anew(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str, part: str
) -> None:
    share(monkeypatch, tmp_path, environments=False)
    project.envspec("cache", "fill", SPEC, status=0)
    (file,) = (tmp_path / "shared/cache/artifacts").rglob("alpha-1.0-*.whl")
    content = bytearray(file.read_bytes())
    content[-30] ^= 1
    file.write_bytes(content)
    tamper({"file": file, "folder": file.parent, "artifacts": file.parents[1]}[part], what)
    index.asked.clear()
    env = another_users(project, tmp_path)
    project.envspec("install", SPEC, "--prefix", str(tmp_path / "p"), env=env, status=0)
    assert [one.path for one in index.asked if "alpha" in one.path and one.path.startswith("/files/")]


@pytest.mark.e2e
def test_a_shared_file_that_rotted_is_fetched_for_what_leaves_the_machine(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its hash is taken again there. The shared one stays: it isn't this user's to remove."""
    share(monkeypatch, tmp_path, environments=False)
    project.envspec("bundle", SPEC, "-o", "good.tar", status=0)
    project.envspec("cache", "fill", SPEC, status=0)
    (file,) = (tmp_path / "shared/cache/artifacts").rglob("alpha-1.0-*.whl")
    content = bytearray(file.read_bytes())
    content[-30] ^= 1
    file.write_bytes(content)
    project.envspec("bundle", SPEC, "-o", "x.tar", env=another_users(project, tmp_path), status=0)
    assert (project.folder / "x.tar").read_bytes() == (project.folder / "good.tar").read_bytes()
    assert file.read_bytes() == content


@pytest.mark.slow
@ROOT_ONLY
@pytest.mark.e2e
@pytest.mark.parametrize("part", [".", str(STATE_PATH), "begun", "newer"])
def test_an_environment_that_another_could_have_written_isnt_run(project: Machine, tmp_path: Path, part: str) -> None:
    document = valid(project.envspec("cache", "fill", SPEC, "--json", status=0).out, "cache")
    prefix = Path(document["filled"]["environments"][0])
    if part == "begun":
        state = prefix / STATE_PATH
        state.write_text(state.read_text().replace('"complete": true', '"complete": false'))
    elif part == "newer":
        # the administrator's envspec is newer than the user's, who makes an own one
        state = prefix / STATE_PATH
        record = json.loads(state.read_text())
        state.write_text(json.dumps({**record, "format": 99, "what": "is new"}))
    else:
        tamper(prefix / part, "owner")
    ran = project.envspec("run", SPEC, "--dry-run", "--", "true", env=another_users(project, tmp_path), status=0)
    assert str(prefix) not in ran.out and "(to be made)" in ran.out


def test_the_policy_is_asked_before_anything_is_shared(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place_policy(monkeypatch, tmp_path, '[indexes.at]\npypi = "https://mirror.invalid/simple"\n')
    assert "[index-elsewhere]" in project.envspec("cache", "fill", SPEC, status=1).err
    assert not list((tmp_path / "shared").rglob("*.whl"))


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter: pytest's own are closed."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="envspec-shared-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


SYSTEM_PYTHON = Path("/usr/bin/python3").resolve()


@ROOT_ONLY
@pytest.mark.e2e
@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
@pytest.mark.skipif(SYSTEM_PYTHON.name != f"python{PYTHON}", reason="this Python isn't one that all users can run")
def test_two_plain_users_share_what_root_filled(
    index: Index, monkeypatch: pytest.MonkeyPatch, open_folder: Path
) -> None:
    """In processes of their own user ids, which may read envspec's own files, and write their own home alone."""
    index.add(wheel("alpha", "1.0", "beta", padding=2_000_000), wheel("beta", "1.0"))
    machine = Machine(open_folder / "machine", index.url)
    machine.locked(spec=cpu("alpha", python=PYTHON))
    # the lock's build of Python, where all users can run it
    machine.variables["UV_PYTHON_INSTALL_DIR"] = str(open_folder / "python")
    (build,) = machine.lock().pythons
    root = open_folder / "python" / folder_name(build)
    (root / "bin").mkdir(parents=True)
    (root / "BUILD").write_text(build.build)
    (root / "bin" / f"python{PYTHON}").symlink_to(SYSTEM_PYTHON)
    share(monkeypatch, open_folder)
    filled = machine.envspec("cache", "fill", SPEC, "--json", status=0)
    (prefix,) = valid(filled.out, "cache")["filled"]["environments"]
    assert "other users can't run" not in filled.err
    for number, name in ((PLAIN, "ada"), (PLAIN + 1, "bob")):
        home = open_folder / name
        home.mkdir()
        os.chown(home, number, number)
        index.asked.clear()

        def go(*arguments: str, number: int = number, home: Path = home) -> subprocess.CompletedProcess[str]:
            return as_user(number, home, machine, open_folder, *arguments)

        ran = go("run", SPEC, "--", "python", "-c", "import alpha, os, sys; print(os.getuid(), sys.prefix)")
        assert (ran.returncode, ran.stdout) == (0, f"{number} {prefix}\n"), ran.stderr
        files, size = written(home)
        assert files < 40 and size < 100_000, (files, size)
        assert not index.asked
        own = go("install", SPEC, "--prefix", str(home / "own"))
        assert own.returncode == 0, own.stderr
        assert not [one.path for one in index.asked if one.path.startswith("/files/")]


@pytest.mark.slow
@ROOT_ONLY
@pytest.mark.e2e
@pytest.mark.skipif(not shutil.which("setpriv"), reason="no setpriv")
@pytest.mark.parametrize("damaged", [False, True])
def test_unpacked_conda_packages_are_shared(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, open_folder: Path, *, damaged: bool
) -> None:
    """A plain user's cache has links to them. What is damaged there comes from its channel."""
    tool = data_package("tool", "1.0", "as published")
    channel = Channel(open_folder / "channel").add(tool)
    write_lock(machine, [channel.pin(tool)], channels=[channel.url])
    share(monkeypatch, open_folder, environments=False)
    machine.envspec("cache", "fill", SPEC, status=0)
    shared = open_folder / "shared/cache/conda/packages/tool-1.0-0"
    assert (shared / "share/tool.txt").read_text() == "as published"
    if damaged:
        (shared / "share/tool.txt").write_text("x")
    else:
        channel.path(tool).unlink()
    home = open_folder / "ada"
    home.mkdir()
    os.chown(home, PLAIN, PLAIN)
    words = ["install", SPEC, "--prefix", str(home / "env")]
    ran = as_user(PLAIN, home, machine, open_folder, *words)
    assert ran.returncode == 0, ran.stderr
    assert (home / "env/share/tool.txt").read_text() == "as published"
    own = home / ".cache/envspec/conda/packages/tool-1.0-0"
    assert own.is_symlink() is not damaged
    assert (shared / "share/tool.txt").read_text() == ("x" if damaged else "as published"), "nobody's to write"
    assert as_user(PLAIN, home, machine, open_folder, "cache", "clean", "conda-packages").returncode == 0
    assert not own.is_symlink() and shared.is_dir()


def as_user(
    number: int, home: Path, machine: Machine, folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    words = [
        "setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups",
        "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
        sys.executable, "-c", PROGRAM, str(folder / "etc"), *arguments,
    ]  # fmt: skip
    env = {**machine.environment(), "HOME": str(home), "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, cwd=machine.folder, env=env, capture_output=True, text=True, check=False)
