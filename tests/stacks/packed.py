"""A project's recording in a small file: one compressed stream of columns, in which like stands beside like.

A SHA-256 doesn't compress, nor do sizes and microseconds, and a page lists many hundred. So those of the releases that
a resolver looked into are kept, which are all that an answer can name; the files of every other release have a SHA-256
made of their name, no size, and the second of their upload.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from array import array
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename

Row = list[Any]
"""A file of a page: name, SHA-256, size, upload time, Requires-Python, why it is yanked (or null)."""

_LARGEST_WINDOW = 1 << 26
"""Bytes in which the compressor looks for what it has seen."""


def pack(pages: Mapping[str, list[Row]], files: dict[str, bytes], asked: Iterable[str], more: dict[str, Any]) -> bytes:
    """Pack pages, and files whole. `asked` names files of the releases whose SHA-256 are kept; `more` becomes JSON."""
    whole = {project: pages[project] for project in sorted(pages)}
    rows = [row for page in whole.values() for row in page]
    known = {release(file) for file in asked}
    kept = [release(row[0]) in known for row in rows]
    looked_into = [row for row, one in zip(rows, kept, strict=True) if one]
    pythons, yanked = (sorted({json.dumps(row[column]) for row in rows}) for column in (4, 5))
    head = {
        "pages": {project: len(page) for project, page in whole.items()},
        "names": [row[0] for row in rows],
        "pythons": [json.loads(one) for one in pythons],
        "yanked": [json.loads(one) for one in yanked],
        "files": {file: len(files[file]) for file in sorted(files)},
        **more,
    }
    text = json.dumps(head, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    python_of, yanked_of = ({one: number for number, one in enumerate(column)} for column in (pythons, yanked))
    parts = [
        len(text).to_bytes(8, "little"),
        text,
        bytes(kept),
        _planes((_time(row[3])[0] for row in rows), 4),
        _planes((python_of[json.dumps(row[4])] for row in rows), 2),
        _planes((yanked_of[json.dumps(row[5])] for row in rows), 2),
        _planes((row[2] or 0 for row in looked_into), 8),
        _planes((_time(row[3])[1] for row in looked_into), 4),
        *(bytes.fromhex(row[1]) for row in looked_into),
        *(files[file] for file in sorted(files)),
    ]
    content = b"".join(parts)
    window = min(_LARGEST_WINDOW, max(1 << 12, 1 << len(content).bit_length()))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": window}]
    return lzma.compress(content, filters=filters)


class Pages(Mapping[str, list[Row]]):
    """The pages of a packed recording; the rows of one are made when it is asked for."""

    def __init__(self, head: dict[str, Any], content: memoryview) -> None:
        self._names: list[str] = head.pop("names")
        self._pythons, self._reasons = head.pop("pythons"), head.pop("yanked")
        self._at: dict[str, range] = {}
        start = 0
        for project, count in head.pop("pages").items():
            self._at[project] = range(start, start := start + count)
        rows, at = len(self._names), 0

        def column(count: int, width: int) -> memoryview:
            nonlocal at
            part, at = content[at : at + count * width], at + count * width
            return part

        self._kept = bytes(column(rows, 1))
        self._seconds, self._python, self._yanked = (_values(column(rows, width), width) for width in (4, 2, 2))
        kept = sum(self._kept)
        self._sizes, self._microseconds = (_values(column(kept, width), width) for width in (8, 4))
        self._hashes = column(kept, 32)
        self.size = at

    def __getitem__(self, project: str) -> list[Row]:
        at = self._at[project]
        kept = self._kept[: at.start].count(1)
        rows: list[Row] = []
        for number in at:
            name, seconds = self._names[number], self._seconds[number]
            python, reason = self._pythons[self._python[number]], self._reasons[self._yanked[number]]
            if self._kept[number]:
                sha256 = bytes(self._hashes[32 * kept : 32 * kept + 32]).hex()
                time = _written(seconds, self._microseconds[kept])
                rows.append([name, sha256, self._sizes[kept] or None, time, python, reason])
                kept += 1
            else:
                rows.append([name, stand_in(name), None, _written(seconds, 0), python, reason])
        return rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._at)

    def __len__(self) -> int:
        return len(self._at)


def unpack(packed: bytes) -> tuple[Pages, dict[str, bytes], dict[str, Any]]:
    """Give back the pages, the files and the rest of a packed recording."""
    content = memoryview(lzma.decompress(packed))
    size = int.from_bytes(content[:8], "little")
    head = json.loads(bytes(content[8 : 8 + size]))
    pages = Pages(head, content[8 + size :])
    at, files = 8 + size + pages.size, {}
    for file, count in head.pop("files").items():
        files[file] = bytes(content[at : at + count])
        at += count
    return pages, files, head


def release(file: str) -> tuple[str, str]:
    """Give project and version of a file by its name; the name itself where it is of another kind."""
    try:
        if file.endswith(".whl"):
            name, version = parse_wheel_filename(file)[:2]
        else:
            name, version = parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return file, ""
    return name, str(version)


def stand_in(file: str) -> str:
    """Give the SHA-256 of a file whose own isn't kept."""
    return hashlib.sha256(file.encode()).hexdigest()


def _planes(values: Iterable[int], width: int) -> bytes:
    """Write numbers byte by byte: first the lowest of all."""
    whole = b"".join(value.to_bytes(width, "little") for value in values)
    return b"".join(whole[byte::width] for byte in range(width))


def _values(planes: memoryview, width: int) -> array[int]:
    count = len(planes) // width
    whole = bytearray(len(planes))
    for byte in range(width):
        whole[byte::width] = planes[byte * count : (byte + 1) * count]
    return array({2: "H", 4: "I", 8: "Q"}[width], bytes(whole))


def _time(text: str) -> tuple[int, int]:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(moment.timestamp()), moment.microsecond


def _written(seconds: int, microseconds: int) -> str:
    moment = datetime.fromtimestamp(seconds, timezone.utc)
    return moment.replace(microsecond=microseconds).isoformat().replace("+00:00", "Z")
