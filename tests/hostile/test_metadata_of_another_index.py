"""An index claims the hash of somebody else's wheel and serves METADATA of its own beside it. What one index says must
not reach the lock of a project that never named it."""

import hashlib
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, metadata_text, sdist, wheel

from envspec.artifacts.metadata import MetadataCache, MetadataReader
from envspec.artifacts.sdist.static_source import StaticReader
from envspec.base.errors import IndexFailure
from envspec.net.fetch import Fetcher
from envspec.resolve.uv.answer import FoundFile

GENUINE = wheel("victim", "1.0", "beta", licence="MIT")
FORGED = replace(GENUINE, metadata=metadata_text("victim", "1.0", ["evil"], licence="PWNED").encode())


def spec(url: str | None = None) -> str:
    named = f"indexes = {{ hostile = '{url}' }}\nsources = {{ victim = 'hostile', evil = 'hostile' }}"
    return cpu("victim", extra=named if url else "")


@pytest.mark.by_day(1)
@pytest.mark.e2e
@pytest.mark.parametrize("first", ["hostile", "genuine"])
def test_edges_and_licences_of_another_project(machine: Machine, index: Index, first: str) -> None:
    index.add(GENUINE, wheel("beta", "1.0"))
    with Index() as hostile:
        hostile.add(FORGED, wheel("evil", "1.0"))
        machine.spec(spec(hostile.url), name="other")
        machine.spec(spec(), name="mine")
        for name in ("other", "mine") if first == "hostile" else ("mine", "other"):
            machine.locked(name=name)
    (target,) = machine.lock("mine")
    victim = target.pin("victim")
    assert victim is not None and victim.artifact is not None
    assert (victim.artifact.sha256, victim.licence, victim.dependencies) == (GENUINE.sha256, "MIT", ("beta",))
    assert machine.versions("cpu", "mine") == {"beta": "1.0", "victim": "1.0"}


def reader(folder: Path) -> MetadataReader:
    return MetadataReader(MetadataCache(folder), Fetcher(credentials={}, env={"HOME": str(folder)}, read_seconds=5))


def found_file(index: Index, dist: Dist, metadata_sha256: str | None = None) -> FoundFile:
    return FoundFile(index.file_url(dist), dist.file, dist.sha256, len(dist.content), metadata_sha256)


def test_what_was_hashed_here_is_shared(index: Index, tmp_path: Path) -> None:
    index.sidecars = False
    index.add(GENUINE)
    read = reader(tmp_path).read(found_file(index, GENUINE))
    with Index() as other:
        assert reader(tmp_path).recall(found_file(other, GENUINE)) == read
        renamed = replace(found_file(other, GENUINE), file="other-1.0-py3-none-any.whl")
        assert reader(tmp_path).recall(renamed) is None


def test_what_was_claimed_is_not(index: Index, tmp_path: Path) -> None:
    index.add(FORGED)
    reader(tmp_path).read(found_file(index, FORGED))
    assert reader(tmp_path).recall(found_file(index, FORGED)) is not None
    with Index() as other:
        assert reader(tmp_path).recall(found_file(other, GENUINE)) is None


def test_other_metadata_than_the_page_says(index: Index, tmp_path: Path) -> None:
    index.add(FORGED)
    page = hashlib.sha256(GENUINE.metadata or b"").hexdigest()
    with pytest.raises(IndexFailure, match=r"victim-1\.0-py3-none-any\.whl\.metadata has sha256 [0-9a-f]{64}, but the"):
        reader(tmp_path).read(found_file(index, FORGED, page))
    assert reader(tmp_path).recall(found_file(index, FORGED)) is None


def test_a_source_under_another_name(index: Index, tmp_path: Path) -> None:
    """The same bytes, which another index calls another package: their facts stay that package's."""
    archive = sdist("victim", "1.0", "beta")
    index.add(archive)
    static = StaticReader(tmp_path, reader(tmp_path).fetcher)
    assert static.read(found_file(index, archive), "evil", "99").trust == "unknown"
    facts = static.read(found_file(index, archive), "victim", "1.0")
    assert (facts.metadata.name, facts.metadata.requires_dist, facts.trust) == ("victim", ("beta",), "static")
