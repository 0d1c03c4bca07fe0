"""Bundles that somebody changed on their way: each is refused by name, before anything is made."""

import hashlib
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.conda_archives import Channel, data_package
from support.index import Index
from support.installs import SPEC, pip_pin, uv_alone, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.install.bundle import SUMS

pytestmark = pytest.mark.e2e

APP, LIB, NEW = wheel("app", "1.0"), wheel("lib", "1.0"), wheel("lib", "2.0")


def bundled(machine: Machine, folder: Path, *options: str) -> str:
    """Make a bundle and unpack it; gives its digest."""
    ran = machine.envspec("bundle", SPEC, "-o", f"{folder.name}.tar", "--json", *options, status=0)
    with tarfile.open(machine.folder / f"{folder.name}.tar") as tar:
        tar.extractall(folder, filter="data")
    return str(json.loads(ran.out)["digest"])


def install(folder: Path, prefix: Path, *options: str, tools: str = "") -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{tools}/usr/bin:/bin", "HOME": str(prefix.parent), "PYTHON": sys.executable}
    command = ["sh", str(folder / "install.sh"), *options, str(prefix)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


@pytest.fixture
def locked(machine: Machine, index: Index) -> Index:
    index.add(APP, LIB, NEW)
    write_lock(machine, [pip_pin(APP), pip_pin(LIB)])
    return index


def rehashed(folder: Path) -> None:
    """SHA256SUMS made to fit what lies there, as whoever forges a bundle would."""
    paths = [line[66:] for line in (folder / SUMS).read_text().splitlines()]
    sums = (hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in paths)
    (folder / SUMS).write_text("".join(f"{digest}  {path}\n" for digest, path in zip(sums, paths, strict=True)))


def changed_wheel(folder: Path) -> None:
    (folder / "wheels" / APP.file).write_bytes(wheel("app", "1.0", padding=9).content)


def changed_requirements(folder: Path) -> None:
    (folder / "requirements.txt").write_text("lib==1.0\n")


def changed_installer(folder: Path) -> None:
    with (folder / "install.sh").open("a") as file:
        file.write("# changed\n")


def changed_target(folder: Path) -> None:
    path = folder / "envspec" / "target.json"
    path.write_text(path.read_text() + "\n")


def missing_wheel(folder: Path) -> None:
    (folder / "wheels" / APP.file).unlink()


FORGERIES = [changed_wheel, changed_requirements, changed_installer, changed_target]


@pytest.fixture
def there(machine: Machine, locked: Index, tmp_path: Path) -> tuple[Path, str]:
    """An unpacked bundle and its digest."""
    folder = tmp_path / "bundle"
    return folder, bundled(machine, folder)


@pytest.mark.parametrize("forge", [*FORGERIES, missing_wheel])
def test_a_forged_file(there: tuple[Path, str], tmp_path: Path, forge: Callable[[Path], None]) -> None:
    forge(there[0])
    ran = install(there[0], tmp_path / "env")
    assert ran.returncode == 2 and "damaged or missing" in ran.stderr, ran.stderr
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize("forge", FORGERIES)
def test_forged_sums(there: tuple[Path, str], tmp_path: Path, forge: Callable[[Path], None]) -> None:
    """Whoever changes SHA256SUMS with the file is caught by the digest that was told when the bundle was made."""
    folder, digest = there
    forge(folder)
    rehashed(folder)
    ran = install(folder, tmp_path / "env", "--expect", digest)
    assert ran.returncode == 2 and "this is another bundle: its digest is sha256:" in ran.stderr, ran.stderr
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize("path", ["wheels/app-9.0-py3-none-any.whl", "envspec/extra.py", "conda/noarch/x.conda"])
@pytest.mark.parametrize("link", [False, True], ids=["file", "link"])
def test_an_extra_file(there: tuple[Path, str], tmp_path: Path, path: str, link: bool) -> None:
    folder, digest = there
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    if link:
        (folder / path).symlink_to("/etc/passwd")
    else:
        (folder / path).write_text("x")
    ran = install(folder, tmp_path / "env", "--expect", digest)
    assert ran.returncode == 2 and f"{path} isn't of this bundle" in ran.stderr, ran.stderr
    assert not (tmp_path / "env").exists()


@pytest.fixture(params=["uv", pytest.param("pip", marks=pytest.mark.nightly)])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What stands before PATH: uv, or nothing, so that the Python's own pip installs."""
    return f"{uv_alone(tmp_path)}:" if request.param == "uv" else ""


@pytest.mark.slow
def test_a_wheel_that_leads_out(there: tuple[Path, str], tmp_path: Path, tools: str) -> None:
    """Nobody looked at the wheel when the bundle was made: whoever forged it wrote hashes that fit."""
    folder, _ = there
    buffer = io.BytesIO(APP.content)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("../../../../../evil.py", "x")
    (folder / "wheels" / APP.file).write_bytes(buffer.getvalue())
    requirements = folder / "requirements.txt"
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    requirements.write_text(requirements.read_text().replace(APP.sha256, digest))
    rehashed(folder)
    ran = install(folder, tmp_path / "env", tools=tools)
    assert ran.returncode == 2, ran.stderr
    assert f"{APP.file} has the entry '../../../../../evil.py': it leads out" in ran.stderr
    assert not (tmp_path / "env").exists()


def test_a_conda_package_that_leads_out(machine: Machine, tmp_path: Path) -> None:
    honest = data_package("evil", "1.0")
    evil = replace(honest, files={**honest.files, "../evil.txt": b"x"})
    channel = Channel(tmp_path / "own").add(evil)
    write_lock(machine, [channel.pin(evil)], channels=[channel.url])
    ran = machine.envspec("bundle", SPEC, "-o", "evil.tar")
    assert ran.status == 3 and "evil-1.0-0.tar.bz2 has the entry '../evil.txt': it leads out" in ran.error, ran.err
    assert not (machine.folder / "evil.tar").exists()


@pytest.mark.slow
def test_what_an_old_bundle_holds(machine: Machine, locked: Index, tmp_path: Path, tools: str) -> None:
    """Left out of the new one, named where it's missing, and refused where it changed."""
    old, new, prefix = tmp_path / "old", tmp_path / "new", tmp_path / "env"
    bundled(machine, old)
    (machine.folder / "old.lock").write_bytes(machine.lock_path().read_bytes())
    write_lock(machine, [pip_pin(APP), pip_pin(NEW)])
    made = set()
    for since in ("old.tar", str(old / SUMS), "old.lock"):
        machine.envspec("bundle", SPEC, "-o", "small.tar", "--since", since, status=0)
        made.add((machine.folder / "small.tar").read_bytes())
    assert len(made) == 1
    digest = bundled(machine, new, "--since", "old.tar")
    assert [path.name for path in (new / "wheels").iterdir()] == [NEW.file]
    ran = install(new, prefix, "--expect", digest)
    assert ran.returncode == 2 and f"  wheels/{APP.file}\n" in ran.stderr and "--with DIR" in ran.stderr, ran.stderr
    kept = (old / "wheels" / APP.file).read_bytes()
    changed_wheel(old)
    assert f"  wheels/{APP.file}\n" in install(new, prefix, "--with", str(old)).stderr
    (old / "wheels" / APP.file).write_bytes(kept)
    assert not prefix.exists()
    ran = install(new, prefix, "--expect", digest, "--with", str(old), tools=tools)
    assert ran.returncode == 0, ran.stderr
    code = "from importlib.metadata import version; print(version('app'), version('lib'))"
    seen = subprocess.run([prefix / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.split() == ["1.0", "2.0"]


@pytest.mark.parametrize("text", ["", "not a bundle\n", "x" * 70 + "\n"])
def test_since_something_else(machine: Machine, locked: Index, text: str) -> None:
    (machine.folder / "old").write_text(text)
    ran = machine.envspec("bundle", SPEC, "-o", "small.tar", "--since", "old")
    assert ran.status == 2 and "old" in ran.error, ran.err
    assert machine.envspec("bundle", SPEC, "-o", "small.tar", "--since", "nowhere").status == 2
