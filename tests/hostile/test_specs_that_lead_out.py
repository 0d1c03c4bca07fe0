"""A spec of a repository, or a folder that the spec names as an index, is a link to what the user has elsewhere: no
byte of that is read or shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.machine import Machine, cpu
from support.packages import wheel

COMMANDS = ("check", "lock", "diff", "tree", "doctor", "report -o page.html", "export --format requirements -o -")


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("by", ["the spec", "its folder"])
def test_a_link_out_of_the_repository(machine: Machine, tmp_path: Path, command: str, by: str) -> None:
    (machine.folder / ".git").mkdir(parents=True)
    secret = tmp_path / "elsewhere" / "demo.toml"
    secret.parent.mkdir()
    secret.write_text('[env]\npython = "hunter2-Zq"\n[token]\nvalue = "hunter2-Zq"\n')
    specs = machine.folder / "specs"
    if by == "the spec":
        specs.mkdir(exist_ok=True)
        (specs / "demo.toml").symlink_to(secret)
    else:
        specs.rmdir()
        specs.symlink_to(secret.parent)
    name, *options = command.split()
    ran = machine.envspec(name, "specs/demo.toml", *options)
    assert ran.status == 2 and "a symbolic link leads from here out of" in ran.err, ran.err
    assert "hunter2" not in ran.err + ran.out and "hunter2" not in machine.envspec(name, *options).err


def test_a_link_within_is_followed(machine: Machine) -> None:
    (machine.folder / ".git").mkdir(parents=True)
    real = machine.folder / machine.spec(cpu("alpha"))
    (real.parent / "other.toml").symlink_to(real)
    assert "a link leads" not in machine.envspec("check", "specs/other.toml").err


PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
PRIVATE, SOUND = wheel("app", "1.0", "hunter2-Zq"), wheel("app", "1.0")


@pytest.mark.parametrize(
    ("key", "link"),
    [
        ("find-links", "wheels"),
        ("find-links", f"wheels/{PRIVATE.file}"),
        ("indexes", "wheels"),
        ("indexes", "wheels/app"),
        ("indexes", "wheels/app/index.html"),
        ("indexes", f"wheels/app/{PRIVATE.file}"),
    ],
)
def test_a_folder_of_wheels_that_leads_out(machine: Machine, tmp_path: Path, key: str, link: str) -> None:
    (machine.folder / ".git").mkdir(parents=True)
    specs = machine.folder / "specs"
    folder = specs / "wheels" / ("app" if key == "indexes" else ".")
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(f"<a href='{PRIVATE.file}'>x</a>")
    (folder / PRIVATE.file).write_bytes(PRIVATE.content)
    (specs / link).rename(tmp_path / "elsewhere")
    (specs / link).symlink_to(tmp_path / "elsewhere")
    said = f"{key} = {{ own = './wheels' }}\nsources = {{ app = 'own' }}"
    ran = machine.envspec("lock", machine.spec(cpu("app", extra=said)))
    assert ran.status == 2 and "a symbolic link leads from here out of" in ran.err and ran.hint, ran.err
    assert "hunter2" not in ran.err + ran.out and not machine.lock_path().exists()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("link", ["wheels", f"wheels/{SOUND.file}"])
def test_wheels_that_become_a_link_are_not_installed(machine: Machine, tmp_path: Path, link: str) -> None:
    (machine.folder / ".git").mkdir(parents=True)
    specs = machine.folder / "specs"
    (specs / "wheels").mkdir(parents=True)
    (specs / "wheels" / SOUND.file).write_bytes(SOUND.content)
    path = machine.spec(cpu("app", extra="find-links = { own = './wheels' }\nsources = { app = 'own' }", python=PYTHON))
    machine.locked()
    (specs / link).rename(tmp_path / "elsewhere")
    (specs / link).symlink_to(tmp_path / "elsewhere")
    for command in ("install --target cpu --prefix env", "bundle --target cpu -o b.tar", "verify"):
        name, *options = command.split()
        ran = machine.envspec(name, path, *options)
        assert ran.status == 2 and "a symbolic link leads from here out of" in ran.err, ran.err


@pytest.mark.parametrize("key", ["find-links", "indexes"])
@pytest.mark.parametrize("href", ["../", "..%2f", "file://{}/"])
def test_a_page_that_names_a_file_outside_of_its_repository(
    machine: Machine, tmp_path: Path, key: str, href: str
) -> None:
    (machine.folder / ".git").mkdir(parents=True)
    outside = machine.base / "elsewhere"
    outside.mkdir()
    (outside / PRIVATE.file).write_bytes(PRIVATE.content)
    page = machine.folder / "specs" / ("page.html" if key == "find-links" else "simple/app/index.html")
    page.parent.mkdir(parents=True, exist_ok=True)
    up = 2 if key == "find-links" else 4
    place = f"{href * up}elsewhere/" if href.startswith("..") else href.format(outside)
    page.write_text(f'<a href="{place}{PRIVATE.file}">{PRIVATE.file}</a>')
    named = "./page.html" if key == "find-links" else "./simple"
    terms = f"{key} = {{ own = '{named}' }}\nsources = {{ app = 'own' }}"
    ran = machine.envspec("lock", machine.spec(cpu("app", extra=terms)))
    assert ran.status == 3 and "links to a file of this machine" in ran.err, ran.err
    assert "hunter2" not in ran.err + ran.out and not machine.lock_path().exists()


def test_a_page_that_names_a_file_beside_it_in_the_repository(machine: Machine) -> None:
    (machine.folder / ".git").mkdir(parents=True)
    files = machine.folder / "packages"
    files.mkdir()
    (files / SOUND.file).write_bytes(SOUND.content)
    (machine.folder / "specs" / "page.html").write_text(f'<a href="../packages/{SOUND.file}">{SOUND.file}</a>')
    terms = "find-links = { own = './page.html' }\nsources = { app = 'own' }"
    machine.locked(spec=cpu("app", extra=terms))
    assert machine.versions("cpu") == {"app": "1.0"}
