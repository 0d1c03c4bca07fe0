"""The setup of a pip resolver on this machine: the user's indexes and logins, the caches, a scratch folder, uv."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from envspec.net.fetch import Fetcher, read_timeout
from envspec.net.file_store import ARTIFACTS, FileStore
from envspec.net.index_proxy.pages import Pages
from envspec.net.index_proxy.releases import ReleaseStore
from envspec.net.keyring import Keyring
from envspec.net.logins import credentials_of
from envspec.net.simple_page import LivePages, mirror_pages
from envspec.resolve.pip.metadata import MetadataCache, MetadataReader
from envspec.resolve.pip.solve import PipResolver
from envspec.resolve.pip.source import SourceReader
from envspec.resolve.pip.static_source import StaticReader
from envspec.resolve.progress import ResolutionProgress
from envspec.rules.finding import Finding
from envspec.scratch import scratch_folder
from envspec.settings import load_settings
from envspec.spec.model import Spec
from envspec.uv.default_index import uvs_default_index
from envspec.uv.program import find_uv


@contextmanager
def pip_resolver(
    spec: Spec,
    env: Mapping[str, str],
    *,
    offline: bool,
    refresh: bool,
    progress: ResolutionProgress,
    notice: Callable[[Finding], None] = lambda finding: None,
) -> Iterator[PipResolver]:
    """Make the resolver of a spec's pip half. Its scratch folder goes when the block ends.

    Raises InputError for a broken configuration, ToolError without uv, StorageError without room for scratch.
    """
    settings = load_settings(env)
    uv = find_uv(env)
    uv.offline = offline
    indexes = settings.index_urls(spec.pip.indexes)
    default = settings.default_index or uvs_default_index(uv, settings.cache_dir)
    keyring = (env.get("UV_KEYRING_PROVIDER") or uv.settings.get("keyring-provider")) == "subprocess"
    fetcher = Fetcher(
        credentials=credentials_of(settings, indexes, env),
        env=env,
        read_seconds=read_timeout(env),
        offline=offline,
        keyring=Keyring(env) if keyring else None,
    )
    cache = MetadataCache(settings.cache_dir)

    def live_pages(variant: str) -> LivePages | None:
        url = settings.pytorch_mirror(variant)
        return mirror_pages(url, fetcher) if url else None

    with scratch_folder(settings.cache_dir) as scratch:
        yield PipResolver(
            uv=uv,
            wheels=MetadataReader(cache, fetcher),
            sources=SourceReader(
                cache, fetcher, StaticReader(settings.cache_dir, fetcher), env, uv.executable, default
            ),
            pages=Pages(
                fetcher,
                ReleaseStore(settings.cache_dir),
                FileStore(settings.cache_dir / ARTIFACTS, fetcher),
                offline,
            ),
            secrets=settings.cache_dir,
            scratch=scratch,
            indexes=indexes,
            default_index=default,
            live_pages=live_pages,
            refresh=refresh,
            progress=progress,
            notice=notice,
        )
