"""What sources say without running: whose word is taken, and archives that are made to hurt."""

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index, other_bytes
from support.packages import Dist, metadata_text, sdist

from envspec.artifacts.sdist import static_source
from envspec.artifacts.sdist.static_source import Content, SourceFacts, StaticReader, facts_of, parse_requires
from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher
from envspec.resolve.uv.answer import FoundFile

OLD = "Metadata-Version: 1.0\nName: a\nVersion: 1.0\n"
SETUPTOOLS = '[build-system]\nrequires = ["setuptools"]\n'
POETRY = '[build-system]\nrequires = ["poetry-core"]\n[tool.poetry.dependencies]\nb = "*"\n'


def facts(texts: Mapping[str, str], *names: str) -> SourceFacts:
    return facts_of(Content(dict(texts), [*texts, *names], asks=False), "a", "1.0", 5)


@pytest.mark.parametrize(
    ("texts", "trust", "requires"),
    [
        ({"PKG-INFO": metadata_text("a", "1.0", ["b>=2"])}, "static", ("b>=2",)),
        ({"PKG-INFO": metadata_text("a", "1.0", ["b"], dynamic=["License"])}, "static", ("b",)),
        ({"PKG-INFO": metadata_text("a", "1.0", ["b"], dynamic=["Requires-Dist"])}, "unproved", ("b",)),
        ({"PKG-INFO": metadata_text("a", "1.0", ["b"], dynamic=["requires-dist"])}, "static", ("b",)),
        ({"PKG-INFO": metadata_text("a", "1.0", dynamic=["Requires-Dist"])}, "unknown", ()),
        ({"PKG-INFO": metadata_text("a", "1.0", ["b"], metadata_version="2.1")}, "unproved", ("b",)),
        ({"PKG-INFO": metadata_text("other", "1.0", ["b"])}, "unknown", ()),
        ({"PKG-INFO": metadata_text("a", "9.0", ["b"])}, "unknown", ()),
        ({"PKG-INFO": OLD, "pyproject.toml": '[project]\nname = "a"\ndependencies = ["b"]\n'}, "static", ("b",)),
        ({"PKG-INFO": OLD, "pyproject.toml": '[project]\nname = "a"\n'}, "static", ()),
        ({"pyproject.toml": '[project]\nname = "a"\ndynamic = ["dependencies"]\n'}, "unknown", ()),
        ({"pyproject.toml": '[project]\nname = "a"\ndynamic = "dependencies"\n'}, "unknown", ()),
        ({"pyproject.toml": '[project]\nname = "a"\ndependencies = "b"\n'}, "unknown", ()),
        ({"pyproject.toml": "[project\n"}, "unknown", ()),
        ({"PKG-INFO": OLD, "pyproject.toml": POETRY}, "unknown", ()),
        ({"PKG-INFO": OLD, "a.egg-info/requires.txt": "b\n"}, "unproved", ("b",)),
        ({"PKG-INFO": OLD, "src/a.egg-info/requires.txt": "b\n", "a.egg-info/requires.txt": "c"}, "unproved", ("c",)),
        ({}, "unknown", ()),
    ],
)
def test_whose_word_is_taken(texts: Mapping[str, str], trust: str, requires: tuple[str, ...]) -> None:
    found = facts(texts)
    assert (found.trust, found.metadata.requires_dist) == (trust, requires)
    assert (found.metadata.name, found.metadata.version, found.metadata.size) == ("a", "1.0", 5)


def test_an_egg_info_folder_without_requirements_says_that_there_are_none() -> None:
    found = facts({"PKG-INFO": OLD}, "a.egg-info/SOURCES.txt")
    assert (found.trust, found.metadata.requires_dist) == ("unproved", ())


def test_extras_of_a_project_table() -> None:
    text = '[project]\nname = "a"\n[project.optional-dependencies]\nFast_er = ["c", "d>1; os_name == \'nt\'"]\n'
    found = facts({"pyproject.toml": text}).metadata
    assert found.provides_extra == ("fast-er",)
    assert found.requires_dist == ("c; extra == 'fast-er'", "d>1; (os_name == 'nt') and extra == 'fast-er'")


def test_sections_of_requires_txt() -> None:
    text = "b>=1\n\n[:python_version < '3.5']\ntyping\n\n[All]\nc\n\n[all:sys_platform == 'win32']\nd\n"
    assert parse_requires(text) == (
        (
            "b>=1",
            "typing; (python_version < '3.5')",
            "c; extra == 'all'",
            "d; (sys_platform == 'win32') and extra == 'all'",
        ),
        ("all",),
    )


@pytest.mark.parametrize(
    ("pyproject", "names", "shown"),
    [
        ("", ("a/__init__.py", "setup.py"), None),
        ("", ("a/__init__.py", "csrc/op.cu"), "csrc/op.cu"),
        ("", ("a/fast.pyx",), "a/fast.pyx"),
        ("", ("tests/data/x.c", "docs/y.cpp"), None),
        ('[build-system]\nrequires = ["maturin>=1"]\n', ("src/lib.py",), "maturin"),
        (SETUPTOOLS, (), None),
    ],
)
def test_what_shows_that_a_compiler_is_needed(pyproject: str, names: tuple[str, ...], shown: str | None) -> None:
    assert facts({"pyproject.toml": pyproject}, *names).compiles == shown


BOTH = 'requires = ["setuptools>=61", "wheel"]'


@pytest.mark.parametrize(
    ("build_system", "asks"),
    [
        ("", False),
        (BOTH, False),
        (f'{BOTH}\nbuild-backend = "setuptools.build_meta"', False),
        (f'{BOTH}\nbuild-backend = "hatchling.build"', True),
        (f'{BOTH}\nbackend-path = ["."]', True),
        ('requires = ["setuptools<60"]', True),
        ('requires = ["setuptools", "wheel", "pbr"]', True),
        ('requires = ["setuptools", "wheel", "?"]', True),
    ],
)
def test_whether_a_backend_may_ask_for_more_than_the_source_declares(build_system: str, asks: bool) -> None:
    texts = {"pyproject.toml": f"[build-system]\n{build_system}\n" if build_system else ""}
    assert facts(texts).asks is asks
    assert facts_of(Content(texts, []), "a", "1.0", 5).asks, "not all of it was read"


@pytest.mark.parametrize("says", ["a/b.py", "setup.cfg", "build/x.toml"])
def test_setup_requires_anywhere_in_a_source_may_ask_for_more(index: Index, tmp_path: Path, says: str) -> None:
    for text, asks in (("install_requires = []", False), ("setup(**{'setup_requires': []})", True)):
        members = {"a-1.0/PKG-INFO": metadata_text("a", "1.0").encode(), f"a-1.0/{says}": text.encode()}
        assert read(index, tmp_path, zipped(members)).asks is asks


def reader(folder: Path) -> StaticReader:
    return StaticReader(folder / "cache", Fetcher(credentials={}, env={"HOME": str(folder), "UV_HTTP_RETRIES": "0"}))


def read(index: Index, folder: Path, dist: Dist) -> SourceFacts:
    index.add(dist)
    file = FoundFile(index.file_url(dist), dist.file, dist.sha256)
    return reader(folder).read(file, "a", "1.0")


def zipped(members: Mapping[str, bytes]) -> Dist:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return replace(sdist("a", "1.0"), file="a-1.0.zip", content=buffer.getvalue())


def test_a_tar_and_a_zip_are_read_once(index: Index, tmp_path: Path) -> None:
    for dist in (sdist("a", "1.0", "b"), zipped({"a-1.0/PKG-INFO": metadata_text("a", "1.0", ["b"]).encode()})):
        first = read(index, tmp_path, dist)
        assert (first.trust, first.metadata.requires_dist, first.metadata.size) == ("static", ("b",), len(dist.content))
        assert read(index, tmp_path, dist) == first
        assert len(index.paths(dist.file)) == 1


def test_another_content_is_refused(index: Index, tmp_path: Path) -> None:
    index.fail("^/files/", other_bytes)
    with pytest.raises(IndexFailure, match="the index says"):
        read(index, tmp_path, sdist("a", "1.0"))


@pytest.mark.parametrize("content", [b"", b"no archive", sdist("a", "1.0").content[:40]])
@pytest.mark.parametrize("file", ["a-1.0.tar.gz", "a-1.0.zip"])
def test_what_can_not_be_unpacked_says_nothing(index: Index, tmp_path: Path, content: bytes, file: str) -> None:
    found = read(index, tmp_path, replace(sdist("a", "1.0"), content=content, file=file))
    assert (found.trust, found.metadata.requires_dist) == ("unknown", ())


def test_a_bomb_is_refused(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_source, "_UNPACKED", 1 << 20)
    bomb = zipped({"a-1.0/PKG-INFO": OLD.encode(), "a-1.0/zeros": bytes(2 << 20)})
    with pytest.raises(IndexFailure, match="unpacks to more files or bytes than envspec accepts"):
        read(index, tmp_path, bomb)


def test_too_many_names_are_refused(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_source, "_MEMBERS", 3)
    with pytest.raises(IndexFailure, match="unpacks to more"):
        read(index, tmp_path, sdist("a", "1.0", files={str(number): "" for number in range(5)}))


def test_nothing_is_written_but_the_cache(index: Index, tmp_path: Path) -> None:
    """Names that leave the archive, links, devices: only names are looked at."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path in ("../../escaped", "/tmp/escaped", "a-1.0/PKG-INFO"):
            entry = tarfile.TarInfo(path)
            archive.addfile(entry, io.BytesIO(b""))
        link = tarfile.TarInfo("a-1.0/pyproject.toml")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    found = read(index, tmp_path, replace(sdist("a", "1.0"), content=buffer.getvalue()))
    assert found.trust == "unknown"
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.parts[:2] for path in written] == [("cache", "sources-v8")]
