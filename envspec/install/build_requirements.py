"""What sources need to be built: wheels of the default index, through the index proxy and its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envspec.errors import OutsideError
from envspec.net.file_store import FileStore
from envspec.net.index_proxy.pages import Pages
from envspec.net.index_proxy.releases import ReleaseStore
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.resolve.pip.describe import Describer
from envspec.resolve.pip.metadata import MetadataCache, MetadataReader
from envspec.resolve.pip.reading import Counting
from envspec.resolve.pip.source import SourceReader
from envspec.resolve.pip.static_source import StaticReader
from envspec.uv.program import Uv


@contextmanager
def build_requirements(uv: Uv, store: FileStore, default: str | None, scratch: Path) -> Iterator[IndexProxy]:
    """The index proxy, for a uv that builds. `default` is where "pypi" is; `scratch` a folder that isn't there yet.

    Sources are shown as in a lock, and none is built on the way. Raises OutsideError where it isn't known where "pypi"
    is.
    """
    if default is None:
        raise OutsideError(
            "it isn't known where PyPI is from here", hint="name the index to use: UV_DEFAULT_INDEX=https://…"
        )
    scratch.mkdir(parents=True)
    cache_dir, fetcher = store.folder.parent, store.fetcher
    cache = MetadataCache(cache_dir)
    sources = SourceReader(cache, fetcher, StaticReader(cache_dir, fetcher), uv.env, uv.executable, default)
    describe = Describer(MetadataReader(cache, fetcher), sources, scratch, Counting(lambda done, total: None))
    pages = Pages(fetcher, ReleaseStore(cache_dir), store, uv.offline)
    with open_proxy(pages=pages, metadata=describe, folder=cache_dir) as proxy:
        yield proxy
