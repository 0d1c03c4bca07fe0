"""Members of wheels as streams: what zipfile gives, and nothing of a file that was changed."""

import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from envspec.base.errors import ToolError
from envspec.image.layer import beside, join_pieces
from envspec.image.wheel import WheelMember

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
