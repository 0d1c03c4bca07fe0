"""The carried files: envspec's files in every image and environment, the same for every target and every spec.

They are written verbatim: the smoke check, the preflight, the start scripts, the services.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from zipfile import BadZipFile, ZipFile, ZipInfo

from envspec.export.plan import (
    BUILD_SCRIPT,
    CHECK,
    CHECK_ARCHIVE,
    ENVIRONMENT_FILE,
    FETCH_VARIANTS,
    decode,
    digest,
    encode,
    sums_text,
    with_sums,
)

_CARRIED = Path(__file__).parents[1] / "carried"
OF_ALL = ("bytecode.py", "preflight.py", "entrypoint.sh", "healthcheck.sh", "warned.sh")
"""The files of every image of a whole environment; the script of builds names them, too."""
SERVICES = "services/"
OF_SERVICES = f"{SERVICES}common.sh"
"""The file that all scripts of services read."""


def check_folder() -> Path:
    """Return the folder of the smoke check: a distribution of its own in a checkout, a copy in an installed envspec."""
    installed = _CARRIED / CHECK
    # a checkout of an earlier version may have left its bytecode there
    return installed if (installed / "__main__.py").is_file() else _CARRIED.parents[1] / CHECK


@cache
def check_files() -> Mapping[str, str]:
    """Read the files of the smoke check, by path among the carried files."""
    program = check_folder()
    paths = (program / "__main__.py", *sorted((program / "envspec_check").rglob("*.py")))
    return MappingProxyType(
        {f"{CHECK}/{path.relative_to(program).as_posix()}": path.read_text(encoding="utf-8") for path in paths}
    )


def check_digest(carried: Mapping[str, str]) -> str:
    """Give the digest by which the smoke check among these carried files names itself in its reports."""
    files = {path.removeprefix(f"{CHECK}/"): text for path, text in carried.items() if path.startswith(f"{CHECK}/")}
    return f"sha256:{digest(sums_text((path, digest(text)) for path, text in files.items()))}"


@cache
def multi_node_program() -> str:
    """The program that checks several nodes together, which torchrun starts on each of them."""
    return (_CARRIED / "multi_node.py").read_text(encoding="utf-8")


@cache
def build_digest() -> str:
    """Give a short digest of the script of builds."""
    return digest(carried_files()[BUILD_SCRIPT])[:8]


@cache
def carried_files() -> Mapping[str, str]:
    """Give all carried files, by path."""
    services = sorted(f"{SERVICES}{path.name}" for path in (_CARRIED / SERVICES).glob("*.sh"))
    names = (*OF_ALL, BUILD_SCRIPT, ENVIRONMENT_FILE, FETCH_VARIANTS, *services)
    files = {name: (_CARRIED / name).read_text(encoding="utf-8") for name in names}
    return MappingProxyType({**files, **check_files()})


def carried_names(scripts: Collection[str]) -> Iterator[str]:
    """Name the carried files of images that have these scripts: services', or what only some specs need. What starts an
    image starts each service whose script is there.
    """
    services = any(script.startswith(SERVICES) for script in scripts)
    for name in carried_files():
        if name in OF_ALL or name in scripts or name.startswith(f"{CHECK}/") or (services and name == OF_SERVICES):
            yield name


def carried_sources(carried: Mapping[str, str]) -> dict[str, str]:
    """Give the carried files as a folder of recipes holds them, with the list of their digests: the smoke check is one
    file there. The list names the files in it too, which a build holds to it once they are unpacked."""
    check = tuple((path.removeprefix(f"{CHECK}/"), text) for path, text in carried.items() if _is_of_the_check(path))
    listed = with_sums({**carried, CHECK_ARCHIVE: _pack(check)} if check else carried)
    return {path: text for path, text in listed.items() if not _is_of_the_check(path)}


def _is_of_the_check(path: str) -> bool:
    return path.startswith(f"{CHECK}/")


@cache
def _pack(files: Iterable[tuple[str, str]]) -> str:
    """Pack a zipapp that is the same bit for bit on every Python: stored, in the order of names, with one time and mode
    for all files."""
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        for path, text in sorted(files):
            entry = ZipInfo(path)
            entry.create_system = 3  # Unix, whatever the machine is
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, encode(text))
    return decode(packed.getvalue())


def differing_entries(archive: str, other: str) -> tuple[str, ...]:
    """Name the files in which two zipapps differ, by their lists of contents alone: nothing is unpacked."""
    entries, other_entries = _entries(archive), _entries(other)
    return tuple(sorted({path for path, _ in entries ^ other_entries}))


def _entries(archive: str) -> frozenset[tuple[str, tuple[int, int, int]]]:
    """List a zipapp's files by size and checksum. There are none in what is no zipapp."""
    try:
        with ZipFile(io.BytesIO(encode(archive))) as opened:
            return frozenset(
                (member.filename, (member.file_size, member.CRC, member.compress_type)) for member in opened.infolist()
            )
    except (BadZipFile, NotImplementedError, ValueError, OverflowError, EOFError):
        return frozenset()
