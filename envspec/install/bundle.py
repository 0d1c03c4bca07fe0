"""Bundles for machines without internet: one tar with a target's slice of the lock, its wheels and `install.sh`.

The tar is uncompressed, since wheels are compressed already, and the same inputs give the same bytes: sorted names, no
times, no owners.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from envspec.install.collect import Paths
from envspec.lock.conda_files import artifact_of, channel_of, conda_pins, in_link_order
from envspec.lock.model import LockedTarget, Pin

INSTALLER = "install.sh"
SUMS = "SHA256SUMS"
"""The file with the lock's hashes of all packages' files, as `sha256sum -c` reads it."""
REQUIREMENTS = "requirements.txt"
"""The requirements file of the pip packages, which `install.sh` reads."""
WHEELS = "wheels"
CONDA = "conda"


def write_bundle(file: BinaryIO, target: LockedTarget, carried: Mapping[str, str], found: Paths) -> int:
    """Write the tar into an open file, and give its size in bytes.

    `carried` are texts by their path in the bundle, `found` the artifacts. Raises OSError.
    """
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in sorted(_members(target, carried, found)):
            _add(tar, name, content)
    return file.tell()


def place_of(pin: Pin) -> str:
    """Give the path of a package's file in a bundle: `wheels/FILE`, or `conda/CHANNEL/SUBDIR/FILE`."""
    file = artifact_of(pin).file
    if pin.kind == "conda":
        channel, subdir = channel_of(pin)
        return str(PurePosixPath(CONDA, channel, subdir, file))
    return f"{WHEELS}/{file}"


def explicit_list(target: LockedTarget) -> dict[str, str]:
    """Render `conda/explicit.txt`, by its path: an explicit list (CEP 23) with paths below `conda/` in place of URLs;
    empty without conda packages. `install.sh` puts the bundle's own folder before each path.
    """
    pins = in_link_order(conda_pins(target))
    lines = [
        f"{place_of(pin).removeprefix('conda/')}#{artifact_of(pin).md5 or f'sha256:{artifact_of(pin).sha256}'}"
        for pin in pins
    ]
    head = [f"# platform: {target.inputs.platform}", "@EXPLICIT"]
    return {f"{CONDA}/explicit.txt": "\n".join([*head, *lines]) + "\n"} if pins else {}


def _members(target: LockedTarget, carried: Mapping[str, str], found: Paths) -> Iterator[tuple[str, Path | bytes]]:
    installer = files("envspec.install").joinpath(f"data/{INSTALLER}").read_text("utf-8")
    yield INSTALLER, installer.encode()
    for name, text in carried.items():
        yield name, text.encode()
    sums = sorted(f"{artifact_of(pin).sha256}  {place_of(pin)}\n" for pin in target.pins)
    yield SUMS, "".join(sums).encode()
    for pin in target.pins:
        yield place_of(pin), found[pin.index, artifact_of(pin).file]


def _add(tar: tarfile.TarFile, name: str, content: Path | bytes) -> None:
    member = tarfile.TarInfo(name)
    member.mode = 0o755 if name.endswith(".sh") else 0o644
    if isinstance(content, bytes):
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
        return
    with content.open("rb") as file:
        member.size = content.stat().st_size
        tar.addfile(member, file)
