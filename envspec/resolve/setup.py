"""A resolver put together for this machine: the user's indexes and credentials, the caches, a scratch folder, uv."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from envspec.errors import StorageError
from envspec.net.fetch import Fetcher, read_timeout
from envspec.net.index_proxy.pages import Pages
from envspec.net.index_proxy.releases import ReleaseStore
from envspec.net.keyring import Keyring
from envspec.net.simple_page import LivePages, mirror_pages
from envspec.resolve.pip.metadata import MetadataCache, MetadataReader
from envspec.resolve.pip.solve import PipResolver, Progress
from envspec.resolve.pip.source import SourceReader
from envspec.resolve.pip.static_source import StaticReader
from envspec.rules.finding import Finding
from envspec.settings import Credentials, Settings, index_credentials, load_settings, split_credentials
from envspec.spec.model import Spec
from envspec.uv.run import Uv, find_uv

_ROOM = "free some space, or point ENVSPEC_CACHE_DIR to a place that can be written"


@contextmanager
def pip_resolver(
    spec: Spec,
    env: Mapping[str, str],
    *,
    offline: bool,
    refresh: bool,
    progress: Progress,
    notice: Callable[[Finding], None] = lambda finding: None,
) -> Iterator[PipResolver]:
    """The resolver of a spec's pip half. Its scratch folder is gone when the block ends.

    Raises InputError for a broken configuration, ToolError without uv, StorageError when there is no room for scratch.
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
            pages=Pages(fetcher, ReleaseStore(settings.cache_dir), offline),
            secrets=settings.cache_dir,
            scratch=scratch,
            indexes=indexes,
            default_index=default,
            live_pages=live_pages,
            refresh=refresh,
            progress=progress,
            notice=notice,
        )


def credentials_of(settings: Settings, indexes: Mapping[str, str], env: Mapping[str, str]) -> dict[str, Credentials]:
    """Credentials by origin: those inside URLs, and uv's variables for named indexes."""
    found: dict[str, Credentials] = {}
    named = [(name, url) for name, url in indexes.items()]
    for name, url in [*named, *settings.mirrors.items(), ("pypi", settings.default_index or "")]:
        bare, own = split_credentials(url)
        credentials = own or index_credentials(name, env)
        parts = urlsplit(bare)
        if credentials and parts.netloc:
            found[f"{parts.scheme}://{parts.netloc}"] = credentials
    return found


def uvs_default_index(uv: Uv, cache_dir: Path) -> str | None:
    """Where uv finds PyPI when nobody says otherwise, as uv itself tells; remembered for each uv program.

    A uv that fails (for a broken setting of its own, say) tells nothing, and nothing of it is remembered.
    """
    try:
        state = Path(uv.executable).stat()
    except OSError:
        return None
    memo = cache_dir / f"uv-default-index-{state.st_size}-{state.st_mtime_ns}"
    with suppress(OSError):
        return memo.read_text(encoding="utf-8") or None
    empty = [
        "pip",
        "compile",
        "-",
        "--emit-index-url",
        "--no-header",
        "--no-config",
        "--quiet",
        "--python",
        sys.executable,
    ]
    ran = uv.run(empty, cwd=Path("/"))
    if ran.returncode:
        return None
    answer = ran.stdout.split()
    url = answer[answer.index("--index-url") + 1] if "--index-url" in answer[:-1] else ""
    partial = memo.with_name(f"{memo.name}.{secrets.token_hex(4)}.partial")
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        partial.write_text(url, encoding="utf-8")
        partial.replace(memo)
    except OSError:
        # a cache that can't be written is no error: the answer is here all the same
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return url or None


@contextmanager
def scratch_folder(cache_dir: Path) -> Iterator[Path]:
    """A folder for one run, below the cache: `scratch/<pid>-<host>-…`. Only its user may read it: while the run
    lasts, it holds addresses with credentials.

    Those of processes of this host that were killed are swept first.
    """
    base = cache_dir / "scratch"
    try:
        base.mkdir(parents=True, exist_ok=True)
        _sweep(base)
        folder = base / f"{os.getpid()}-{_host()}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise StorageError(f"{base} can't be written: {error.strerror}", hint=_ROOM) from None
    try:
        yield folder
    except OSError as error:
        # what runs in the block answers for its own files elsewhere
        raise StorageError(f"{base} can't be written: {error.strerror or error}", hint=_ROOM) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _host() -> str:
    """A short name for this host. Many may share a home folder, and a process id means something on one alone."""
    return hashlib.sha256(socket.gethostname().encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _sweep(base: Path) -> None:
    host = _host()
    for entry in base.iterdir():
        pid, _, rest = entry.name.partition("-")
        if pid.isdecimal() and rest.startswith(f"{host}-") and not _alive(int(pid)):
            shutil.rmtree(entry, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
