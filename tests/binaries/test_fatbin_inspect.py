"""Wheels, environments and files, whole and damaged."""

import contextlib
import os
import stat
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.cubins import cubin, entry, fatbin
from support.examples import examples

from envspec.base.errors import InputError, StorageError
from envspec.base.progress import Progress
from envspec.binaries.fatbin import Kind
from envspec.binaries.inspect import inspect
from envspec.binaries.library import Inspection

ELF = b"\x7fELF\x02\x01\x01" + bytes(57)
WHEEL = "demo-1.0.dist-info/WHEEL"


def library(*names: str) -> bytes:
    return ELF + fatbin([entry(name) for name in names])


def write_wheel(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in {**members, WHEEL: b"Wheel-Version: 1.0\n"}.items():
            archive.writestr(name, data)
    return path


def found(inspection: Inspection) -> dict[str, list[str]]:
    return {
        lib.path: [f"{kind.value}_{built}" for kind in Kind for built in lib.architectures(kind)]
        for lib in inspection.libraries
    }


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_wheel(tmp_path: Path, method: int) -> None:
    members = {
        "demo/_C.so": library("sm_80", "sm_90a", "compute_90"),
        "demo/host.so": ELF,
        "demo/kernels.dll": b"MZ" + bytes(62) + fatbin([entry("sm_120")]),
        "demo/__init__.py": b"\x7fELF no",
        "demo/data.bin": fatbin([entry("sm_75")])[1:],
    }
    inspection = inspect(write_wheel(tmp_path / "demo.whl", members, method))
    assert (inspection.kind, inspection.binaries, inspection.unread) == ("wheel", 3, ())
    assert found(inspection) == {"demo/_C.so": ["sass_80", "sass_90a", "ptx_90"], "demo/kernels.dll": ["sass_120"]}
    assert [lib.size for lib in inspection.libraries] == [len(members["demo/_C.so"]), len(members["demo/kernels.dll"])]


def test_zip64(tmp_path: Path) -> None:
    path = tmp_path / "demo.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("demo/_C.so", "w", force_zip64=True) as member:
            member.write(library("sm_90"))
        archive.writestr(WHEEL, "")
    data = path.read_bytes()
    # The writer keeps ZIP64 to the local header. Move the directory's offset there as well, as in a wheel above 4 GiB.
    end = data.rindex(b"PK\x05\x06")
    size, offset = struct.unpack_from("<II", data, end + 12)
    record = struct.pack("<4sQHHIIQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, size, offset)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, end, 1)
    last = struct.pack("<4sHHHHIIH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    path.write_bytes(data[:end] + record + locator + last)
    assert found(inspect(path)) == {"demo/_C.so": ["sass_90"]}


def test_names_are_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "in" / "deep"
    folder.mkdir(parents=True)
    absolute = str(tmp_path / "absolute.so")
    names = ["../../evil.so", absolute, "demo/../../../up.so", "demo/\x1b[31mred.so", "demo\\..\\win.so"]
    path = write_wheel(folder / "demo.whl", dict.fromkeys(names, library("sm_90")))
    monkeypatch.chdir(folder)
    before = sorted(tmp_path.rglob("*"))
    assert set(found(inspect(path))) == set(names)
    assert sorted(tmp_path.rglob("*")) == before


def test_no_cuda_inside(tmp_path: Path) -> None:
    inspection = inspect(write_wheel(tmp_path / "demo.whl", {"demo/_C.so": ELF, "demo/__init__.py": b""}))
    assert (inspection.binaries, inspection.libraries) == (1, ())


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("missing.whl", None, "no such file"),
        ("text.whl", b"<html>404</html>", "neither a wheel nor a library"),
        ("empty.whl", b"", "neither a wheel nor a library"),
        ("cut.whl", b"PK\x03\x04" + bytes(100), "damaged or cut off"),
    ],
)
def test_not_a_wheel(tmp_path: Path, name: str, data: bytes | None, message: str) -> None:
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        inspect(path)
    assert caught.value.hint
    assert str(caught.value).startswith(f"{path}: ")


def test_a_zip_that_is_no_wheel(tmp_path: Path) -> None:
    path = tmp_path / "package.conda"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("metadata.json", "{}")
    with pytest.raises(InputError, match="not a wheel"):
        inspect(path)


def test_neither_file_nor_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        inspect(tmp_path / "pipe")
    with pytest.raises(InputError, match="no such file"):
        inspect(write_wheel(tmp_path / "demo.whl", {}) / "below")


@pytest.mark.parametrize(("method", "flag", "message"), [(12, 0, "method 12"), (8, 1, "encrypted")])
def test_what_wheels_do_not_use(tmp_path: Path, method: int, flag: int, message: str) -> None:
    path = write_wheel(tmp_path / "demo.whl", {"demo/_C.so": library("sm_90")})
    data = bytearray(path.read_bytes())
    directory = data.index(b"PK\x01\x02")
    struct.pack_into("<HH", data, directory + 8, flag, method)
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        inspect(path)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("intact") / "demo.whl"
    return write_wheel(path, {f"demo/{n}.so": library("sm_80", "sm_90") + bytes(range(256)) * 9 for n in range(3)})


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_cut_off_at_any_byte(intact: Path, tmp_path: Path, data: st.DataObject) -> None:
    whole = intact.read_bytes()
    path = tmp_path / "cut.whl"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(InputError):
        inspect(path)


@settings(max_examples=examples(250), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=6))
def test_damage_is_an_error_or_an_answer(intact: Path, tmp_path: Path, changes: list[tuple[int, int]]) -> None:
    data = bytearray(intact.read_bytes())
    for place, value in changes:
        data[place % len(data)] = value
    path = tmp_path / "bad.whl"
    path.write_bytes(data)
    with contextlib.suppress(InputError):
        inspect(path)


def test_a_wrong_checksum_is_damage(intact: Path, tmp_path: Path) -> None:
    data = bytearray(intact.read_bytes())
    path = tmp_path / "bad.whl"
    data[data.index(b"PK\x01\x02") + 16] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match="damaged"):
        inspect(path)


def test_prefix(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "real.so.1").write_bytes(library("sm_90"))
    (site / "real.so").symlink_to("real.so.1")
    os.link(site / "real.so.1", site / "again.so")
    (site / "loop").symlink_to(tmp_path)
    (tmp_path / "lib64").symlink_to("lib")
    (site / "dangling.so").symlink_to("nowhere")
    (site / "__init__.py").write_text("")
    inspection = inspect(tmp_path)
    assert (inspection.kind, inspection.binaries, inspection.unread) == ("prefix", 1, ())
    assert found(inspection) == {"lib/site-packages/again.so": ["sass_90"]}


def test_prefix_of_links(tmp_path: Path) -> None:
    """What Nix and uv's symlink mode build: everything lies elsewhere."""
    store, prefix = tmp_path / "store", tmp_path / "env"
    store.mkdir()
    prefix.mkdir()
    (store / "a.so").write_bytes(library("sm_90"))
    (prefix / "lib").symlink_to(store)
    assert found(inspect(prefix)) == {"lib/a.so": ["sass_90"]}


def test_unreadable_in_a_prefix_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.so").write_bytes(library("sm_90"))
    (tmp_path / "b.so").write_bytes(library("sm_90"))
    opened = Path.open

    def refuse(self: Path, *args: Any) -> IO[Any]:
        if self.name == "b.so":
            raise PermissionError(13, "Permission denied")
        result: IO[Any] = opened(self, *args)
        return result

    monkeypatch.setattr(Path, "open", refuse)
    inspection = inspect(tmp_path)
    assert (set(found(inspection)), inspection.unread) == ({"a.so"}, ("b.so: Permission denied",))
    with pytest.raises(StorageError, match="Permission denied"):
        inspect(tmp_path / "b.so")


@pytest.mark.parametrize(("name", "data"), [("one.cubin", cubin(90, abi=7)), ("one.fatbin", fatbin([entry("sm_90")]))])
def test_single_files(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    inspection = inspect(path)
    assert (inspection.kind, found(inspection)) == ("file", {name: ["sass_90"]})


def test_loose_cubins_count_as_one_library_a_folder(tmp_path: Path) -> None:
    members = {f"demo/a/{n}.cubin": cubin(90 + 10 * (n % 2), abi=8) for n in range(5)}
    members["demo/b/only.cubin"] = cubin(80, abi=7)
    inspection = inspect(write_wheel(tmp_path / "demo.whl", members))
    assert found(inspection) == {"demo/a/*.cubin": ["sass_90", "sass_100"], "demo/b/only.cubin": ["sass_80"]}
    assert [(lib.files, lib.module_count) for lib in inspection.libraries] == [(5, 5), (1, 1)]
    assert inspection.binaries == 6


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    class Log(Progress):
        total = done = 0

        def phase(self, text: str, total: int | None = None) -> None:
            self.total = total or 0

        def came(self, count: int) -> None:
            self.done += count

    log = Log()
    inspect(write_wheel(tmp_path / "demo.whl", {"demo/_C.so": library("sm_90") + bytes(9000)}), log)
    assert log.total == log.done > 9000


@pytest.mark.slow
def test_memory_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "demo.whl"
    block = fatbin([entry("sm_90", bytes(1 << 20))]) + bytes(1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("demo/_C.so", "w") as member:
            member.write(ELF)
            for _ in range(40):
                member.write(block)
        archive.writestr(WHEEL, "")
    tracemalloc.start()
    try:
        (result,) = inspect(path).libraries
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (result.module_count, result.size > 80 << 20) == (40, True)
    assert peak < 12 << 20, f"{peak:,} bytes"


def test_files_are_left_as_they_were(intact: Path) -> None:
    before = intact.read_bytes(), stat.S_IMODE(intact.stat().st_mode)
    inspect(intact)
    assert (intact.read_bytes(), stat.S_IMODE(intact.stat().st_mode)) == before
