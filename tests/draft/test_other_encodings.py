"""requirements.txt as pip reads it: encodings, labels of builds, URLs with markers, options in the first line."""

import codecs
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from support.drafts import draft, notes, settled
from support.examples import examples

from envspec.draft.repository import read_draft


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


TEXT = "six  # Größe\r\nidna>=2\r\n"


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
        codecs.BOM_UTF8 + TEXT.encode(),
        b"# -*- coding: latin-1 -*-\n" + TEXT.encode("latin-1"),
        b"#!\n# vim: set fileencoding=cp1252 :\n" + TEXT.encode("cp1252"),
    ],
)
def test_an_encoding_that_pip_reads(content: bytes) -> None:
    Path("requirements.txt").write_bytes(content)
    assert read_draft(Path("requirements.txt")).pip == ("six", "idna>=2")


PARTS = st.sampled_from(
    [
        "six",
        "idna>=2",
        " ",
        "\\\n",
        "\n",
        "# why",
        " # why",
        "\\",
        "torch==2.1 ; python_version>'3'",
        "  --hash=sha256:" + "0" * 64,
    ]
)


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PARTS, max_size=8).map("".join))
@example("six \\\n# why \\\nidna>=2")
def test_lines_are_pips(text: str) -> None:
    """Each line that pip's own parser takes for a requirement is taken, or told by its line."""
    req_file = pytest.importorskip("pip._internal.req.req_file")
    theirs = [
        (number, line.partition(" --")[0].strip())
        for number, line in req_file.preprocess(text)
        if not line.startswith("-")
    ]
    found = draft("requirements.txt", text + "\n")
    known = {line.place.line for lines in found.lines.values() for line in lines if line.place}
    told = {note.place.line for note in found.notes if note.place}
    assert {number for number, _ in theirs} <= known | told
    assert known <= {number for number, _ in theirs}


def test_labels_of_builds_go_whole() -> None:
    found = draft("requirements.txt", "torch==2.0.1+cu117.with.pypi.cudnn\nsix\n")
    assert (found.pip, settled(found).cuda) == (("torch==2.0.1", "six"), ("11.7",))


def test_a_wheels_url_with_a_marker() -> None:
    url = "https://download.example.org/whl/cu124/torch-2.5.1%2Bcu124-cp311-cp311-linux_x86_64.whl"
    found = draft(
        "requirements.txt",
        f"{url} ; sys_platform == 'linux'\nhttps://example.org/a-1-py3-none-any.whl; os_name == 'posix'\n",
    )
    assert found.pip == (
        "torch==2.5.1; sys_platform == 'linux'",
        "a @ https://example.org/a-1-py3-none-any.whl ; os_name == 'posix'",
    ) and settled(found).cuda == ("12.4",)
    assert "left out" not in notes(found)


def test_a_page_in_the_first_line_makes_no_conda_list() -> None:
    found = draft("requirements.txt", "--find-links=https://h.example.org/x.html?sig=a\nsix\n")
    assert found.pip == ("six",)
