"""Bundles that somebody changed on their way: each is refused by name, before anything is made."""

import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

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


def install(
    folder: Path,
    prefix: Path,
    *options: str,
    tools: str = "",
    cwd: Path | None = None,
    shell: Sequence[str] = ("sh",),
    **more: str,
) -> subprocess.CompletedProcess[str]:
    env = {"PATH": f"{tools}/usr/bin:/bin", "HOME": str(folder.parent), "PYTHON": sys.executable, **more}
    command = [*shell, str(folder / "install.sh"), *options, str(prefix)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=cwd, timeout=60)


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


@pytest.mark.by_day(2)
@pytest.mark.parametrize("forge", [*FORGERIES, missing_wheel])
def test_a_forged_file(there: tuple[Path, str], tmp_path: Path, forge: Callable[[Path], None]) -> None:
    forge(there[0])
    ran = install(there[0], tmp_path / "env")
    assert ran.returncode == 2 and "damaged or missing" in ran.stderr, ran.stderr
    assert not (tmp_path / "env").exists()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("forge", FORGERIES)
def test_forged_sums(there: tuple[Path, str], tmp_path: Path, forge: Callable[[Path], None]) -> None:
    """Whoever changes SHA256SUMS with the file is caught by the digest that was told when the bundle was made."""
    folder, digest = there
    forge(folder)
    rehashed(folder)
    ran = install(folder, tmp_path / "env", "--expect", digest)
    assert ran.returncode == 2 and "this is another bundle: its digest is sha256:" in ran.stderr, ran.stderr
    assert not (tmp_path / "env").exists()


@pytest.fixture(params=["uv", pytest.param("pip", marks=pytest.mark.nightly)])
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What stands before PATH: uv, or nothing, so that the Python's own pip installs."""
    return f"{uv_alone(tmp_path)}:" if request.param == "uv" else ""


def leave_trace(path: Path, trace: Path) -> None:
    """Write a program that is a script of the shell and a module of Python, either of which leaves a trace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n'true' ; ':' <<'' > {trace}\n\nopen({str(trace)!r}, 'w')\n")
    path.chmod(0o755)


def pipe(path: Path, trace: Path) -> None:
    os.mkfifo(path)


def device(path: Path, trace: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("making a device takes root")


def link(path: Path, trace: Path) -> None:
    path.symlink_to("/etc/passwd")


def folder(path: Path, trace: Path) -> None:
    path.mkdir()


def folder_by_a_link(path: Path, trace: Path) -> None:
    path.symlink_to("/etc")


KINDS = [leave_trace, pipe, device, link, folder, folder_by_a_link]
NAMES = [
    *("wheels/app-9.0-py3-none-any.whl", "envspec/extra.py", "wheels/deep/x", "ON_BASE", "NEEDED", "BASE"),
    *("pip.py", "venv.py", "typing.py", "sitecustomize.py", "pyvenv.cfg", ".hidden", "envspec/.pth", "builds", "later"),
    *("Requirements.txt", "INSTALL.SH", "sha256sums", "wheels/APP-1.0-py3-none-any.whl"),
    *("a b", " ", "-rf", "a\\b", "requirements.txt ", "\tx", "\x1b]0;x", "\udcff", "[a-z]*", "*"),
    *("x\n", "\n", "requirements.txt\n", "\nrequirements.txt", "requirements.txt\n./install.sh"),
]


@pytest.mark.slow
@pytest.mark.by_commit(2)
@pytest.mark.parametrize("kind", KINDS)
def test_more_than_the_sums_name(there: tuple[Path, str], tmp_path: Path, kind: Callable[[Path, Path], None]) -> None:
    """Whatever it is and however it's called: refused before anything of the bundle runs, and by the check by hand."""
    bundle, digest = there
    trace, tools = tmp_path / "trace", f"{uv_alone(tmp_path)}:"
    assert by_hand(bundle) == ""
    for name in NAMES:
        path = bundle / name
        above = [*path.parents][: len(path.relative_to(bundle).parts) - 1]
        new = [one for one in above if not one.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        kind(path, trace)
        ran = install(bundle, tmp_path / "env", "--expect", digest, tools=tools, cwd=bundle)
        assert ran.returncode == 2, (name, ran.stderr)
        assert "has more in it than the bundle" in ran.stderr and "Traceback" not in ran.stderr, (name, ran.stderr)
        assert all(line.isprintable() for line in ran.stderr.splitlines()), ran.stderr
        assert not (tmp_path / "env").exists() and not trace.exists(), name
        assert kind is folder or by_hand(bundle), name
        shutil.rmtree(path) if kind is folder else path.unlink()
        for one in new:
            one.rmdir()
    assert install(bundle, tmp_path / "env", "--expect", digest, tools=tools).returncode == 0


def by_hand(bundle: Path) -> str:
    """What the commands in the head of install.sh print: the names that are too many."""
    lines = (bundle / "install.sh").read_text().splitlines()
    first = lines.index("#   sha256sum SHA256SUMS && sha256sum -c --quiet SHA256SUMS")
    ran = subprocess.run(["sh", "-c", lines[first + 1][1:]], cwd=bundle, capture_output=True, check=False)
    return ran.stdout.decode("utf-8", "replace")


@pytest.mark.by_day(3)
@pytest.mark.by_commit(3)
@pytest.mark.parametrize("kind", [pipe, device, link, folder, folder_by_a_link])
@pytest.mark.parametrize("name", ["requirements.txt", "SHA256SUMS", "envspec/target.json", "LIMITS", "wheels"])
def test_another_kind_of_thing_in_a_files_place(
    there: tuple[Path, str], tmp_path: Path, kind: Callable[[Path, Path], None], name: str
) -> None:
    """Nothing waits for the writer of a pipe, nor reads what a link leads to, though that has the very bytes."""
    bundle, _ = there
    path, before = bundle / name, tmp_path / "before"
    path.rename(before)
    if kind in (link, folder_by_a_link):
        path.symlink_to(before)
    else:
        kind(path, tmp_path / "trace")
    ran = install(bundle, tmp_path / "env")
    assert ran.returncode == 2 and f"{name}" in ran.stderr, ran.stderr
    assert not (tmp_path / "env").exists()


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["dash", "bash", "busybox"])
def test_the_shells(there: tuple[Path, str], tmp_path: Path, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is missing")
    words = [program, "sh"] if shell == "busybox" else [program]
    tools = f"{uv_alone(tmp_path)}:"
    (there[0] / "wheels" / "a\nb").write_text("x")
    ran = install(there[0], tmp_path / "env", tools=tools, shell=words)
    assert ran.returncode == 2 and "wheels/a isn't of this bundle\n" in ran.stderr, ran.stderr
    (there[0] / "wheels" / "a\nb").unlink()
    ran = install(there[0], tmp_path / "env", "--expect", there[1], tools=tools, shell=words)
    assert ran.returncode == 0, ran.stderr


PLANTED = [
    *(
        "pip",
        "venv",
        "ensurepip",
        "typing",
        "json",
        "encodings",
        "sitecustomize",
        "usercustomize",
        "zipfile",
        "logging",
    ),
    *("_distutils_hack", "site", "warnings", "subprocess", "runpy"),
]


@pytest.mark.slow
@pytest.mark.parametrize("installer", ["uv", "pip"])
def test_an_honest_bundle_from_a_folder_of_anothers(there: tuple[Path, str], tmp_path: Path, installer: str) -> None:
    """A clone with modules that Python would take up, and variables that bring Python code from it."""
    clone, trace = tmp_path / "clone", tmp_path / "trace"
    for name in PLANTED:
        leave_trace(clone / f"{name}.py", trace)
    leave_trace(clone / "uv.toml", trace)
    (clone / "pip.conf").write_text("[global]\nindex-url = http://127.0.0.1:9\n")
    (clone / "python").symlink_to(sys.executable)
    brought = {
        "PYTHONPATH": str(clone),
        "PYTHONSTARTUP": str(clone / "site.py"),
        "PYTHONUSERBASE": str(clone),
        "PYTHONWARNINGS": "error::typing.Nothing",
        "PYTHONBREAKPOINT": "typing.nothing",
        "PYTHONHOME": str(clone),
    }
    tools = f"{uv_alone(tmp_path)}:" if installer == "uv" else ""
    for number, (python, home) in enumerate([("./python", {}), (sys.executable, {}), (sys.executable, brought)]):
        ran = install(there[0], Path(f"../env-{number}"), tools=tools, cwd=clone, PYTHON=python, **home)
        assert ran.returncode == 0 and not trace.exists(), ran.stderr
        assert (tmp_path / f"env-{number}" / "bin" / "python").exists()


@pytest.mark.parametrize("path", [".:", ":", "./:tools:"])
def test_no_program_of_the_folder_that_it_is_called_from(there: tuple[Path, str], tmp_path: Path, path: str) -> None:
    """`ls` and `mktemp` ran before anything was compared."""
    trace = tmp_path / "trace"
    for name in ("dirname", "ls", "mktemp", "sed", "sha256sum", "find", "grep", "uv", "cat", "rm", "tools/ls"):
        leave_trace(there[0] / name, trace)
    ran = install(there[0], Path("../env"), tools=path, cwd=there[0], shell=("/bin/sh",), TMPDIR="envspec")
    assert not trace.exists(), ran.stderr
    assert ran.returncode == 2 and "has more in it than the bundle" in ran.stderr, ran.stderr


@pytest.mark.parametrize("installer", ["uv", pytest.param("pip", marks=pytest.mark.slow)])
def test_what_settings_of_uv_and_pip_would_change(there: tuple[Path, str], tmp_path: Path, installer: str) -> None:
    """An excluded package was left out, a target of pip's configuration took all, and either ended with 0."""
    files = {
        "excluded": "app\n",
        "versions": "app==9.0\n",
        "pip.conf": f"[global]\ntarget = {tmp_path / 'elsewhere'}\n",
    }
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    given: dict[str, Any] = {
        "UV_CACHE_DIR": str(tmp_path / "cache"),
        "UV_VENV_SEED": "1",
        "UV_EXCLUDE": str(tmp_path / "excluded"),
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
        "PIP_TARGET": str(tmp_path / "elsewhere"),
        **dict.fromkeys(("UV_OVERRIDE", "UV_CONSTRAINT", "PIP_CONSTRAINT", "PIP_PYTHON"), str(tmp_path / "versions")),
    }
    tools = f"{uv_alone(tmp_path)}:" if installer == "uv" else ""
    ran = install(there[0], tmp_path / "env", tools=tools, **given)
    assert ran.returncode == 0, ran.stderr
    (site,) = (tmp_path / "env").glob("lib/python3*/site-packages")
    assert (site / "app-1.0.dist-info").is_dir() and (site / "lib-1.0.dist-info").is_dir(), ran.stderr
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_what_else_lies_where_an_earlier_bundle_was_unpacked(
    machine: Machine, locked: Index, tmp_path: Path, tools: str
) -> None:
    """`--with` names a folder that nothing vouches for: only the files that this bundle names by their hash count."""
    old, new = tmp_path / "old", tmp_path / "new"
    bundled(machine, old)
    write_lock(machine, [pip_pin(APP), pip_pin(NEW)])
    digest = bundled(machine, new, "--since", "old.tar")
    (old / "wheels" / NEW.file).write_bytes(wheel("lib", "2.0", padding=9).content)
    (old / "wheels" / "app-1.0-9-py3-none-any.whl").write_bytes(wheel("app", "1.0", padding=9).content)
    os.mkfifo(old / "wheels" / "lib-2.0-9-py3-none-any.whl")
    (old / "pip.py").write_text("raise SystemExit(9)\n")
    ran = install(new, tmp_path / "env", "--expect", digest, "--with", str(old), tools=tools, cwd=old)
    assert ran.returncode == 0, ran.stderr


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
