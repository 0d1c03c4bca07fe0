"""Layers as tars: in order, the same from any order of entries, and of one of the two kinds of compression."""

import io
import tarfile
from itertools import product

import pytest

from envspec.base.errors import ToolError
from envspec.image.layer import (
    LayerEntry,
    LayerPlan,
    _head,
    diff_id,
    folder_entry,
    in_order,
    link_entry,
    pack,
    tar_pieces,
    text_entry,
    unpack,
)

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
