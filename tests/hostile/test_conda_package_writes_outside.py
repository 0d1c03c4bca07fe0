"""Conda packages that want to write, or to have something removed, outside the environment. Each test is an attack:
`envspec install` as a process, a channel in a folder, and a look at everything around the prefix afterwards."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.conda_archives import Archive, Channel, borrowed_python, data_package
from support.hostile_archives import Forged, Member, link, link_json
from support.index import Index
from support.installs import PYTHON, SPEC, SUBDIR, pip_pin, write_lock
from support.machine import Machine, Ran
from support.matrix import first_by_day
from support.packages import wheel

pytestmark = pytest.mark.e2e

SITE = f"lib/python{PYTHON}/site-packages"
FILE = Member("share/a", b"mine")
NO_FILE = "neither a file nor a folder"


@pytest.fixture
def channel(tmp_path: Path) -> Channel:
    return Channel(tmp_path / "own")


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder outside the environment, with a file that somebody needs."""
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    return folder


@pytest.fixture
def prefix(machine: Machine) -> Path:
    return machine.folder / "around" / "env"


def around(prefix: Path, victim: Path) -> dict[str, str]:
    """All that lies beside the prefix and in the victim's folder."""
    found = {}
    for base in (prefix.parent, victim):
        for path in base.rglob("*"):
            if not path.is_relative_to(prefix):
                found[str(path)] = path.read_text() if path.is_file() else "folder"
    return found


Attack = Callable[..., Ran]


@pytest.fixture
def attack(machine: Machine, channel: Channel, prefix: Path, victim: Path) -> Attack:
    """Install packages of which one is hostile; it must be refused by its name, and leave no trace."""

    def call(*archives: Archive, named: str, entry: str) -> Ran:
        channel.add(*archives)
        write_lock(machine, [channel.pin(archive) for archive in archives], channels=[channel.url])
        prefix.parent.mkdir(exist_ok=True)
        before = around(prefix, victim)
        ran = machine.envspec("install", SPEC, "--prefix", str(prefix), status=3)
        assert f"the conda package {named} has the entry" in ran.error and entry in ran.error
        assert ran.hint
        assert around(prefix, victim) == before
        left = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file() or path.is_symlink()}
        assert left <= {"etc/envspec/install.json"}
        return ran

    return call


def esc(*members: Member, **more: Any) -> Forged:
    return Forged("esc", "1.0", members=list(members), **more)


ATTACKS: dict[str, tuple[str, Callable[[Path], list[Archive]]]] = {
    # what it is: what the refusal says of the package esc, and the packages, beside the victim's folder
    "a path through a link and back out": ("lnk/../../../../X", lambda victim: [esc(
        Member("a/X", b"pwned"), Member("a/b/c/d/e/f", b""), link("lnk", "a/b/c/d/e"),
        listed={"lnk": "softlink", "lnk/../../../../X": "hardlink", "a/b/c/d/e/f": "hardlink"},
    )]),
    "a path beside the prefix": ("../sib-1.0-0/share/a", lambda victim: [
        esc(FILE, listed={"../sib-1.0-0/share/a": "hardlink"}), data_package("innocent", "1.0"),
    ]),
    "a folder beside the prefix": ("../CESC_dir", lambda victim: [
        esc(FILE, listed={"share/a": "hardlink", "../CESC_dir": "directory"}),
    ]),
    "a member that climbs out of the cache": ("../../evil", lambda victim: [
        esc(FILE, Member("../../evil", b"x"), listed={}),
    ]),
    "a member with an absolute name": ("it's absolute", lambda victim: [
        esc(FILE, Member(f"{victim}/evil", b"x"), listed={}),
    ]),
    "a hard link to a file outside": ("hard link", lambda victim: [esc(
        Member("h", kind=tarfile.LNKTYPE, to=f"{victim}/precious"), Member("h", b"overwritten"),
        listed={"h": "hardlink"},
    )]),
    "a device": (NO_FILE, lambda victim: [esc(FILE, Member("dev", kind=tarfile.CHRTYPE), listed={})]),
    "a fifo": (NO_FILE, lambda victim: [esc(FILE, Member("pipe", kind=tarfile.FIFOTYPE), listed={})]),
    # of the transaction's packages, the first one's link leads out: to what is there, or to nothing yet
    "a link of another package": ("a link to a folder outside the environment", lambda victim: [
        esc(link("share/out", str(victim))),
        Forged("zzz", "1.0", members=[Member("share/out/precious", b"pwned")]),
    ]),
    "a link that leads nowhere yet": ("goes through a link that leads out", lambda victim: [
        Forged("aaa", "1.0", members=[link("share/out", f"{victim}/later")]), esc(Member("share/out/f", b"pwned")),
    ]),
    "an entry point of noarch python": ("../../evil", lambda victim: [borrowed_python(SUBDIR), Forged(
        "esc", "1.0", "py_0", noarch="python", members=[Member("site-packages/esc.py", b"")],
        info=link_json("../../evil = esc:main"),
    )]),
    "a forged record": ("conda-meta", lambda victim: [esc(Member("conda-meta/other-1-0.json", b"{}"))]),
    "envspec's own notes": ("a folder that envspec writes to", lambda victim: [esc(link("etc", str(victim)))]),
}  # fmt: skip


@pytest.mark.parametrize(("entry", "archives"), ATTACKS.values(), ids=ATTACKS)
def test_packages_that_are_refused(
    attack: Attack, victim: Path, entry: str, archives: Callable[[Path], list[Archive]]
) -> None:
    attack(*archives(victim), named="esc", entry=entry)


def test_an_absolute_path(attack: Attack, victim: Path) -> None:
    attack(esc(FILE, listed={f"{victim}/precious": "hardlink"}), named="esc", entry="it's absolute")


def test_where_python_says_its_packages_are(attack: Attack) -> None:
    liar = Forged("python", f"{PYTHON}.0", members=[FILE], fields={"python_site_packages_path": "../../elsewhere"})
    attack(liar, named="python", entry="python_site_packages_path = '../../elsewhere'")


@pytest.mark.slow
def test_a_link_that_was_there_before(machine: Machine, channel: Channel, prefix: Path, victim: Path) -> None:
    """Of the user's own making, or an older envspec's: nothing is written through it."""
    first, second = data_package("first", "1.0"), Forged("second", "1.0", members=[Member("share/out/f", b"x")])
    channel.add(first, second)
    write_lock(machine, [channel.pin(first)], channels=[channel.url])
    assert machine.envspec("install", SPEC, "--prefix", str(prefix)).status == 0
    (prefix / "share/out").symlink_to(victim)
    before = around(prefix, victim)
    write_lock(machine, [channel.pin(first), channel.pin(second)], channels=[channel.url])
    ran = machine.envspec("install", SPEC, "--prefix", str(prefix))
    assert ran.status == 3 and "share/out/f" in ran.error
    assert around(prefix, victim) == before


def test_a_wheel_through_a_conda_packages_link(machine: Machine, index: Index, channel: Channel, victim: Path) -> None:
    """uv follows a folder's link: what a conda package prepares, an honest wheel would do."""
    app = wheel("app", "1.0")
    index.add(app)
    prefix = machine.folder / "env"
    prepared = Forged("esc", "1.0", members=[link(f"{SITE}/app-1.0.dist-info", str(victim))])
    python = borrowed_python(SUBDIR)
    channel.add(python, prepared)
    write_lock(machine, [channel.pin(python), channel.pin(prepared), pip_pin(app)], channels=[channel.url])
    ran = machine.envspec("install", SPEC, "--prefix", str(prefix))
    assert ran.status == 3 and "a link to a folder outside the environment" in ran.error
    assert [path.name for path in victim.iterdir()] == ["precious"]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "path", first_by_day(1, ["../../../victim/precious", "{victim}/precious", "share/out/precious"])
)
@pytest.mark.parametrize("key", ["files", "paths_data"])
def test_a_record_that_lists_what_is_outside(
    machine: Machine, channel: Channel, prefix: Path, victim: Path, path: str, key: str
) -> None:
    """An environment that came from elsewhere, or was changed: what a record lists is removed with its package."""
    tool = data_package("tool", "1.0")
    channel.add(tool)
    write_lock(machine, [channel.pin(tool)], channels=[channel.url])
    assert machine.envspec("install", SPEC, "--prefix", str(prefix)).status == 0
    (prefix / "share/out").symlink_to(victim)
    record = prefix / "conda-meta/tool-1.0-0.json"
    content = json.loads(record.read_text())
    hostile = path.format(victim=victim)
    if key == "files":
        content["files"].append(hostile)
    else:
        content["paths_data"]["paths"].append({"_path": hostile, "path_type": "hardlink"})
    record.write_text(json.dumps(content))
    other = data_package("other", "1.0")
    channel.add(other)
    write_lock(machine, [channel.pin(other)], channels=[channel.url])
    ran = machine.envspec("install", SPEC, "--prefix", str(prefix))
    assert ran.status == 2 and "the record of tool lists" in ran.error and str(record) in ran.error
    assert (victim / "precious").read_text() == "precious"


@pytest.mark.slow
def test_an_honest_package_with_links_is_installed(machine: Machine, channel: Channel, prefix: Path) -> None:
    """Links inside, a link to a file outside, names that differ in case alone: real packages have them."""
    members = [
        Member("lib/libx.so.1", b"elf"), link("lib/libx.so", "libx.so.1"), link("lib64", "lib"),
        link("etc/mtab", "/proc/mounts"), Member("share/terminfo/N", b"1"), Member("share/terminfo/n", b"2"),
        Member("share/ünï/a b", b"3"), link("share/gone", "../nowhere"),
    ]  # fmt: skip
    honest = Forged("honest", "1.0", members=members, subdir=SUBDIR, noarch=None)
    through = Forged("through", "1.0", members=[Member("lib/y", b"y")])
    channel.add(honest, through)
    write_lock(machine, [channel.pin(honest), channel.pin(through)], channels=[channel.url])
    ran = machine.envspec("install", SPEC, "--prefix", str(prefix))
    if SUBDIR.startswith("linux"):
        assert ran.status == 0, ran.err
        assert (prefix / "lib64/libx.so").read_bytes() == b"elf"
