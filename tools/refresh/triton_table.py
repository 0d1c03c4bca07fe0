"""The update of `data/triton.toml`: the CUDA of the compilers in triton's wheels, from a bounded part of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from zipfile import ZipInfo

from envspec.binaries.wheel import OpenWheel
from envspec.facts import toolkits
from envspec.facts.compute_capability import order
from envspec.packages.version_numbers import numbers
from tools.refresh.published import PublishedFile, ReadableIndex, Row, UpstreamChanged, rows_of, with_rows, with_source
from tools.refresh.releases import releases

SOURCE = (
    "the CUDA that ptxas names in itself, in the linux x86_64 wheel named in the row, and what ptxas of that CUDA"
    " compiles for (toolkits.toml), read by tools.refresh"
)

_WHEEL = re.compile(r"triton-(?P<version>[\d.]+)-(?:\d+-)?cp3\d+-(?:cp3\d+|abi3)-\w*linux[\w.]*_x86_64\.whl")


def refreshed_triton(text: str, index: ReadableIndex) -> str:
    """Add to the table's text the releases that are newer than its own. Raises IndexFailure, and UpstreamChanged where
    one has no wheel for linux-64, no compiler in it, or that of a CUDA that no table knows."""
    rows = rows_of(text, "releases")
    newest = numbers(rows[-1]["version"])
    files = index.files("triton")
    for release in releases("triton", files):
        if release.version.release > newest:
            rows.append(_row(str(release.version), files, index))
    return with_source(with_rows(text, "releases", rows), "ptxas-release", SOURCE)


def _row(version: str, files: Sequence[PublishedFile], index: ReadableIndex) -> Row:
    wheels = [
        published for published in files if (match := _WHEEL.fullmatch(published.file)) and match["version"] == version
    ]
    file = min(wheels, key=lambda published: published.file, default=None)
    if file is None:
        raise UpstreamChanged(f"triton {version} has no wheel for linux-64 whose name says it as before")
    with index.open(file.file) as opened:
        compilers = ptxas_of(opened)
    if "ptxas" not in compilers or file.sha256 is None:
        raise UpstreamChanged(f"{file.file} has no ptxas that names its CUDA")
    return {
        "version": version,
        **{key: compilers[key] for key in ("ptxas", "ptxas-blackwell") if key in compilers},
        "sm": " ".join(capabilities_of(compilers["ptxas"], compilers.get("ptxas-blackwell"))),
        "file": file.file,
        "sha256": file.sha256,
        "source": "ptxas-release",
    }


def capabilities_of(ptxas: str, blackwell: str | None) -> list[str]:
    """Give the capabilities that triton compiles for with a compiler for those below 10.0, or for all, and one for
    10.0 and newer. Raises UpstreamChanged for a CUDA that no table knows."""
    older, newer = (_capabilities(cuda) for cuda in (ptxas, blackwell or ptxas))
    below = [capability for capability in older if (7, 0) <= order(capability) < (10, 0)]
    return below + [capability for capability in newer if order(capability) >= (10, 0)]


def _capabilities(cuda: str) -> Sequence[str]:
    toolkit = toolkits.toolkit(cuda)
    if toolkit is None:
        raise UpstreamChanged(f"a ptxas of CUDA {cuda}: toolkits.toml doesn't say what that compiles for")
    return toolkit.capabilities


PACKED, UNPACKED = 48 << 20, 192 << 20
"""Bytes of a compiler that are read at most. 17 MB and 52 MB in triton 3.9.0."""

_MEMBER = r"triton/.*/bin/(?:ptxas|ptxas-blackwell)"
_RELEASE = re.compile(rb"release ([1-9]\d\.\d), V\1\.\d+")


def ptxas_of(wheel: OpenWheel) -> dict[str, str]:
    """Find the CUDA release of `ptxas` and of `ptxas-blackwell`, as far as a wheel has them and they name it. Raises
    UnreadableWheel, and what its file raises."""
    by_member = {info.filename.rpartition("/")[2]: _release(wheel, info) for info in wheel.find(_MEMBER)}
    return {name: release for name, release in by_member.items() if release is not None}


def _release(wheel: OpenWheel, info: ZipInfo) -> str | None:
    before, unpacked = b"", 0
    with wheel.open(info) as stream:
        while unpacked < UNPACKED and wheel.bytes_read(info) < PACKED and (chunk := stream.read(1 << 20)):
            if match := _RELEASE.search(before + chunk):
                return match[1].decode()
            unpacked += len(chunk)
            before = chunk[-64:]
    return None
