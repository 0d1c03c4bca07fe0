"""Index pages of mirrors, in both forms."""

from pathlib import Path

import pytest
from support.index import Index, html_error, status
from support.packages import wheel

from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher
from envspec.net.simple_page import mirror_pages, parse_page, project_of, refuse_foreign_page

URL = "https://user:secret@mirror.example/whl/cu126/torch/"


@pytest.mark.parametrize("link", ["file:///etc/passwd-1.0.tar.gz", "x-1.0-py3-none-any.whl"])
@pytest.mark.parametrize("form", ['<base href="file:///srv/"><a href="{}">x</a>', '<a href="file:///srv/{}">x</a>',
                                  '{{"files": [{{"filename": "x", "url": "file:///srv/{}"}}]}}'])  # fmt: skip
def test_no_server_makes_this_machine_read_its_own_files(form: str, link: str) -> None:
    body = form.format(link).encode()
    with pytest.raises(IndexFailure, match="links to a file of this machine"):
        parse_page(body, URL)
    assert parse_page(body, "file:///srv/simple/x/")


@pytest.mark.parametrize(
    ("file", "project"),
    [
        ("Torch_Scatter-2.1.2.tar.gz", "torch-scatter"),
        ("torch_scatter-2.1.2-cp312-cp312-linux_x86_64.whl", "torch-scatter"),
        ("a-b-1.0.zip", "a-b"),
        ("torch-2.1.2-linux.whl", None),
        ("torch-2.1.2.exe", None),
        ("index.html", None),
        ("torch.tar.gz", None),
    ],
)
def test_the_project_of_a_file(file: str, project: str | None) -> None:
    assert project_of(file) == project


def test_html() -> None:
    page = b"""<!DOCTYPE html><html><body>
    <a href="/whl/cu126/torch-2.9.1%2Bcu126-cp312-cp312-linux_x86_64.whl#sha256=abc" data-requires-python="&gt;=3.10"
       data-dist-info-metadata="sha256=1" data-upload-time="2025-01-01T00:00:00Z">torch</a>
    <a href="other-1.0-py3-none-any.whl#md5=1">hashed when fetched</a>
    <A HREF="../plain-1.0-py3-none-any.whl#sha256=def">x</A> <a name="anchor">no link</a>
    </body></html>"""
    assert parse_page(page, "https://mirror.example/whl/cu126/torch/") == [
        {
            "filename": "torch-2.9.1+cu126-cp312-cp312-linux_x86_64.whl",
            "url": "https://mirror.example/whl/cu126/torch-2.9.1%2Bcu126-cp312-cp312-linux_x86_64.whl",
            "hashes": {"sha256": "abc"},
            "requires-python": ">=3.10",
            "core-metadata": True,
            "upload-time": "2025-01-01T00:00:00Z",
        },
        {
            "filename": "other-1.0-py3-none-any.whl",
            "url": "https://mirror.example/whl/cu126/torch/other-1.0-py3-none-any.whl",
            "hashes": {},
        },
        {
            "filename": "plain-1.0-py3-none-any.whl",
            "url": "https://mirror.example/whl/cu126/plain-1.0-py3-none-any.whl",
            "hashes": {"sha256": "def"},
        },
    ]


def test_html_with_a_base() -> None:
    page = b'<base href="https://files.example/x/"><a href="a-1-py3-none-any.whl#sha256=1">a</a>'
    (row,) = parse_page(page, URL)
    assert row["url"] == "https://files.example/x/a-1-py3-none-any.whl"


def test_json() -> None:
    known = b'{"filename": "a.whl", "url": "../f/a.whl", "hashes": {"sha256": "1"}}'
    page = b' {"files": [%s, {"filename": "b", "url": "b", "hashes": {}}]}' % known
    row, bare = parse_page(page, "https://mirror.example/whl/torch/")
    assert (row["url"], row["hashes"]) == ("https://mirror.example/whl/f/a.whl", {"sha256": "1"})
    assert bare["hashes"] == {}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not an index",
        b"{",
        b"{}",
        b'{"files": 3}',
        b'{"files": [3]}',
        b'{"files": [{}]}',
        b'{"files": [{"url": 3, "filename": "a"}]}',
        b'{"files": {"a": 1}}',
    ],
)
def test_neither(body: bytes) -> None:
    with pytest.raises(IndexFailure, match=r"^https://mirror\.example/whl/cu126/torch/ isn't an index page$"):
        parse_page(body, URL)


def fetcher(folder: Path) -> Fetcher:
    return Fetcher(credentials={}, env={"HOME": str(folder)}, read_seconds=5)


@pytest.mark.parametrize("form", ["json", "html"])
def test_pages_of_a_mirror(index: Index, tmp_path: Path, form: str) -> None:
    index.form = form
    torch = wheel("torch", "99.0")
    index.add(torch)
    pages = mirror_pages(index.url, fetcher(tmp_path))
    (row,) = pages("cu126", "torch")
    assert (row["filename"], row["url"], row["hashes"]) == (torch.file, index.file_url(torch), {"sha256": torch.sha256})
    assert pages("cu126", "torchvision") == []


def test_a_mirror_that_fails(index: Index, tmp_path: Path) -> None:
    index.fail("torch", status(403))
    with pytest.raises(IndexFailure, match="needs credentials"):
        mirror_pages(index.url, fetcher(tmp_path))("cu126", "torch")


@pytest.mark.parametrize("form", ["json", "html"])
def test_an_index_page_is_not_foreign(index: Index, tmp_path: Path, form: str) -> None:
    index.form = form
    index.add(wheel("a", "1.0"))
    url = f"{index.url}/a/"
    refuse_foreign_page(url, fetcher(tmp_path).get(url).body)
    refuse_foreign_page(url, b"<html><title>Links for a</title><body><h1>Links for a</h1></body></html>")


def test_a_login_page_is_foreign(index: Index, tmp_path: Path) -> None:
    index.fail("/a/", html_error)
    body = fetcher(tmp_path).get(f"{index.url}/a/").body
    with pytest.raises(IndexFailure, match=r"^http://127\.0\.0\.1:\d+/simple/a/ serves a web page"):
        refuse_foreign_page(f"{index.url_with('u', 'secret')}/a/", body)
