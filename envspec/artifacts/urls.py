"""URLs of a lock's files, from the user's own indexes, for formats that give every file a URL.

A lock names indexes, never hosts. This module goes from an index's name to its address on this machine, and through
the project's page (PEP 503 HTML or PEP 691 JSON) to the file's URL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from typing import Any

from msgspec import Struct

from envspec.base.errors import IndexFailure, InputError, OutsideError
from envspec.base.threads import Pool
from envspec.configuration.settings import Settings, load_settings, split_credentials
from envspec.lock.model import Pin
from envspec.net.connections import index_fetcher
from envspec.net.fetch import Fetcher
from envspec.net.simple_page import FlatPages, read_page
from envspec.resolve.uv.program import find_uv, uvs_default_index, uvs_pytorch_index
from envspec.spec.model import Spec

_WORKERS = 16
_HEADERS = {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5", "Accept-Encoding": "gzip"}
_NAMES_ITS_SOURCE = ("git", "url")
_MIRROR_HINT = (
    "name a mirror of it in envspec's configuration (~/.config/envspec/config.toml):\n  [mirrors]"
    '\n  pytorch = "https://…"    # the folder that holds cu126/, cpu/, …'
)


class _Page(Struct, frozen=True):
    """A project's page on an index, by the index's name; a flat index has one page for all projects, named ""."""

    index: str
    project: str


def artifact_urls(
    pins: Iterable[Pin],
    spec: Spec,
    env: Mapping[str, str],
    on_page: Callable[[int, int], None] = lambda done, total: None,
) -> dict[tuple[str, str], str]:
    """Find the URL of every file that pip installs from an index, without credentials, by (index name, file name).

    Calls `on_page` with the number of pages read and of all. Raises OutsideError for an index without a known address,
    IndexFailure for one that doesn't answer, lacks a file, or has a different file of that name; InputError for a
    broken configuration, or an index that the spec no longer has.
    """
    required: dict[_Page, dict[str, str]] = {}
    for pin in pins:
        if pin.kind == "pip" and pin.artifact is not None and pin.index not in _NAMES_ITS_SOURCE:
            project = "" if pin.index in spec.flat_pages else pin.name
            required.setdefault(_Page(pin.index, project), {})[pin.artifact.file] = pin.artifact.sha256
    settings = load_settings(env)
    named = settings.index_urls(spec.indexes)
    flat = {name: [settings.flat_url(name, url) for url in urls] for name, urls in spec.flat_pages.items()}
    simple = sorted({page.index for page in required} - flat.keys())
    addresses = {index: index_address(index, named, settings, env) for index in simple}
    fetcher = index_fetcher(settings, settings.index_urls(spec.index_addresses), env)

    def read(page: _Page) -> dict[str, str]:
        if page.index in flat:
            return _urls_on_flat(flat[page.index], page.index, required[page], fetcher)
        return _urls_on(f"{addresses[page.index].rstrip('/')}/{page.project}/", page, required[page], fetcher)

    by_file: dict[tuple[str, str], str] = {}
    on_page(0, len(required))
    with Pool(_WORKERS) as pool:
        reading = {pool.submit(read, page): page for page in required}
        for done, future in enumerate(as_completed(reading), 1):
            by_file.update({(reading[future].index, file): url for file, url in future.result().items()})
            on_page(done, len(required))
    return by_file


def index_address(index: str, named: Mapping[str, str], settings: Settings, env: Mapping[str, str]) -> str:
    """Find the URL of an index by its name in the lock; `named` are the spec's own. Raises OutsideError where this
    machine knows none, InputError for a name that the spec doesn't have."""
    if index == "pypi":
        address = settings.default_index or uvs_default_index(find_uv(env), settings.cache())
        if address is None:
            hint = "name the index to use: UV_DEFAULT_INDEX=https://…"
            raise OutsideError("envspec doesn't know PyPI's address on this machine", hint=hint)
        return address
    if index.startswith("pytorch/"):
        variant = index.removeprefix("pytorch/")
        address = settings.pytorch_mirror(variant) or uvs_pytorch_index(find_uv(env), settings.cache(), variant)
        if address is None:
            raise OutsideError(
                f'envspec doesn\'t know the address of the files of the PyTorch index "{index}"', hint=_MIRROR_HINT
            )
        return address
    if index not in named:
        hint = f'add it to the spec, [pip] indexes = {{ {index} = "https://…" }}, or lock again'
        raise InputError(f'the lock has files from the index "{index}", which the spec doesn\'t name', hint=hint)
    return named[index]


def _urls_on(url: str, page: _Page, required: Mapping[str, str], fetcher: Fetcher) -> dict[str, str]:
    """Find the URLs of the wanted files (name → sha256) of one project."""
    bare = split_credentials(url)[0]
    reply = fetcher.get(url, headers=_HEADERS)
    if reply.status != 200:
        message = f'the index "{page.index}" has no {page.project}: {bare} answered HTTP {reply.status}'
        raise IndexFailure(message, hint="check that the lock was made from this index")
    rows = {row["filename"]: row for row in read_page(reply.body, reply.url, fetcher)}
    return _agreeing(rows, required, page.index, bare)


def _urls_on_flat(urls: Sequence[str], index: str, required: Mapping[str, str], fetcher: Fetcher) -> dict[str, str]:
    """Find the URLs of the wanted files on the pages of a flat index, which targets may have different ones of."""
    pages = FlatPages(fetcher)
    rows = {row["filename"]: row for url in reversed(urls) for row in pages.rows(url)}
    return _agreeing(rows, required, index, ", ".join(split_credentials(url)[0] for url in urls))


def _agreeing(
    rows: Mapping[str, Mapping[str, Any]], required: Mapping[str, str], index: str, bare: str
) -> dict[str, str]:
    """Take the URLs of the wanted files from their rows. A file without a hash on its page is compared with the lock by
    whoever reads it. Raises IndexFailure for one that isn't there or differs."""
    urls = {}
    for file, sha256 in required.items():
        row = rows.get(file)
        if row is None:
            hint = "check that the lock was made from this index, and whether the publisher removed the file"
            raise IndexFailure(f'the index "{index}" lists no {file}: {bare}', hint=hint)
        listed = row["hashes"].get("sha256")
        if listed is not None and listed != sha256:
            raise IndexFailure(
                f'the index "{index}" has a different {file}: its sha256 is {listed} at {bare} and {sha256} in '
                "the lock",
                hint="don't install it until you know why: published files don't change",
            )
        urls[file] = split_credentials(str(row["url"]))[0]
    return urls
