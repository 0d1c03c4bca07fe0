"""A zip cut down to some of its entries: zipfile reads of it what it reads of the whole."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from envspec.packages.zip_list import with_names_like

NAMES = ("a/__init__.py", "a-1.0.dist-info/METADATA", "a/METADATA.txt", "a/ü.py", "a-1.0.dist-info/RECORD")


def zipped(*, compression: int = zipfile.ZIP_DEFLATED, comment: bytes = b"", names: tuple[str, ...] = NAMES) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name in names:
            archive.writestr(name, f"{name}\n" * 100)
        archive.comment = comment
    return made.getvalue()


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_wanted_entries_are_read_as_of_the_whole(compression: int) -> None:
    whole = io.BytesIO(zipped(compression=compression))
    cut = with_names_like(b"METADATA", whole)
    assert cut is not whole
    with zipfile.ZipFile(whole) as archive, zipfile.ZipFile(cut) as some:
        assert some.namelist() == [name for name in archive.namelist() if "METADATA" in name]
        assert some.testzip() is None
        for name in some.namelist():
            assert some.read(name) == archive.read(name) == f"{name}\n".encode() * 100


def test_none_of_the_wanted() -> None:
    with zipfile.ZipFile(with_names_like(b"nothing", io.BytesIO(zipped()))) as archive:
        assert archive.namelist() == []


def _with(at: int, other: bytes) -> Callable[[bytes], bytes]:
    """Change bytes, counted from the end."""
    return lambda whole: whole[: len(whole) + at] + other + whole[len(whole) + at + len(other) :]


@pytest.mark.parametrize(
    "changed",
    [
        lambda whole: b"before " + whole,
        lambda whole: whole + b"behind",
        lambda whole: whole[:-1],
        lambda whole: whole[-10:],
        lambda whole: b"",
        lambda whole: zipped(comment=b"a word"),
        lambda whole: whole.replace(b"PK\1\2", b"PK\1\3", 1),
        _with(-12, b"\1\0"),
        _with(-14, b"\1\0\1\0"),
        _with(-14, b"\xff\xff\xff\xff"),
        _with(-6, b"\xff\xff\xff\xff"),
    ],
)
def test_what_is_no_plain_zip_is_left_as_it_is(changed: Callable[[bytes], bytes]) -> None:
    file = io.BytesIO(changed(zipped()))
    assert with_names_like(b"METADATA", file) is file


def test_reading_goes_over_the_place_of_the_cut() -> None:
    whole = zipped()
    cut = with_names_like(b"METADATA", io.BytesIO(whole))
    start = int.from_bytes(whole[-6:-2], "little")
    everything = cut.read()
    assert everything[:start] == whole[:start] and everything[-22:-18] == b"PK\5\6"
    for place in (0, start - 3, start, start + 3):
        for size in (0, 1, 5, len(everything)):
            cut.seek(place)
            assert cut.read(size) == everything[place : place + size]
            assert cut.tell() == min(place + size, len(everything))
    assert cut.seek(-4, io.SEEK_END) == len(everything) - 4 and cut.seek(1, io.SEEK_CUR) == len(everything) - 3
    with pytest.raises(OSError, match="before the file's start"):
        cut.seek(-1)
