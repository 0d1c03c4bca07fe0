"""The terms of another tool's file beside its packages: the addresses that they come from, and how they are checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from envspec.base.texts import few
from envspec.lock.inputs import bare_address, normal_address
from envspec.packages.other_formats import logical_lines, without_options
from envspec.review.diff.foreign.shape import channel_name, index_name
from envspec.review.diff.model import Terms
from envspec.review.diff.rows import Fact, Risk

_URL = re.compile(r"""https?://[^\s"'#,}\]]+""")
_OPTION = re.compile(r"(--?[a-z][a-z-]*)(?:[= ]\s*(\S+))?")
_SHORT = {"-i": "--index-url", "--pypi-url": "--index-url", "-f": "--find-links"}
_ADDRESSES = ("--index-url", "--extra-index-url", "--find-links")
_GUARDS = ("--require-hashes", "--only-binary", "--no-index")
_LOOSE = ("--trusted-host", "--no-binary", "--pre")
_HASH = re.compile(r"--hash[= ](\S+)")
_HASHES = "--hash of each requirement"


def terms_of(text: str, document: Mapping[str, Any] | None) -> Terms:
    """Read the terms of a file by its text, and by its document where it is TOML or YAML: the readers of packages have
    checked it."""
    files = (url for url in _URL.findall(text) if url.endswith((".conda", ".tar.bz2")))
    conda = ((channel_name(url).rpartition("/")[0], url.rsplit("/", 2)[0]) for url in files)
    if document is None:
        found = _of_options(text)
        return replace(found, addresses=(*found.addresses, *dict.fromkeys(conda)))
    sources = (one.get("source") for one in _tables(document.get("package")))
    registries = (
        source.get("registry") or source.get("url")
        for source in sources
        # of poetry.lock an index is of type "legacy", and of uv.lock a "url" is a file
        if isinstance(source, dict) and ("registry" in source or source.get("type") == "legacy")
    )
    indexes = (one.get("index") for one in _tables(document.get("packages")))
    urls = dict.fromkeys(url for url in (*registries, *indexes) if isinstance(url, str) and "://" in url)
    options, manifest = (_table(document.get(key)) for key in ("options", "manifest"))
    guards = sorted((str(key), str(value)) for key, value in options.items() if not isinstance(value, dict))
    loose = tuple(
        f"{key}: {' '.join(map(str, one.values()))}"
        for key in ("overrides", "dependency-metadata")
        for one in _tables(manifest.get(key))
    )
    addresses = (*((index_name(url), url) for url in urls), *dict.fromkeys(conda))
    return Terms(addresses, (*guards, *_channels(document)), loose)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: Any) -> Iterator[Mapping[str, Any]]:
    return (one for one in (value if isinstance(value, list) else ()) if isinstance(one, dict))


def _channels(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the channels that an environment.yml, a conda-lock.yml or each environment of a pixi.lock is solved from."""
    tables = [("channels", document), ("channels", _table(document.get("metadata")))]
    tables += [(f"channels of {name}", _table(one)) for name, one in _table(document.get("environments")).items()]
    for name, one in tables:
        listed = one.get("channels")
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
    guards = [(option, value) for option, value in words if option in _GUARDS]
    if hashes and all(hashes.values()):
        guards.append((_HASHES, ""))
    loose = tuple(f"{option} {value}".strip() for option, value in words if option in _LOOSE)
    return Terms(tuple(addresses), tuple(guards), loose, hashes)


def of_terms(old: Terms, new: Terms) -> Iterator[Fact]:
    """Yield what changed between the terms of two files of one format."""
    before, after = (_by_name(side) for side in (old, new))
    for name in sorted({*before, *after}):
        was, now = before.get(name, {}), after.get(name, {})
        came, went = ([now[key] for key in now.keys() - was.keys()], [was[key] for key in was.keys() - now.keys()])
        if came and was:
            moved = f"{', '.join(sorted(went or was.values()))} -> {', '.join(sorted(came))}"
            message = f"{name} is at another address: {moved}. Its files come from there now"
            yield Fact("high", "index-address-changed", message)
        elif came and name.startswith("--"):
            yield Fact("high", "index-added", f"{name} is new: files may come from {', '.join(sorted(came))}")
        elif went and name.startswith("--"):
            yield Fact("medium", "index-removed", f"{name} is gone: {', '.join(sorted(went))}")
    held, holds = dict(old.guards), dict(new.guards)
    for name in sorted({*held, *holds}):
        if name not in holds:
            yield Fact("medium", "options-changed", f"{name} {held[name]}".rstrip() + " is gone from the file")
        elif held.get(name) != holds[name]:
            added = name not in held
            # a later day is how time goes by
            routine = name == "exclude-newer" or (added and name in (*_GUARDS, _HASHES))
            risk: Risk = "low" if routine else "medium"
            change = f"{name} {holds[name]}".rstrip() + (" is new" if added else f" (was {held[name]})")
            yield Fact(risk, "options-changed", f"the file's options: {change}")
    for one in sorted({*new.loose} - {*old.loose}):
        yield Fact("medium", "options-changed", f"the file has {one} from now on, which checks less")
    for one in sorted({*old.loose} - {*new.loose}):
        yield Fact("low", "options-changed", f"the file no longer has {one}")
    # of hashes of which none stayed the package's row tells
    more = [name for name, was in old.hashes.items() if was and was < new.hashes.get(name, frozenset())]
    if more:
        message = f"{few(more)}: more files of the same version are accepted. See that the index publishes them"
        yield Fact("medium", "hashes-added", message)


def _by_name(terms: Terms) -> dict[str, dict[str, str]]:
    """Give the addresses of each name, as messages show them, by their one spelling."""
    found: dict[str, dict[str, str]] = {}
    for name, address in terms.addresses:
        found.setdefault(name, {})[normal_address(address)] = bare_address(address)
    return found
