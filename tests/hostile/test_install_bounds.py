"""`envspec install` of peers and files without bounds: given up by name, before uv sees any of it."""

import io
import os
import struct
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import uv
from msgspec.structs import replace
from support.index import Answer, Index, circle, dripping, endless, lying_range
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.matrix import first_by_day
from support.packages import sdist, wheel, with_members

from envspec.lock.model import BuildPin
from envspec.net import limits
from envspec.packages.archive_entries import Bounds, wheel_fault

BOUNDS = Bounds(1000, 1 << 20, 50)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = replace(
        limits.LIMITS, first_seconds=0.5, bytes_per_second=1000, archive_entries=1000, unpacked_bytes=1 << 20
    )
    monkeypatch.setattr(limits, "LIMITS", bounds)


def longer(handler: Any, answer: Answer) -> Answer:
    """The file, and more behind it."""
    return replace(answer, body=answer.body + bytes(1000))


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("fault", "told"),
    first_by_day(
        2,
        [
            (dripping, "is too slow"),
            (endless, "is larger than"),
            (lying_range, "doesn't exist (HTTP 206)"),
            (longer, "is larger than"),
            (circle, "redirects 5 times"),
        ],
    ),
    ids=["slow", "endless", "lying range", "longer", "circle"],
)
def test_a_peer_without_end(machine: Machine, index: Index, small: None, fault: Any, told: str) -> None:
    app = wheel("app", "1.0")
    index.add(app)
    write_lock(machine, [pip_pin(app)])
    index.fail(r"^/files/.*\.whl$", fault)
    ran = machine.envspec("install", SPEC, "--prefix", "env")
    assert ran.status == 3 and told in ran.error and app.file in ran.error, ran.err
    kept = machine.cache / "artifacts"
    assert sum(path.stat().st_size for path in kept.rglob("*") if path.is_file()) < 1 << 20


@pytest.mark.e2e
@pytest.mark.parametrize(("count", "size"), [(1, 8 << 20), (3000, 1)], ids=["bytes", "entries"])
def test_a_bomb(machine: Machine, index: Index, small: None, count: int, size: int) -> None:
    app = with_members(wheel("app", "1.0"), "bomb", size, count)
    index.add(app)
    write_lock(machine, [pip_pin(app)])
    ran = machine.envspec("install", SPEC, "--prefix", "env")
    assert ran.status == 3 and f"{app.file} has" in ran.error and "are the most" in ran.error, ran.err


@pytest.mark.e2e
def test_a_source_that_is_a_bomb(machine: Machine, index: Index, small: None) -> None:
    source = sdist("src", "1.0", files={"zeros": "\0" * (8 << 20)})
    index.add(source)
    write_lock(machine, [pip_pin(source)], pip="allow-source = ['src']")
    ran = machine.envspec("install", SPEC, "--prefix", "env")
    assert ran.status == 3 and f"{source.file} has 8 MiB once it's unpacked" in ran.error, ran.err


BUILT = '[build-system]\nrequires = ["tool"]\nbuild-backend = "backend"\nbackend-path = ["."]\n'


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("bomb", first_by_day(1, [False, True]))
def test_a_build_requirement(machine: Machine, index: Index, small: None, bomb: bool) -> None:
    """It comes through the loopback index, which looks through it first."""
    tool = with_members(wheel("tool", "1.0"), "bomb", (8 << 20) if bomb else 1)
    source = sdist("src", "1.0", files={"pyproject.toml": BUILT})
    index.add(tool, source)
    built_with = (BuildPin(tool.name, tool.version, tool.file, tool.sha256),)
    write_lock(machine, [replace(pip_pin(source), built_with=built_with)], pip="allow-source = ['src']")
    ran = machine.envspec("install", SPEC, "--prefix", "env")
    if not bomb:
        assert ran.status == 0, ran.err
        return
    assert ran.status == 3 and f"{tool.file} has 8 MiB once it's unpacked" in ran.error, ran.err


@pytest.mark.e2e
@pytest.mark.parametrize("mebibytes", first_by_day(1, [70, 100]))
def test_a_memory_limit(machine: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, mebibytes: int) -> None:
    """uv aborts where the system gives it no more, as in a job with a limit; envspec says so."""
    app = wheel("app", "1.0", padding=1 << 20)
    index.add(app)
    write_lock(machine, [pip_pin(app)])
    limited = machine.base / "uv"
    limited.write_text(
        f"#!{sys.executable}\n"
        "import os, resource, sys\n"
        "if sys.argv[1:3] == ['pip', 'install']:\n"
        f"    resource.setrlimit(resource.RLIMIT_AS, ({mebibytes} << 20,) * 2)\n"
        f"os.execv({os.fspath(uv.find_uv_bin())!r}, ['uv', *sys.argv[1:]])\n"
    )
    limited.chmod(0o755)
    monkeypatch.setattr(uv, "find_uv_bin", lambda: str(limited))
    ran = machine.envspec("install", SPEC, "--prefix", "env", status=3)
    assert (
        ran.error == "error: here: uv ran out of memory or threads, or reached the system's limit on them"
        and "memory" in ran.hint
    )


def forged(tmp_path: Path, change: Any) -> str:
    path = tmp_path / "app.whl"
    path.write_bytes(change(bytearray(wheel("app", "1.0", padding=5000).content)))
    return wheel_fault(path, BOUNDS)


def size_lies(content: bytearray, where: bytes, at: int) -> bytes:
    """The first entry's size, in the head of its data or in the list, is another."""
    start = content.index(where) + at
    content[start : start + 4] = struct.pack("<I", struct.unpack_from("<I", content, start)[0] - 1)
    return bytes(content)


def hidden(content: bytearray) -> bytes:
    """An entry that the list doesn't name lies before those that it does."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("hidden", "x")
    front = buffer.getvalue()[: buffer.getvalue().index(b"PK\x01\x02")]
    return front + bytes(content)


def renamed(content: bytearray) -> bytes:
    """Another name in the head of the data."""
    content[30:33] = b"xpp"
    return bytes(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: size_lies(content, b"PK\x03\x04", 22),
        lambda content: size_lies(content, b"PK\x01\x02", 24),
        lambda content: size_lies(size_bytes(content), b"PK\x01\x02", 24),
        hidden,
        renamed,
        lambda content: bytes(content[:-30]),
        lambda content: b"no wheel at all",
    ],
    ids=["size in the data", "size in the list", "size in both", "hidden", "renamed", "cut", "no zip"],
)
def test_a_list_that_lies(tmp_path: Path, change: Any) -> None:
    assert forged(tmp_path, change)
    assert not forged(tmp_path, bytes)


def size_bytes(content: bytearray) -> bytearray:
    return bytearray(size_lies(content, b"PK\x03\x04", 22))
