"""Bases that lie, lead out or swell: each is refused by its name, and nothing of it is written anywhere."""

import gzip
import hashlib
import io
import json
import tarfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from msgspec.structs import replace
from support.base_image import add_blob, documents, layer, system, text, write_base, write_layout
from support.index import Index
from support.installs import PYTHON, SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.base.open_folder import open_folder
from envspec.image import base, layer_stream
from envspec.image.layout import layout_source
from envspec.net.limits import LIMITS

LIB = wheel("lib", "1.0")


@pytest.fixture
def machine(machine: Machine, index: Index) -> Machine:
    index.add(LIB)
    write_lock(machine, [pip_pin(LIB)], platform="linux-64")
    return machine


def refused(machine: Machine, said: str, *arguments: str) -> None:
    before = set(machine.folder.rglob("*"))
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out.tar", *arguments)
    assert ran.status in (2, 3) and said in ran.err and "Traceback" not in ran.err, ran.err
    assert set(machine.folder.rglob("*")) == before
    assert not list(machine.cache.rglob("scratch/*"))


def entry(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.size = kind, size
        archive.addfile(info, io.BytesIO(bytes(size)))
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../etc/passwd", "etc/../../x", "usr/bin/../../../x"])
def test_an_entry_that_leads_out(name: str, machine: Machine) -> None:
    write_base(machine.folder / "base", system(PYTHON), entry(name))
    refused(machine, "leads out of the image")


@pytest.mark.slow
def test_a_list_of_packages_without_end(machine: Machine) -> None:
    write_base(machine.folder / "base", system(PYTHON), entry("var/lib/dpkg/status", 40 << 20))
    refused(machine, "are the most that are read")


def test_a_layer_that_swells(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the real limit it would be 512 MiB, which take seconds to pack."""
    monkeypatch.setattr(layer_stream, "LIMITS", replace(LIMITS, unpacked_bytes=16 << 20))
    write_base(machine.folder / "base", system(PYTHON), entry("etc/big", 20 << 20))
    refused(machine, "the most for its size")


@pytest.mark.slow
def test_a_layer_of_zstd_that_swells(machine: Machine) -> None:
    """A few KB of 4 GiB, by the real limit: they are unpacked a piece at a time, and no farther than that."""
    folder = write_base(machine.folder / "base", system(PYTHON), {})
    manifest, _ = documents(folder)
    info = tarfile.TarInfo("etc/big")
    info.size = 4 << 30
    frames = zstandard.compress(info.tobuf()) + zstandard.compress(bytes(64 << 20)) * 64
    manifest["layers"][1] = add_blob(folder, frames, "layer.v1.tar+zstd")
    write_layout(folder, manifest["config"], manifest["layers"])
    assert len(frames) < 1 << 20
    begun = time.process_time()
    tracemalloc.start()
    try:
        refused(machine, "it unpacks to more than 512 MiB, the most for its size")
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert time.process_time() - begun < 20, "all of it takes minutes"


def changed(folder: Path, digest: str) -> None:
    path = folder / "blobs" / "sha256" / digest.removeprefix("sha256:")
    # of the same size: gzip takes no notice of the NULs behind it
    path.write_bytes(gzip.compress(layer({"etc/passwd": "other"}), mtime=0).ljust(path.stat().st_size, b"\0"))


def test_a_layer_that_was_exchanged(machine: Machine) -> None:
    folder = write_base(machine.folder / "base", system(PYTHON))
    (top,) = json.loads((folder / "index.json").read_bytes())["manifests"]
    manifest = json.loads((folder / "blobs" / "sha256" / top["digest"][7:]).read_bytes())
    changed(folder, manifest["layers"][0]["digest"])
    refused(machine, "a layer's content isn't that of")


@pytest.mark.parametrize("of", ["what is packed", "what it unpacks to"])
def test_a_layer_of_another_digest(of: str, machine: Machine) -> None:
    """Of one alone: whoever pulls the image compares them, and layers are kept by either."""
    folder = write_base(machine.folder / "base", system(PYTHON))
    manifest, config = documents(folder)
    row = manifest["layers"][0]
    if of == "what is packed":
        path = folder / "blobs" / "sha256" / row["digest"][7:]
        again = gzip.compress(gzip.decompress(path.read_bytes()), 9, mtime=1)
        path.write_bytes(again.ljust(row["size"], b"\0"))
        assert len(again) <= row["size"]
    else:
        config["rootfs"]["diff_ids"] = ["sha256:" + "0" * 64]
        kind = "config.v1+json"
        write_layout(folder, add_blob(folder, json.dumps(config).encode(), kind), manifest["layers"])
    refused(machine, "a layer's content isn't that of")


def test_a_layer_of_more_entries_than_a_system_has(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_stream, "LIMITS", replace(LIMITS, archive_entries=20))
    write_base(machine.folder / "base", system(PYTHON), dict.fromkeys(map(str, range(101)), ""))
    refused(machine, "it has more than 100 entries")


def test_a_manifest_that_was_exchanged(machine: Machine) -> None:
    folder = write_base(machine.folder / "base", system(PYTHON))
    (top,) = json.loads((folder / "index.json").read_bytes())["manifests"]
    path = folder / "blobs" / "sha256" / top["digest"][7:]
    path.write_bytes(path.read_bytes().replace(b'"schemaVersion": 2', b'"schemaVersion": 3'))
    refused(machine, "isn't what its digest says")


def _no_configuration(folder: Path) -> None:
    row = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": "sha256:" + "0" * 64, "size": 2}
    write_layout(folder, row, [])


def _deep(folder: Path) -> None:
    text = b"[" * 100_000
    digest = hashlib.sha256(text).hexdigest()
    (folder / "blobs" / "sha256" / digest).write_bytes(text)
    row = {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": f"sha256:{digest}", "size": len(text)}
    write_layout(folder, row, [])


def _out_of_the_folder(folder: Path) -> None:
    row = {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:../../../secret", "size": 1}
    (folder / "index.json").write_text(json.dumps({"manifests": [row]}))


def _a_link(folder: Path) -> None:
    blobs = folder / "blobs"
    blobs.rename(folder.parent / "moved")
    blobs.symlink_to(folder.parent / "moved")


def _no_object(folder: Path) -> None:
    (folder / "index.json").write_text("[]")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_no_configuration, "has no blob sha256:"),
        (_deep, "isn't JSON"),
        (_out_of_the_folder, "no sha256 or no size"),
        (_a_link, "link"),
        (_no_object, "can't be read"),
    ],
)
def test_a_layout_that_lies(spoil: Callable[[Path], None], said: str, machine: Machine) -> None:
    spoil(write_base(machine.folder / "base", system(PYTHON)))
    refused(machine, said)


def test_a_link_where_the_image_is_written(machine: Machine, tmp_path: Path) -> None:
    write_base(machine.folder / "base", system(PYTHON))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (machine.folder / "out").symlink_to(elsewhere)
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out")
    assert ran.status == 2 and "link" in ran.err and not list(elsewhere.iterdir())


def test_indexes_that_name_each_other_over_and_over(machine: Machine) -> None:
    """A thousand by a thousand rows would be a million documents, out of two that are stored."""
    folder = write_base(machine.folder / "base", system(PYTHON))
    inner = add_blob(folder, b'{"schemaVersion": 2, "manifests": []}', "index.v1+json")
    for _ in range(2):
        text = json.dumps({"schemaVersion": 2, "manifests": [inner] * 1000})
        inner = add_blob(folder, text.encode(), "index.v1+json")
    (folder / "index.json").write_text(json.dumps({"manifests": [inner]}))
    refused(machine, "has no image for linux/amd64")


def test_more_indexes_than_an_image_has(machine: Machine) -> None:
    folder = write_base(machine.folder / "base", system(PYTHON))
    rows = [add_blob(folder, json.dumps({"number": number}).encode(), "index.v1+json") for number in range(100)]
    top = add_blob(folder, json.dumps({"manifests": rows}).encode(), "index.v1+json")
    (folder / "index.json").write_text(json.dumps({"manifests": [top]}))
    refused(machine, "more than 100 indexes")


def test_files_that_are_too_much_together(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is small enough, and all are held in memory until the last layer is read."""
    monkeypatch.setattr(base, "FOR_IMAGES", replace(base.FOR_IMAGES, most=1 << 20))
    write_base(machine.folder / "base", system(PYTHON), *({f"etc/skel/{each}": bytes(300 << 10)} for each in "abcd"))
    refused(machine, "1048576 of all files are the most that are read")


def test_files_that_stand_in_the_place_of_others_need_no_more_room(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "FOR_IMAGES", replace(base.FOR_IMAGES, most=1 << 20))
    write_base(machine.folder / "base", system(PYTHON), *({"etc/skel/a": bytes(400 << 10)} for _ in range(5)))
    assert machine.envspec("image", SPEC, "--base", "./base", "-o", "out.tar").status == 0


@pytest.mark.parametrize("more", [-1, 1, 1 << 50])
def test_a_layer_of_another_size(more: int, machine: Machine) -> None:
    """What it may unpack to goes by its size, and who pulls the image would be told the wrong one."""
    folder = write_base(machine.folder / "base", system(PYTHON))
    manifest, _ = documents(folder)
    manifest["layers"][0]["size"] += more
    write_layout(folder, manifest["config"], manifest["layers"])
    refused(machine, "bytes, and its image says")


@pytest.mark.slow
def test_thousands_of_whiteouts_over_thousands_of_files(tmp_path: Path) -> None:
    names = [f"etc/skel/{number}" for number in range(4000)]
    gone = [name.replace("skel/", "skel/.wh.") for name in names]
    folder = write_base(tmp_path / "base", *(dict.fromkeys(each, "") for each in (names, gone, names, names)))
    begun = time.process_time()
    found = layout_source(folder, open_folder(folder)).image("linux/amd64").files
    assert sorted(found.files) == sorted(names)
    assert time.process_time() - begun < 5, "each of one by each of the other takes four times as long"


@pytest.mark.slow
def test_the_entries_of_a_layer_are_not_kept(tmp_path: Path) -> None:
    """A million of them would be a gigabyte."""
    folder = write_base(tmp_path / "base", dict.fromkeys((f"usr/share/{number}" for number in range(20_000)), ""))
    tracemalloc.start()
    try:
        layout_source(folder, open_folder(folder)).image("linux/amd64")
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.by_day(3)
@pytest.mark.parametrize("line", ["dev", "dev:x", ":::", "dev:x:1000"])
@pytest.mark.parametrize("file", ["passwd", "group", "shadow"])
def test_a_list_of_users_with_half_a_line(file: str, line: str, machine: Machine) -> None:
    write_base(machine.folder / "base", system(PYTHON, more={f"etc/{file}": f"root:x:0:0:root:/:/bin/sh\n{line}\n"}))
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out.tar")
    assert ran.status == 0, ran.err


@pytest.mark.parametrize("end", ["\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028"])
def test_half_a_line_of_passwd_becomes_no_user(end: str, machine: Machine) -> None:
    """For the C library, and whoever looks at the base, it is a part of the line before."""
    line = f"lp:x:7:7:printer{end}evil::0:0::/:/bin/sh\n"
    write_base(machine.folder / "base", system(PYTHON, more={"etc/passwd": f"root:x:0:0:root:/:/bin/sh\n{line}"}))
    assert machine.envspec("image", SPEC, "--base", "./base", "-o", "out").status == 0
    assert line in text(machine.folder / "out", "system", "etc/passwd")


def test_a_user_that_the_base_has_already(machine: Machine) -> None:
    more = {"etc/passwd": "root:x:0:0:root:/:/bin/sh\ndev:x:7:7::/:/bin/sh\n"}
    write_base(machine.folder / "base", system(PYTHON, more=more))
    refused(machine, 'the base image has a user "dev" with the number 7')


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_name_or_attributes_without_end(kind: bytes, machine: Machine) -> None:
    """`tarfile` reads them whole into memory; packed they are small."""
    write_base(machine.folder / "base", system(PYTHON), entry("x", 3 << 20, kind))
    refused(machine, "a member's name or attributes have")


def test_global_attributes_that_grow(machine: Machine) -> None:
    rows = b"".join(entry("x", 700_000, tarfile.XGLTYPE)[: 512 + 700_416] for _ in range(3))
    write_base(machine.folder / "base", system(PYTHON), rows + bytes(1024))
    refused(machine, "a member's name or attributes have")


@pytest.mark.by_day(8)
@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("name", ["var/lib/dpkg/status", "etc/os-release", "etc/passwd", "usr/bin/python3", "etc"])
def test_a_device_in_place_of_what_is_read(name: str, kind: bytes, machine: Machine) -> None:
    write_base(machine.folder / "base", system(PYTHON), entry(name, kind=kind))
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out.tar")
    assert ran.status == 0, ran.err


@pytest.mark.parametrize("name", [".wh.", ".wh..", ".wh...", "a/.wh..wh..opq", ".wh..wh..opq", "etc/.wh.", ".wh..wh.x"])
def test_whiteouts_of_odd_names(name: str, machine: Machine) -> None:
    write_base(machine.folder / "base", system(PYTHON), entry(name))
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out.tar")
    assert ran.status in (0, 2, 3) and "Traceback" not in ran.err


@pytest.mark.by_day(7)
@pytest.mark.parametrize("to", ["/etc/passwd", "../../../../etc/passwd", "self", "/proc/self/mem"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("name", ["var/lib/dpkg/status", "etc/os-release", "self"])
def test_links_that_lead_out(name: str, kind: bytes, to: str, machine: Machine) -> None:
    """Nothing is unpacked, so nothing of this machine is read through one."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, to
    write_base(machine.folder / "base", system(PYTHON), info.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
    ran = machine.envspec("image", SPEC, "--base", "./base", "-o", "out.tar")
    assert ran.status == 0 and "root:" not in ran.out + ran.err, ran.err
