"""SIF files that lie: of their descriptors, of their root's place and size, of its entries. Each is read within seconds
as Apptainer would run it, or refused by its name."""

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from envspec.base.errors import EnvspecError
from envspec.image.base import FOR_IMAGES, BaseFiles
from envspec.image.holdings import WANTED
from envspec.image.sif import _DESCRIPTOR, _HEADER, open_sif, read_sif

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not (shutil.which("mksquashfs") and shutil.which("unsquashfs")), reason="no squashfs-tools"),
]
SITE = "usr/lib/python3.11/site-packages"
TORCH = f"{SITE}/torch-2.5.1.dist-info/METADATA"
TREE = {
    "usr/bin/python3.11": "x",
    "usr/include/python3.11/patchlevel.h": '#define PY_VERSION "3.11.2"\n',
    TORCH: "Metadata-Version: 2.1\nName: torch\nVersion: 2.5.1\n",
    "etc/os-release": "ID=debian\n",
    "opt/loopdir/x": "1",
}
BEGIN = 4096
PLAIN = ("-noI", "-noD", "-noF", "-noX")
"""Nothing of the squashfs is packed, so that its bytes can be changed."""


def squashfs(folder: Path, more: Mapping[str, str] = {}, pseudo: str = "") -> bytes:
    for path, text in {**TREE, **more}.items():
        (folder / "root" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "root" / path).write_text(text)
    (folder / "pseudo").write_text(pseudo)
    made = folder / "made.sqfs"
    words = ["mksquashfs", str(folder / "root"), str(made), "-noappend", "-quiet", "-no-progress", *PLAIN]
    subprocess.run([*words, "-pf", str(folder / "pseudo")], check=True, stdout=subprocess.DEVNULL)
    return made.read_bytes()


def descriptor(kind: int = 0x4004, used: bool = True, begin: int = BEGIN, filesystem: int = 1, part: int = 2) -> bytes:
    extra = struct.pack("<ii", filesystem, part).ljust(384, b"\0")
    return _DESCRIPTOR.pack(kind, used, 1, 1, 0, begin, 1, 1, 0, 0, 0, 0, b"root", extra)


def sif(
    root: bytes, *descriptors: bytes, total: int | None = None, offset: int = 128, magic: bytes = b"SIF_MAGIC"
) -> bytes:
    rows = descriptors or (descriptor(),)
    count = len(rows) if total is None else total
    head = _HEADER.pack(b"#!run", magic, b"01", b"02", b"0" * 16, 0, 0, 0, count, offset, 0, BEGIN, len(root))
    return (head.ljust(128, b"\0") + b"".join(rows)).ljust(BEGIN, b"\0") + root


def put(root: bytes, at: int, form: str, value: int) -> bytes:
    changed = bytearray(root)
    struct.pack_into(form, changed, at, value)
    return bytes(changed)


def entry_of(root: bytes, name: bytes) -> int:
    """Where a name stands in the table of directories."""
    return root.index(name, struct.unpack_from("<Q", root, 72)[0])


def loop(root: bytes) -> bytes:
    """A directory that holds the root."""
    return put(root, entry_of(root, b"loopdir") - 8, "<H", struct.unpack_from("<Q", root, 32)[0] & 0xFFFF)


def leads_out(root: bytes) -> bytes:
    at = entry_of(root, b"loopdir")
    return root[:at] + b"../../x" + root[at + 7 :]


REFUSED: Mapping[str, Callable[[bytes], bytes]] = {
    "no magic": lambda root: sif(root, magic=b"FIS_MAGIC"),
    "fewer than no descriptors": lambda root: sif(root, total=-1),
    "descriptors without number": lambda root: sif(root, total=1 << 62),
    "more descriptors than bytes": lambda root: sif(root[:64], total=1000),
    "descriptors behind the end": lambda root: sif(root, offset=1 << 40),
    "descriptors before the beginning": lambda root: sif(root, offset=-1),
    "a descriptor cut off": lambda root: sif(root)[:300],
    "a root behind the end": lambda root: sif(root, descriptor(begin=1 << 40)),
    "a root before the beginning": lambda root: sif(root, descriptor(begin=-5)),
    "a root at the end": lambda root: sif(root, descriptor(begin=BEGIN + len(root))),
    "a root that is the header": lambda root: sif(root, descriptor(begin=0)),
    "a root within a root": lambda root: sif(root, descriptor(begin=BEGIN + 96)),
    "two roots": lambda root: sif(root, descriptor(), descriptor(begin=BEGIN + len(root))) + root,
    "a root of ext3 before one of squashfs": lambda root: sif(root, descriptor(filesystem=2), descriptor()),
    "an encrypted root": lambda root: sif(root, descriptor(filesystem=4)),
    "a root that isn't used": lambda root: sif(root, descriptor(used=False)),
    "no root": lambda root: sif(root, descriptor(part=1)),
    "a cut superblock": lambda root: sif(root[:40]),
    "half a squashfs": lambda root: sif(root[: struct.unpack_from("<Q", root, 64)[0]]),
    "a directory that holds itself": lambda root: sif(loop(root)),
    "a name that leads out": lambda root: sif(leads_out(root)),
    "inodes without number": lambda root: sif(put(root, 4, "<I", 0xFFFFFFFF)),
    "fragments without number": lambda root: sif(put(root, 16, "<I", 0xFFFFFFFF)),
    "owners without number": lambda root: sif(put(root, 26, "<H", 0xFFFF)),
    "bytes without number": lambda root: sif(put(root, 40, "<Q", 1 << 60)),
    "a table behind the end": lambda root: sif(put(root, 64, "<Q", 1 << 50)),
    "a packing that isn't one": lambda root: sif(put(root, 20, "<H", 77)),
    "blocks of another size": lambda root: sif(put(root, 12, "<I", 1 << 30)),
}


def read(path: Path, content: bytes) -> list[BaseFiles]:
    path.write_bytes(content)
    return [read_sif(open_sif(path), wanted, os.environ) for wanted in (WANTED, FOR_IMAGES)]


@pytest.mark.by_day(7)
@pytest.mark.parametrize("attack", REFUSED)
def test_it_is_refused_by_its_name(tmp_path: Path, attack: str) -> None:
    root = squashfs(tmp_path)
    of_packages, of_the_image = read(tmp_path / "honest.sif", sif(root))
    assert TORCH in of_packages.files and "etc/os-release" in of_the_image.files
    begun = time.monotonic()
    with pytest.raises(EnvspecError, match=r"bad\.sif"):
        read(tmp_path / "bad.sif", REFUSED[attack](root))
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize(
    "pseudo",
    [
        "etc/passwd c 666 0 0 1 5",
        "etc/passwd b 666 0 0 8 0",
        "etc/passwd i 666 0 0 f",
        "etc/passwd i 666 0 0 s",
        "etc/passwd s 777 0 0 /etc/shadow",
        "etc/passwd d 755 0 0",
    ],
)
def test_what_is_no_file_has_no_content(tmp_path: Path, pseudo: str) -> None:
    of_packages, of_the_image = read(tmp_path / "odd.sif", sif(squashfs(tmp_path, pseudo=f"{pseudo}\n")))
    assert "etc/passwd" not in of_the_image.files and TORCH in of_packages.files


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 200 << 20)
    place = f"{SITE}/big-1.dist-info"
    root = squashfs(tmp_path, pseudo=f"{place} d 755 0 0\n{place}/METADATA f 644 0 0 cat {tmp_path}/large\n")
    with pytest.raises(EnvspecError, match="bytes of records, and"):
        read(tmp_path / "large.sif", sif(root))


def records(count: int) -> dict[str, str]:
    return {f"{SITE}/{'p' * 160}{at}-1.dist-info/METADATA": f"Name: p{at}\nVersion: 1\n" for at in range(count)}


@pytest.mark.slow
def test_more_records_than_a_command_has_words(tmp_path: Path) -> None:
    many = records(1000)
    of_packages, _ = read(tmp_path / "many.sif", sif(squashfs(tmp_path, many)))
    assert all(of_packages.files[path].decode() == text for path, text in many.items())


@pytest.mark.slow
def test_records_without_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envspec.image.sif._MOST_RECORDS", 300)
    with pytest.raises(EnvspecError, match="more than 300 records"):
        read(tmp_path / "many.sif", sif(squashfs(tmp_path, records(301))))


def test_names_that_are_lines_of_a_list(tmp_path: Path) -> None:
    """unsquashfs prints names as they are: what one makes of another line isn't there, or is as it says."""
    line = "a\n-rw-r--r-- root/root 9 2020-01-01 00:00 squashfs-root"
    root = squashfs(tmp_path, {f"opt/{line}/usr/lib/site-packages/evil-9.dist-info/METADATA": "Name: evil\n"})
    with suppress(EnvspecError):
        of_packages, _ = read(tmp_path / "lines.sif", sif(root))
        assert not any("evil" in path and path.startswith("usr/") for path in of_packages.files)


@pytest.mark.slow
@pytest.mark.parametrize("count", [20, pytest.param(300, marks=pytest.mark.nightly)])
def test_a_root_changed_at_random(tmp_path: Path, count: int) -> None:
    root, chance = squashfs(tmp_path), Random(count)
    for _ in range(count):
        changed = bytearray(root)
        for _ in range(chance.randint(1, 6)):
            end = chance.choice((96, len(root)))
            changed[chance.randrange(end)] = chance.choice((0, 255, chance.randrange(256)))
        begun = time.monotonic()
        with suppress(EnvspecError):
            read(tmp_path / "changed.sif", sif(bytes(changed)))
        assert time.monotonic() - begun < 30
