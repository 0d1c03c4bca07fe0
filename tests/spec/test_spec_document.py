"""From files and bytes to text: what can't be a spec is refused before it's parsed."""

import os
from pathlib import Path

import pytest

from envspec.base.errors import SpecError, StorageError
from envspec.base.reader.document import decode, parse_toml
from envspec.spec.document import MAX_BYTES
from envspec.spec.parse import load_spec, parse_spec

VALID = b'[env]\npython = "3.12"\n[pip]\ndependencies = ["torch"]\n[targets.cpu]\nplatform = "linux-64"\n'


def told(path: str | Path) -> tuple[str, str | None]:
    with pytest.raises(SpecError) as caught:
        load_spec(path)
    return str(caught.value), caught.value.hint


def test_missing_file_names_a_near_one(tmp_path: Path) -> None:
    (tmp_path / "mm-v2.9.toml").write_bytes(VALID)
    wanted = tmp_path / "mm-v29.toml"
    assert told(wanted) == (
        f"{wanted}: can't be read: no such file or directory",
        f"did you mean {tmp_path}/mm-v2.9.toml?",
    )


def test_missing_file_with_no_near_one(tmp_path: Path) -> None:
    hint = told(tmp_path / "no" / "a.toml")[1]
    assert hint is not None
    first, _, smallest = hint.partition("\n")
    assert first == "write one; the smallest is"
    assert parse_spec(smallest, "a.toml").targets[0].name == "cpu"


def test_file_as_folder_and_too_long_a_name(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(VALID)
    assert "not a directory" in told(tmp_path / "a.toml" / "b.toml")[0]
    assert "name too long" in told(tmp_path / ("x" * 300))[0]


def test_folder(tmp_path: Path) -> None:
    assert told(tmp_path) == (
        f"{tmp_path}: it's a folder, not a spec",
        f"give a spec in it, such as {tmp_path}/NAME.toml",
    )


def test_nul_in_the_path() -> None:
    assert told("a\0.toml")[0] == "'a\\x00.toml' can't be a file's name"


def test_named_pipe_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    assert told(tmp_path / "pipe.toml")[0].endswith("not a regular file")


def test_endless_device() -> None:
    assert told("/dev/zero")[0].endswith("not a regular file")


def test_unreadable_file_is_storage(tmp_path: Path) -> None:
    loop = tmp_path / "a.toml"
    loop.symlink_to("/proc/self/mem")
    with pytest.raises(StorageError) as caught:
        load_spec(loop)
    assert caught.value.exit_code == 3


def test_large_file_is_refused_without_being_read(tmp_path: Path) -> None:
    large = tmp_path / "large.toml"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    assert told(large)[0] == f"{large}: larger than 1 MiB, so it can't be a spec"


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "largest.toml"
    path.write_bytes(VALID + b"#" * (MAX_BYTES - len(VALID)))
    assert load_spec(path).name == "largest"
    path.write_bytes(VALID + b"#" * (MAX_BYTES - len(VALID) + 1))
    assert "larger than 1 MiB" in told(path)[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xef\xbb\xbf" + VALID, "a.toml:1:1: the file begins with a byte order mark"),
        ("\ufeffa = 1".encode("utf-16-le"), "a.toml:1:1: the file is UTF-16, not UTF-8"),
        ("\ufeffa = 1".encode("utf-16-be"), "a.toml:1:1: the file is UTF-16, not UTF-8"),
        (b'[env]\nname = "\xc3\xa9\xe9"\n', "a.toml:2:10: not UTF-8: byte 0xe9 at offset 16"),
        (b'[env]\nname = "\xc3', "a.toml:2:9: not UTF-8: byte 0xc3 at offset 14"),
        (b"[env]\n# \0\n", "a.toml:2:3: a NUL character: the file is damaged or isn't text"),
    ],
)
def test_encodings(data: bytes, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_toml(decode(data, "a.toml"), "a.toml")
    assert str(caught.value) == message
    assert caught.value.hint


def test_half_a_surrogate_pair() -> None:
    with pytest.raises(SpecError, match=r"^a\.toml:1:6: half of a surrogate pair"):
        parse_toml("a = '\ud800'", "a.toml")


def test_duplicates_name_the_first_place() -> None:
    text = "[a]\nx = 1\n\n[b]\n\n[ 'a' ]\n"
    with pytest.raises(SpecError) as caught:
        parse_toml(text, "a.toml")
    assert str(caught.value) == "a.toml:6:3: [a] is given twice"
    assert caught.value.hint == "it was first given at line 1; put the two together, or rename one"
