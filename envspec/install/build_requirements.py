"""What sources need to be built: wheels of the default index, through the index proxy and its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from envspec.errors import OutsideError
from envspec.net.file_store import FileStore
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.resolve.pip.describe import Describer
from envspec.resolve.pip.readers import index_readers
from envspec.resolve.pip.reading import Counting
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
    cache = store.folder.parent
    readers = index_readers(cache, store.fetcher, uv, default)
    describe = Describer(readers.wheels, readers.sources, scratch, Counting(lambda done, total: None))
    with open_proxy(pages=readers.pages, metadata=describe, folder=cache) as proxy:
        yield proxy
