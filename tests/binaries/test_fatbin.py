"""Fat binaries and cubins: what a writer of the format puts in, the reader gives back; damage never raises."""

import io
import struct
from collections import Counter

import pytest
from hypothesis import given, strategies as st
from support.cubins import KIND_NUMBERS, OTHER_FLAGS, Entry, cubin, entry, fatbin

from envspec.binaries import window as window_module
from envspec.binaries.fatbin import Code, Kind
from envspec.binaries.library import Library, scan
from envspec.binaries.window import Window
from envspec.facts.compute_capability import Architecture


def read(data: bytes, *, can_seek: bool = False) -> Library:
    return scan(Window(io.BytesIO(data), can_seek=can_seek), "lib.so", len(data))


def names(library: Library) -> Counter[frozenset[str]]:
    counts = Counter[frozenset[str]]()
    for codes, number in library.modules.items():
        counts[frozenset(code.name for code in codes)] += number
    return counts


architectures = st.builds(Architecture, st.integers(10, 199), st.sampled_from(["", "a", "f"]))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    kind = draw(st.sampled_from(list(Kind)))
    return Entry(
        Code(kind, draw(architectures)),
        draw(st.sampled_from(KIND_NUMBERS[kind])),
        draw(st.sampled_from(OTHER_FLAGS)),
        draw(st.sampled_from([64, 80, 96, 112])),
        # Payloads that look like the start of something else must not be taken for it.
        draw(st.binary(max_size=40) | st.just(fatbin([entry("sm_20")])) | st.just(cubin(20, abi=7))),
    )


containers = st.lists(entries(), min_size=1, max_size=4)
filler = st.binary(max_size=24).filter(lambda data: b"\x50\xed" not in data and b"\x7fE" not in data)


@given(st.lists(st.tuples(filler, containers), max_size=4), filler, st.booleans(), st.integers(1, 64))
def test_written_is_read(parts: list[tuple[bytes, list[Entry]]], tail: bytes, can_seek: bool, chunk: int) -> None:
    data = b"".join(gap + fatbin(written) for gap, written in parts) + tail
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_module, "STREAM_CHUNK", chunk)
        patch.setattr(window_module, "SEEK_CHUNK", chunk)
        library = read(data, can_seek=can_seek)
    expected = Counter(frozenset(e.code for e in written) for _, written in parts)
    assert library.modules == expected
    assert library.complete


@given(containers, st.data())
def test_cut_off_is_told(written: list[Entry], data: st.DataObject) -> None:
    whole = fatbin(written)
    size = data.draw(st.integers(0, len(whole) - 1))
    library = read(whole[:size], can_seek=data.draw(st.booleans()))
    assert not library.modules or not library.complete
    for codes in library.modules:
        assert codes <= {e.code for e in written}


def test_sizes_that_lie() -> None:
    huge = bytearray(fatbin([entry("sm_80"), entry("sm_90")]))
    struct.pack_into("<Q", huge, 8, 2**64 - 1)
    library = read(bytes(huge))
    assert (names(library), library.complete) == ({frozenset({"sm_80", "sm_90"}): 1}, False)
    struct.pack_into("<Q", huge, 16 + 8, 2**63)
    for can_seek in (True, False):
        library = read(bytes(huge), can_seek=can_seek)
        assert (names(library), library.complete) == ({frozenset({"sm_80"}): 1}, False)
    empty = fatbin([])
    assert not read(empty + empty).modules


def test_a_damaged_fat_binary_does_not_hide_the_next() -> None:
    first = bytearray(fatbin([entry("sm_80"), entry("sm_86")]))
    second_entry = 16 + 64 + 8
    struct.pack_into("<I", first, second_entry + 4, 7)
    library = read(bytes(first) + fatbin([entry("sm_90")]))
    assert names(library) == {frozenset({"sm_80"}): 1, frozenset({"sm_90"}): 1}
    assert not library.complete


def test_the_magic_alone_is_nothing() -> None:
    magic = struct.pack("<IHH", 0xBA55ED50, 1, 16)
    library = read(magic * 50 + b"\x50\xed\x55\xba" * 50 + fatbin([entry("sm_75")]) + magic)
    assert names(library) == {frozenset({"sm_75"}): 1}
    assert library.complete


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (cubin(70, abi=7), "sm_70"),
        (cubin(90, abi=7, specific=True), "sm_90a"),
        (cubin(100, abi=8, command_line="-arch sm_100 -m 64"), "sm_100"),
        (cubin(100, abi=8, command_line="-arch sm_100f -m 64"), "sm_100f"),
        (cubin(90, abi=8, command_line="-arch=sm_90a"), "sm_90a"),
        (cubin(103, abi=8, specific=True), "sm_103a"),
        (cubin(121, abi=8, command_line="-arch sm_90a"), "sm_121"),
    ],
)
def test_cubins(data: bytes, name: str) -> None:
    assert names(read(b"\0" * 5 + data)) == {frozenset({name}): 1}


def test_a_cubin_does_not_take_the_next_one_s_note() -> None:
    library = read(cubin(90, abi=8) + cubin(90, abi=8, command_line="-arch sm_90a"))
    assert names(library) == {frozenset({"sm_90"}): 1, frozenset({"sm_90a"}): 1}


def test_other_elf_files_are_no_cubins() -> None:
    host = cubin(90, abi=7, machine=62)
    assert not read(host).modules
    assert names(read(host + fatbin([entry("compute_90")]))) == {frozenset({"compute_90"}): 1}


@given(
    st.binary(max_size=200),
    st.booleans(),
    st.integers(1, 9),
    st.lists(st.tuples(st.sampled_from(["peek", "skip", "search"]), st.integers(0, 60)), max_size=12),
)
def test_window_agrees_with_bytes(data: bytes, can_seek: bool, chunk: int, steps: list[tuple[str, int]]) -> None:
    needles = (b"\0\0", b"\1")
    done = 0

    def passed(size: int) -> None:
        nonlocal done
        done += size

    at = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_module, "STREAM_CHUNK", chunk)
        patch.setattr(window_module, "SEEK_CHUNK", chunk)
        window = Window(io.BytesIO(data), can_seek=can_seek, passed=passed)
        for step, size in steps:
            if step == "peek":
                assert window.peek(size) == data[at : at + size]
            elif step == "skip":
                assert window.skip(size) == min(size, len(data) - at)
                at = min(at + size, len(data))
            else:
                hits = [(place, needle) for needle in needles if (place := data.find(needle, at)) >= 0]
                found = window.search(needles)
                assert found == (min(hits)[1] if hits else None)
                if not hits:
                    break
                at = min(hits)[0]
                assert found is not None and window.peek(len(found)) == found
        assert at <= done <= len(data) or at == len(data) == done
