"""What stands behind an index proxy, put together: indexes' pages, and readers of wheels' and sources' METADATA."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envspec.net.fetch import Fetcher
from envspec.net.file_store import ARTIFACTS, FileStore
from envspec.net.index_proxy.pages import Pages
from envspec.net.index_proxy.releases import ReleaseStore
from envspec.resolve.pip.metadata import MetadataCache, MetadataReader
from envspec.resolve.pip.source import SourceReader
from envspec.resolve.pip.static_source import StaticReader
from envspec.resolve.uv.program import Uv


@dataclass(frozen=True)
class IndexReaders:
    """The pages, and the readers of what they list. All share one cache and one fetcher."""

    wheels: MetadataReader
    sources: SourceReader
    pages: Pages


def index_readers(cache: Path, fetcher: Fetcher, uv: Uv) -> IndexReaders:
    """Put them together over the cache's folder."""
    metadata, files = MetadataCache(cache), FileStore(cache / ARTIFACTS, fetcher)
    return IndexReaders(
        wheels=MetadataReader(metadata, fetcher),
        sources=SourceReader(metadata, files, StaticReader(cache, fetcher), uv),
        pages=Pages(fetcher, ReleaseStore(cache), files, uv.offline),
    )
