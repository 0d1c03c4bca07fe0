"""PyPI's JSON and OSV's files: what is read of them, and what is refused."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from support.audit import document, vulnerability

from envspec.base.errors import IndexFailure, InputError
from envspec.net.simple_page import parse_page
from envspec.review.audit.learn import file_facts
from envspec.review.audit.model import Advisory, FileFacts, PublishedRelease
from envspec.review.audit.osv import OsvDatabase
from envspec.review.audit.pypi import parse_release, release_url, releases_page

JINJA = PublishedRelease("jinja2", "3.1.2")
NOW = "2026-11-20T00:00:00Z"


@pytest.mark.parametrize(
    ("index", "base"),
    [
        ("https://example.org/simple", "https://example.org"),
        ("https://example.org/simple/", "https://example.org"),
        ("https://example.org/api/pypi/remote/simple", "https://example.org/api/pypi/remote"),
        ("https://example.org/root", "https://example.org/root"),
        ("https://me:secret@example.org/simple", "https://me:secret@example.org"),
    ],
)
def test_the_address(index: str, base: str) -> None:
    assert release_url(index, JINJA) == f"{base}/pypi/jinja2/3.1.2/json"


def parsed(content: object) -> Any:
    return parse_release(json.dumps(content).encode(), JINJA, "https://me:secret@example.org/x", NOW)


def test_a_release() -> None:
    made = document(
        "Jinja2",
        "3.1.2",
        vulnerability("PYSEC-2", "CVE-2", "GHSA-2", fixed=("3.1.3",), text="\n## XSS in `xmlattr`\n\nLong."),
        vulnerability("GHSA-gone", withdrawn="2024-01-01T00:00:00Z"),
    )
    made["urls"] = [
        {
            "filename": "Jinja2-3.1.2-py3-none-any.whl",
            "digests": {"sha256": "a" * 64},
            "upload_time_iso_8601": "2022-04-28T17:21:25.336281Z",
            "yanked": True,
            "yanked_reason": "broken",
        }
    ]
    answer = parsed(made)
    assert answer.advisories == (
        Advisory("PYSEC-2", ("CVE-2", "GHSA-2"), "XSS in `xmlattr`", ("3.1.3",), "https://example.org/PYSEC-2"),
    )
    assert answer.files == {
        "Jinja2-3.1.2-py3-none-any.whl": FileFacts("a" * 64, "2022-04-28T17:21:25.336281Z", "broken")
    }
    assert (answer.fetched, answer.known) == (NOW, True)


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        None,
        document("jinja2", "3.1.3"),
        document("other", "3.1.2"),
        {key: value for key, value in document("jinja2", "3.1.2").items() if key != "vulnerabilities"},
        {**document("jinja2", "3.1.2"), "vulnerabilities": None},
        {**document("jinja2", "3.1.2"), "vulnerabilities": [{}]},
    ],
    ids=["empty", "a list", "null", "another version", "another name", "no key", "null key", "no id"],
)
def test_what_is_no_answer(content: object) -> None:
    with pytest.raises(IndexFailure) as caught:
        parsed(content)
    assert "isn't PyPI's JSON for jinja2 3.1.2" in str(caught.value) and "secret" not in str(caught.value)


def test_html_is_no_answer() -> None:
    with pytest.raises(IndexFailure):
        parse_release(b"<html>log in</html>", JINJA, "https://example.org", NOW)


def test_what_an_html_page_says_of_files() -> None:
    page = """<a href="../a-1-py3-none-any.whl#sha256=aa" data-yanked="">a</a>
    <a href="../b-1-py3-none-any.whl#sha256=bb" data-yanked="broken" data-upload-time="2026-01-01T00:00:00Z">b</a>
    <a href="../c-1-py3-none-any.whl#sha256=cc">c</a>"""
    rows = parse_page(page.encode(), "https://example.org/simple/a/")
    assert [file_facts(row) for row in rows] == [
        FileFacts("aa", None, ""),
        FileFacts("bb", "2026-01-01T00:00:00Z", "broken"),
        FileFacts("cc"),
    ]
    assert (
        file_facts({**rows[2], "yanked": True}).yanked == "" and file_facts({**rows[2], "yanked": False}).yanked is None
    )


def entry(identifier: str, *affected: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.6.0",
        "id": identifier,
        "modified": "2026-11-01T10:00:00.5Z",
        "summary": f"About {identifier}",
        "affected": list(affected),
        **more,
    }


def affected(name: str, *events: dict[str, str], versions: list[str] | None = None, ecosystem: str = "PyPI") -> Any:
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    return {"package": {"name": name, "ecosystem": ecosystem}, "ranges": ranges, "versions": versions or []}


@pytest.mark.parametrize(
    ("events", "inside", "outside"),
    [
        ([{"introduced": "0"}], ["0.1.dev1", "1", "99"], []),
        ([{"introduced": "0"}, {"fixed": "2.0"}], ["0.1", "1.9.9", "2.0rc1"], ["2.0", "2.0.post1", "3"]),
        ([{"introduced": "1.5"}, {"last_affected": "2.0"}], ["1.5", "2.0"], ["1.4", "2.0.1"]),
        (
            [{"introduced": "0"}, {"fixed": "1.1"}, {"introduced": "2.0"}, {"fixed": "2.3"}],
            ["1.0", "2.0", "2.2"],
            ["1.1", "1.9", "2.3"],
        ),
        ([{"fixed": "2.3"}, {"introduced": "2.0"}], ["2.0"], ["1.9", "2.3"]),
        ([{"introduced": "not-a-version"}], [], ["1"]),
    ],
)
def test_ranges(events: list[dict[str, str]], inside: list[str], outside: list[str]) -> None:
    database = OsvDatabase([entry("PYSEC-1", affected("lib", *events))], "db")
    assert [v for v in (*inside, *outside) if database.ask(PublishedRelease("lib", v)).advisories] == inside


def test_what_an_entry_says() -> None:
    made = entry(
        "GHSA-1",
        affected("Some.Lib", {"introduced": "0"}, {"fixed": "1.2"}, {"introduced": "2"}, {"fixed": "2.1"}),
        aliases=["CVE-1"],
        database_specific={"severity": "HIGH"},
        references=[{"type": "WEB", "url": "https://x"}, {"type": "ADVISORY", "url": "https://y"}],
    )
    (advisory,) = OsvDatabase([made], "db").ask(PublishedRelease("some-lib", "1.0")).advisories
    assert advisory == Advisory("GHSA-1", ("CVE-1",), "About GHSA-1", ("1.2", "2.1"), "https://y", "high")


def test_what_does_not_count() -> None:
    records = [
        entry("A", affected("lib", {"introduced": "0"}), withdrawn="2025-01-01T00:00:00Z"),
        entry("B", affected("lib", {"introduced": "0"}, ecosystem="npm")),
        entry("C", affected("library", {"introduced": "0"})),
        entry("D", affected("lib", versions=["1.0", "garbage"])),
    ]
    database = OsvDatabase(records, "db")
    assert [one.id for one in database.ask(PublishedRelease("lib", "1.0.0")).advisories] == ["D"]
    assert database.ask(PublishedRelease("lib", "1.1")).advisories == ()
    assert database.ask(PublishedRelease("unheard-of", "1")).known


@pytest.mark.parametrize(
    "more",
    [
        {"database_specific": None},
        {"database_specific": "HIGH"},
        {"references": [{"type": "ADVISORY"}, None, "x"]},
        {"references": None, "aliases": None, "summary": None, "details": None},
    ],
)
def test_what_an_entry_may_lack(more: dict[str, Any]) -> None:
    database = OsvDatabase([entry("A", affected("lib", versions=["1"]), **more)], "db")
    (advisory,) = database.ask(PublishedRelease("lib", "1")).advisories
    assert (advisory.id, advisory.link, advisory.severity) == ("A", None, None)


@pytest.mark.parametrize(
    "broken",
    [
        {"ranges": [{"type": "ECOSYSTEM"}]},
        {"ranges": [{"type": "ECOSYSTEM", "events": None}]},
        {"ranges": [{"type": "ECOSYSTEM", "events": ["1.0"]}]},
        {"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": 1}]}]},
        {"ranges": [None]},
        {"ranges": {}},
        {"versions": "1.0"},
        {"versions": [1.0]},
    ],
    ids=json.dumps,
)
def test_an_entry_that_cant_be_judged_is_named(broken: dict[str, Any]) -> None:
    made = entry("GHSA-7", {"package": {"name": "lib", "ecosystem": "PyPI"}, **broken})
    database = OsvDatabase([made], "all.zip")
    assert database.ask(PublishedRelease("other", "1")).advisories == ()
    with pytest.raises(InputError) as caught:
        database.ask(PublishedRelease("lib", "1"))
    assert "the entry GHSA-7 isn't in the OSV format" in str(caught.value) and "all.zip" in str(caught.value)


def test_which_package_an_entry_is_about_must_be_told(tmp_path: Path) -> None:
    (tmp_path / "GHSA-8.json").write_text(json.dumps(entry("GHSA-8", {"package": {"ecosystem": "PyPI"}})))
    with pytest.raises(InputError) as caught:
        OsvDatabase.read(tmp_path)
    assert "the entry GHSA-8 isn't in the OSV format" in str(caught.value)


def test_an_archive_that_cant_be_unpacked(tmp_path: Path) -> None:
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("A.json", json.dumps(entry("A", affected("lib", versions=["1"]))))
    content = archive.read_bytes()
    # the flag of an encrypted file, in the local header and in the central directory; then a broken stream
    central = content.index(b"PK\x01\x02")
    encrypted = bytearray(content)
    encrypted[6] |= 1
    encrypted[central + 8] |= 1
    damaged = bytearray(content)
    damaged[36:44] = b"\xff" * 8
    for broken in (encrypted, damaged, content[: len(content) // 2]):
        archive.write_bytes(broken)
        with pytest.raises(InputError) as caught:
            OsvDatabase.read(archive)
        assert "all.zip" in str(caught.value) and caught.value.hint


def test_a_zip_a_folder_and_a_file(tmp_path: Path) -> None:
    records = [entry("A", affected("lib", versions=["1"])), entry("B", affected("lib", versions=["1"]))]
    folder = tmp_path / "folder" / "below"
    folder.mkdir(parents=True)
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for record in records:
            file.writestr(f"{record['id']}.json", json.dumps(record))
            (folder / f"{record['id']}.json").write_text(json.dumps(record))
    for path, found in ((archive, 2), (tmp_path / "folder", 2), (folder / "A.json", 1)):
        database = OsvDatabase.read(path)
        assert len(database.ask(PublishedRelease("lib", "1")).advisories) == found
        assert (database.modified, database.name) == ("2026-11-01T10:00:00.5Z", path.name)


@pytest.mark.parametrize("content", ["", "[]", "{}", "no json", '{"id": "A", "modified": "2026", "affected": [{}]}'])
def test_what_is_no_database(tmp_path: Path, content: str) -> None:
    path = tmp_path / "db.json"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        OsvDatabase.read(path)
    assert caught.value.hint and "db.json" in str(caught.value)


def test_an_empty_folder_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        OsvDatabase.read(tmp_path)


@pytest.mark.parametrize(
    ("urls", "page"),
    [
        ({"Source": "https://github.com/psf/requests"}, "https://github.com/psf/requests/releases"),
        ({"Repository": "https://github.com/psf/requests.git"}, "https://github.com/psf/requests/releases"),
        ({"Homepage": "https://github.com/a/b/tree/main/docs#readme"}, "https://github.com/a/b/releases"),
        ({"Source Code": "https://gitlab.com/a/b"}, "https://gitlab.com/a/b/-/releases"),
        ({"source": "https://codeberg.org/a/b/"}, "https://codeberg.org/a/b/releases"),
        (
            {"Homepage": "https://docs.example.org", "Changelog": "https://github.com/a/b"},
            "https://github.com/a/b/releases",
        ),
        ({"Source": "http://github.com/a/b"}, None),
        ({"Source": "https://github.com.evil.example/a/b"}, None),
        ({"Source": "https://github.com@evil.example/a/b"}, None),
        ({"Source": "https://user:secret@github.com/a/b"}, None),
        ({"Source": "https://github.com/a"}, None),
        ({"Source": "https://github.com/../b"}, None),
        ({"Source": "https://github.com/a/b) [x](https://evil.example"}, None),
        ({"Source": 'https://github.com/a/b"><script>'}, None),
        ({"Source": "https://github.com/a/b\n"}, None),
        ({"Source": None, "Homepage": ["x"]}, None),
        ({}, None),
    ],
)
def test_only_a_repository_at_a_known_forge_gives_a_page_of_releases(urls: dict[str, Any], page: str | None) -> None:
    assert releases_page(urls) == page
