"""The terms of another tool's file beside its packages: their addresses, and the options that check them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from envspec.lock.formats.foreign.shape import channel_name, index_name
from envspec.lock.formats.foreign.side import Terms
from envspec.lock.inputs import bare_address
from envspec.packages.other_formats import logical_lines, without_options

_URL = re.compile(r"""https?://[^\s"'#,}\]]+""")
_OPTION = re.compile(r"(--?[a-z][a-z-]*)(?:[= ]\s*(\S+))?")
_SHORT = {"-i": "--index-url", "--pypi-url": "--index-url", "-f": "--find-links"}
_ADDRESSES = ("--index-url", "--extra-index-url", "--find-links")
GUARDS = ("--require-hashes", "--only-binary", "--no-index")
_LOOSE = ("--trusted-host", "--no-binary", "--pre")
_HASH = re.compile(r"--hash[= ](\S+)")
HASHES = "--hash of each requirement"


def terms_of(text: str, document: Mapping[str, Any] | None) -> Terms:
    """Read the terms of a file by its text, and by its document where it is TOML or YAML: the readers of packages have
    checked it."""
    files = (url for url in _URL.findall(text) if url.endswith((".conda", ".tar.bz2")))
    conda = ((channel_name(url).rpartition("/")[0], url.rsplit("/", 2)[0]) for url in files)
    if document is None:
        terms = _of_options(text)
        return replace(terms, addresses=(*terms.addresses, *dict.fromkeys(conda)))
    sources = (package.get("source") for package in _tables(document.get("package")))
    registries = (
        source.get("registry") or source.get("url")
        for source in sources
        # of poetry.lock an index is of type "legacy", and of uv.lock a "url" is a file
        if isinstance(source, dict) and ("registry" in source or source.get("type") == "legacy")
    )
    indexes = (package.get("index") for package in _tables(document.get("packages")))
    urls = dict.fromkeys(url for url in (*registries, *indexes) if isinstance(url, str) and "://" in url)
    options, manifest = (_table(document.get(key)) for key in ("options", "manifest"))
    guards = sorted((str(key), str(value)) for key, value in options.items() if not isinstance(value, dict))
    loose = tuple(
        f"{key}: {' '.join(map(str, row.values()))}"
        for key in ("overrides", "dependency-metadata")
        for row in _tables(manifest.get(key))
    )
    addresses = (*((index_name(url), url) for url in urls), *dict.fromkeys(conda))
    return Terms(addresses, (*guards, *_channels(document)), loose)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: Any) -> Iterator[Mapping[str, Any]]:
    return (row for row in (value if isinstance(value, list) else ()) if isinstance(row, dict))


def _channels(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the channels that an environment.yml, a conda-lock.yml or each environment of a pixi.lock is solved from."""
    tables = [("channels", document), ("channels", _table(document.get("metadata")))]
    tables += [
        (f"channels of {name}", _table(section)) for name, section in _table(document.get("environments")).items()
    ]
    for name, section in tables:
        listed = section.get("channels")
        if isinstance(listed, list):
            urls = (str(channel.get("url") if isinstance(channel, dict) else channel) for channel in listed)
            yield name, ", ".join(map(bare_address, urls))


def _of_options(text: str) -> Terms:
    """Read pip's options of a requirements file (pip's documentation, "Requirements File Format")."""
    addresses: list[tuple[str, str]] = []
    words: list[tuple[str, str]] = []
    hashes: dict[str, frozenset[str]] = {}
    for _, line in logical_lines(text):
        if not line.startswith("-"):
            if "==" in line:
                hashes[without_options(line)] = frozenset(_HASH.findall(line))
            continue
        for name, value in _OPTION.findall(line):
            option = _SHORT.get(name, name)
            if option in _ADDRESSES:
                addresses.append((option, value))
            words.append((option, value))
    guards = [(option, value) for option, value in words if option in GUARDS]
    if hashes and all(hashes.values()):
        guards.append((HASHES, ""))
    loose = tuple(f"{option} {value}".strip() for option, value in words if option in _LOOSE)
    return Terms(tuple(addresses), tuple(guards), loose, hashes)
