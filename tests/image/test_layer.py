"""Layers of an image: their members and bytes, how packages are parted over them, and files that packages share."""

import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from envspec_check.lock import read_target
from msgspec.structs import replace
from support.installs import PYTHON, pip_pin
from support.packages import Dist, wheel
from support.recipes import RENDERED, all_recipes

from envspec.base.errors import ToolError
from envspec.image.layer import (
    LayerEntry,
    LayerPlan,
    _head,
    beside,
    diff_id,
    folder_entry,
    in_order,
    join_pieces,
    link_entry,
    pack,
    tar_pieces,
    text_entry,
    unpack,
)
from envspec.image.layers import LayerInputs, SliceParts, layer_of, package_layers, split_slice
from envspec.image.wheel import WheelMember
from envspec.lock.model import LockedTarget, TargetInputs

LONG = "opt/env/" + "x" * 120 + "/" + "y" * 120
ENTRIES = [
    text_entry("opt/env/b", "later"),
    text_entry("opt/env/a/z", "deep"),
    text_entry("opt/env/a.txt", "beside"),
    link_entry("opt/env/link", "a.txt"),
    folder_entry("opt/env/empty", 0o700, 1000),
    text_entry(LONG, "long"),
    text_entry("opt/env/ünï", "not ASCII"),
]


def plan(entries: list[LayerEntry]) -> LayerPlan:
    return LayerPlan("rest", "sha256:" + "0" * 64, lambda: entries)


def names(entries: list[LayerEntry]) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(b"".join(tar_pieces(entries, 7)))) as archive:
        assert {member.mtime for member in archive} == {7}
        return archive.getnames()


def test_heads_are_those_of_tarfile() -> None:
    paths = ("a", "opt/" + "x" * 96, "opt/" + "x" * 97, "opt/ü", "opt/a b", "opt/~")
    sizes, owned = (0, 1, 8**7, 8**11 - 1, 8**11), ((0o644, 0), (0o755, 1000))
    for path, size, (mode, owner) in product(paths, sizes, owned):
        info = tarfile.TarInfo(path)
        info.size, info.mode, info.uid, info.gid, info.mtime = size, mode, owner, owner, 315532800
        own = _head(LayerEntry(path, size, io.BytesIO, mode=mode, owner=owner), 315532800)
        assert own == info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"), (path, size, mode)


def test_entries_come_after_their_folders() -> None:
    found = names(ENTRIES)
    assert found[:4] == ["opt/env", "opt/env/a", "opt/env/a/z", "opt/env/a.txt"]
    assert "opt" not in found, "what bases have keeps its mode"
    assert LONG in found and "opt/env/ünï" in found


def test_any_order_gives_the_same_bytes() -> None:
    assert b"".join(tar_pieces(ENTRIES, 7)) == b"".join(tar_pieces(ENTRIES[::-1], 7))


def test_of_two_files_at_one_path_the_later_counts() -> None:
    twice = [text_entry("opt/x", "first"), text_entry("opt/x", "second")]
    (entry,) = in_order(twice)
    assert entry.content is not None and entry.content().read() == b"second"


@pytest.mark.parametrize("kind", ["zstd", "gzip"])
def test_what_is_packed_unpacks_to_its_content(kind: str) -> None:
    out = io.BytesIO()
    packed = pack(plan(ENTRIES), out, kind, 7)
    assert packed.blob.size == len(out.getvalue()) and packed.diff_id == diff_id(plan(ENTRIES), 7)
    assert unpack(kind, io.BytesIO(out.getvalue())).read(-1) == b"".join(tar_pieces(ENTRIES, 7))


def test_zstd_gives_the_same_bytes_with_any_number_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    large = [text_entry("opt/large", bytes(range(256)) * 50_000)]
    found = set()
    for count in (1, 2, 8):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        out = io.BytesIO()
        pack(plan(large), out, "zstd", 7)
        found.add(out.getvalue())
    assert len(found) == 1


def test_a_file_that_shrank_is_refused() -> None:
    with pytest.raises(ToolError, match=r"opt/x has 1 bytes instead of 2"):
        list(tar_pieces([LayerEntry("opt/x", 2, lambda: io.BytesIO(b"1"))], 7))


NOISE = random.Random(7).randbytes(300_000)
CONTENTS = {"empty": b"", "small": b"text\n", "zeros": bytes(3 << 20), "noise": NOISE, "mixed": NOISE + bytes(1 << 19)}
KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wheel") / "a.whl"
    with zipfile.ZipFile(path, "w") as made:
        for kind in KINDS:
            for name, content in CONTENTS.items():
                made.writestr(f"{kind}/{name}", content, kind)
    return path


@pytest.mark.parametrize("size", [100_000, 1 << 20, -1])
def test_members_are_read_whole(archive: Path, size: int) -> None:
    for info in zipfile.ZipFile(archive).infolist():
        with WheelMember.of(archive, info)() as stream:
            found = b"".join(iter(lambda: stream.read(size), b""))
        assert found == CONTENTS[info.filename.partition("/")[2]], info.filename


@pytest.mark.parametrize("kind", KINDS[:2])
def test_a_file_that_was_changed_meanwhile_is_told(archive: Path, tmp_path: Path, kind: int) -> None:
    info = zipfile.ZipFile(archive).getinfo(f"{kind}/noise")
    content = bytearray(archive.read_bytes())
    content[info.header_offset + 5000] ^= 0xFF
    other = tmp_path / "b.whl"
    other.write_bytes(content)
    with WheelMember.of(other, info)() as stream, pytest.raises(ToolError, match="can't be read"):
        stream.read()


def test_pieces_are_joined_in_their_order() -> None:
    pieces = [bytes([number % 256]) * (number * 977 % 400_000) for number in range(60)]
    found = list(join_pieces(pieces))
    assert b"".join(found) == b"".join(pieces) and min(map(len, found[:-1])) >= 1 << 20


def test_what_fails_beside_fails_the_block() -> None:
    seen: list[bytes] = []

    def work(piece: bytes) -> None:
        seen.append(piece)
        if piece == b"2":
            raise OSError("the disk is full")

    def fill(work: Callable[[bytes], object], end: Exception | None = None) -> None:
        with beside(work) as hand:
            for number in range(50):
                hand(str(number).encode())
            if end:
                raise end

    with pytest.raises(OSError, match="the disk is full"):
        fill(work)
    assert seen == [b"0", b"1", b"2"]
    with pytest.raises(KeyError):
        fill(seen.append, KeyError())
    assert seen[-1] == b"49"


def placed(parts: SliceParts, folder: Path) -> Path:
    (folder / "packages").mkdir(exist_ok=True)
    for layer, text in parts.of_layers.items():
        (folder / SliceParts.path(layer)).write_text(text, encoding="utf-8")
    (folder / "target.json").write_text(parts.target, encoding="utf-8")
    return folder / "target.json"


@RENDERED
def test_what_is_shared_out_is_put_together_again(tmp_path: Path) -> None:
    for number, path in enumerate(all_recipes().glob("*/*/target.json")):
        (tmp_path / str(number)).mkdir()
        document = read_target(str(path))
        assert read_target(str(placed(split_slice(document, layer_of), tmp_path / str(number)))) == document, path


def moved(document: dict[str, Any], name: str) -> dict[str, Any]:
    rows = [{**row, "version": "99"} if row["name"] == name else row for row in document["lock"]["pip"]]
    return {**document, "lock_digest": "sha256:1", "lock": {**document["lock"], "pip": rows}}


@pytest.mark.parametrize(("name", "layer"), [("torch", "torch"), ("nvidia-cublas-cu12", "nvidia"), ("numpy", "rest")])
@RENDERED
def test_a_package_that_moves_changes_one_text(name: str, layer: str) -> None:
    document = read_target(str(all_recipes() / "llm-v2.9" / "cu128-hopper" / "target.json"))
    before, after = (split_slice(one, layer_of) for one in (document, moved(document, name)))
    assert after.target == before.target
    assert {one for one, text in after.of_layers.items() if text != before.of_layers[one]} == {layer}
    newer = split_slice({**document, "code": {"sm": ["9.9"], "ptx": []}}, layer_of)
    assert newer.target == before.target, "what torch is compiled for goes with torch"


@pytest.mark.parametrize(
    "text",
    ["{}", "[]", '{"lock": []}', '{"lock": {"pip": []}}', '{"lock": {"pip": [1]}}', '{"lock": {"env": []}}', "{"],
)
def test_parts_of_no_slice_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(text)
    (tmp_path / "target.json").write_text('{"parts": ["one.json"], "lock": {"env": {}}, "direct": [["pip", "a"]]}')
    with pytest.raises(ValueError):
        read_target(str(tmp_path / "target.json"))


def test_a_part_that_is_missing_is_told(tmp_path: Path) -> None:
    (tmp_path / "target.json").write_text('{"parts": ["one.json"], "lock": {}}')
    with pytest.raises(OSError):
        read_target(str(tmp_path / "target.json"))


SHARED = f"opt/env/lib/python{PYTHON}/site-packages/tests/__init__.py"


def layers(folder: Path, *dists: tuple[Dist, str]) -> dict[str, set[str]]:
    """The content of the shared path in each layer, with the layer's key; empty where it isn't there."""
    pins, wheels = [], {}
    for dist, requires in dists:
        pin = replace(pip_pin(dist), dependencies=(requires,) if requires else ())
        path = folder / dist.file
        path.write_bytes(dist.content)
        pins.append(pin)
        wheels[pin.index, dist.file] = path
    asked = tuple(pin.name for pin in pins)
    target = LockedTarget("t", TargetInputs("linux-64", PYTHON, "2.28", requirements=asked), tuple(pins))
    runtime, sources = SimpleNamespace(on_base=None, python=PYTHON), SimpleNamespace(explicit=None)
    plan = cast("Any", SimpleNamespace(runtime=runtime, sources=sources))
    inputs = LayerInputs(plan, target, cast("Any", None), None, {}, {}, wheels)
    found = {}
    for layer in package_layers(inputs):
        there = [one.content for one in layer.entries() if one.path == SHARED and one.content]
        found[layer.name] = {layer.key, ""}
        if there:
            with there[-1]() as file:
                found[layer.name] = {layer.key, file.read().decode()}
    return found


def shared(name: str) -> Dist:
    return wheel(name, "1.0", files={"tests/__init__.py": name.encode()})


def test_a_layer_above_leaves_out_what_stays_in_one_below(tmp_path: Path) -> None:
    assert (layer_of("pip", "triton"), layer_of("pip", "low")) == ("torch", "rest")
    found = layers(tmp_path, (shared("low"), ""), (shared("triton"), "low"))
    assert "triton" in found["torch"] and "" in found["rest"]
    found = layers(tmp_path, (shared("low"), "triton"), (shared("triton"), ""))
    assert "triton" in found["torch"] and "low" in found["rest"]


def test_within_a_layer_the_last_one_stays_and_the_key_says_so(tmp_path: Path) -> None:
    one = layers(tmp_path, (shared("a"), "b"), (shared("b"), ""))["rest"]
    other = layers(tmp_path, (shared("a"), ""), (shared("b"), "a"))["rest"]
    assert "a" in one and "b" in other and not one & other
