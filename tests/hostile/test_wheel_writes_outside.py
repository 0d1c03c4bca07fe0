"""Wheels, and the records of installed ones, that want something outside the environment written or removed."""

import base64
import hashlib
import io
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import Machine
from support.matrix import first_by_day
from support.packages import Dist, wheel

from envspec.install.installed import read_packages, recorded_files, site_packages
from envspec.install.pip import uninstall
from envspec.install.prefix import remove_debris

SITE = f"lib/python{PYTHON}/site-packages"


def forged(name: str, members: Mapping[str, bytes], record: str = "") -> Dist:
    """A wheel with these members besides its own, and these lines in its RECORD."""
    honest = wheel(name, "1.0")
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(honest.content)) as old, zipfile.ZipFile(buffer, "w") as new:
        for path in old.namelist():
            text = old.read(path)
            if path.endswith("/RECORD"):
                lines = [f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in members.items()]
                text = "".join([*lines, record]).encode() + text
            new.writestr(path, text)
        for path, data in members.items():
            new.writestr(path, data)
    return Dist(name, "1.0", honest.file, buffer.getvalue(), honest.metadata)


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize(
    "entry", first_by_day(1, ["../evil.py", "/evil.py", "a/../../../evil.py", "evil-1.0.data/scripts/../../../evil"])
)
def test_an_entry_that_leads_out(machine: Machine, index: Index, entry: str) -> None:
    """uv would leave it out and say nothing. It's refused by name, and what uv unpacked isn't taken for whole later."""
    evil, good = forged("evil", {entry: b"pwned"}), wheel("good", "1.0")
    index.add(evil, good)
    write_lock(machine, [pip_pin(evil), pip_pin(good)])
    prefix = machine.folder / "env"
    for _ in range(2):
        ran = machine.envspec("install", SPEC, "--prefix", str(prefix), status=3)
        assert ran.error == (
            f"error: {evil.file} has the entry {entry!r}: it leads out of the folder that it's installed to"
        )
        assert "hostile or broken" in ran.hint
        assert not list(prefix.glob("lib/python*/site-packages/evil*"))
    write_lock(machine, [pip_pin(good)])
    assert machine.envspec("install", SPEC, "--prefix", str(prefix)).status == 0


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.e2e
@pytest.mark.parametrize(
    "line",
    first_by_day(
        2, ["../../../../../victim/precious,,\n", "a\0b,,\n", f"{'a' * 5000},,\n", '"' + "x" * 200_000 + "\n"]
    ),
)
def test_a_record_that_comes_with_a_wheel(machine: Machine, index: Index, tmp_path: Path, line: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    odd, other = forged("odd", {}, line), wheel("other", "1.0")
    index.add(odd, other)
    prefix = machine.folder / "env"
    for pins in ([pip_pin(odd)], [pip_pin(odd)], [pip_pin(other)]):
        write_lock(machine, pins)
        ran = machine.envspec("install", SPEC, "--prefix", str(prefix))
        assert "has a fault" not in ran.err
        assert (victim / "precious").exists()


def installed(prefix: Path, *lines: str) -> Path:
    """A package `app` as an installer left it, with these lines in its RECORD."""
    info = site_packages(prefix, PYTHON) / "app-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: app\n")
    (info.parent / "app.py").write_text("x")
    record = "".join(f"{line}\n" for line in ("app.py,,", f"{info.name}/METADATA,,", *lines))
    (info / "RECORD").write_bytes(record.encode("utf-8", "surrogateescape"))
    return info


@pytest.mark.parametrize(
    "line",
    [
        "a\0b,,",
        f"{'a' * 5000},,",
        f"{'a' * 300},,",
        "x,,²",
        f"x,,{'9' * 5000}",
        f'"{"x" * 200_000}"',
        "caf\udce9,,",
        "'\x1b[2J',,",
    ],
    ids=["NUL", "long", "long-name", "superscript", "huge-number", "huge-field", "no-utf8", "escape"],
)
def test_a_record_of_what_is_installed(tmp_path: Path, line: str) -> None:
    """It's damage, told in words; and the package can be removed."""
    info = installed(tmp_path, line)
    dist = read_packages(tmp_path, PYTHON).pip["app"]
    assert dist.fault
    uninstall(dist, tmp_path)
    assert not info.exists()


@pytest.mark.parametrize(
    "line", ["../../../../victim/precious", "{victim}/precious", "linked/precious", "linked/gone.py"]
)
def test_uninstall_removes_nothing_outside(tmp_path: Path, line: str) -> None:
    prefix, victim = tmp_path / "prefix", tmp_path / "victim"
    (victim / "__pycache__").mkdir(parents=True)
    for name in ("precious", "__pycache__/gone.cpython-312.pyc"):
        (victim / name).write_text("x")
    info = installed(prefix, f"{line.format(victim=victim)},,")
    (info.parent / "linked").symlink_to(victim)
    uninstall(read_packages(prefix, PYTHON).pip["app"], prefix)
    assert sorted(path.name for path in victim.rglob("*") if path.is_file()) == ["gone.cpython-312.pyc", "precious"]
    assert not info.exists()


def test_compiled_files_of_a_name_with_stars(tmp_path: Path) -> None:
    info = installed(tmp_path, "*.py,,")
    cache = info.parent / "__pycache__"
    cache.mkdir()
    (cache / "other.cpython-312.pyc").write_text("x")
    uninstall(read_packages(tmp_path, PYTHON).pip["app"], tmp_path)
    assert (cache / "other.cpython-312.pyc").exists()


def test_debris_that_is_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("x")
    site = site_packages(tmp_path / "prefix", PYTHON)
    site.mkdir(parents=True)
    (site / "evil-1.0.dist-info").symlink_to(victim)
    debris = read_packages(tmp_path / "prefix", PYTHON).debris
    remove_debris(debris)
    assert (victim / "precious").exists() and not os.path.lexists(site / "evil-1.0.dist-info")


@pytest.mark.by_day(1)
@pytest.mark.e2e
@pytest.mark.parametrize("folder", first_by_day(2, ["lib", SITE, "bin", "etc", "conda-meta"]))
def test_a_folder_of_the_environment_leads_out(machine: Machine, index: Index, tmp_path: Path, folder: str) -> None:
    """Whoever may write to the environment once would have envspec write, and remove, anywhere later."""
    app, other = wheel("app", "1.0"), wheel("app", "2.0")
    index.add(app, other)
    write_lock(machine, [pip_pin(app)])
    prefix = machine.folder / "env"
    assert machine.envspec("install", SPEC, "--prefix", str(prefix)).status == 0
    victim = tmp_path / "victim"
    if (prefix / folder).exists():
        (prefix / folder).rename(victim)
    else:
        victim.mkdir()
    (prefix / folder).symlink_to(victim)
    before = {path: path.lstat().st_mtime_ns for path in victim.rglob("*")}
    write_lock(machine, [pip_pin(other)])
    ran = machine.envspec("install", SPEC, "--prefix", str(prefix))
    assert ran.status == 2 and re.search("link (that )?leads (from here )?out", ran.error)
    assert {path: path.lstat().st_mtime_ns for path in victim.rglob("*")} == before


def test_sizes_are_numbers(tmp_path: Path) -> None:
    assert (
        dict(recorded_files(installed(tmp_path, "a,,12", "b,,1e3", "c,,")))[site_packages(tmp_path, PYTHON) / "a"] == 12
    )
