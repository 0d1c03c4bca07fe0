"""The addresses of pip packages' files: on the pages that pip is told to look at (`find-links`), or on their
indexes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envspec.base.errors import IndexFailure
from envspec.base.settings import Settings, split_credentials
from envspec.install.collect import is_folder
from envspec.lock.conda_files import FileUrls, artifact_of
from envspec.lock.model import Pin
from envspec.net.fetch import Fetcher, local_path
from envspec.net.simple_page import read_page
from envspec.resolve.artifact_urls import artifact_urls
from envspec.spec.model import Spec


def pip_addresses(
    pins: Sequence[Pin], spec: Spec, settings: Settings, env: Mapping[str, str], fetcher: Fetcher
) -> FileUrls:
    """The URLs of pip packages' files. Raises IndexFailure, offline at once, and what `artifact_urls` raises."""
    if fetcher.offline:
        addresses = settings.index_urls(spec.index_addresses)
        absent = [artifact_of(pin).file for pin in pins if local_path(addresses.get(pin.index, "")) is None]
        if absent:
            raise IndexFailure(
                f"not in the cache: {', '.join(absent[:3])}{'…' if len(absent) > 3 else ''}",
                hint="run without --offline once",
            )
    flat: dict[tuple[str, str], str] = {}
    for link in settings.find_links:
        if not is_folder(link):
            flat = {**_on_page(link, pins, fetcher), **flat}
    return {**flat, **artifact_urls([pin for pin in pins if (pin.index, artifact_of(pin).file) not in flat], spec, env)}


def _on_page(link: str, pins: Sequence[Pin], fetcher: Fetcher) -> dict[tuple[str, str], str]:
    """The files of a flat page, by name, with no hash or the right one."""
    reply = fetcher.get(link)
    if reply.status != 200:
        return {}
    listed: dict[str, tuple[str | None, str]] = {}
    for row in read_page(reply.body, reply.url, fetcher):
        url = split_credentials(str(row["url"]))[0]
        listed[str(row["filename"])] = (row["hashes"].get("sha256"), url)
    found = {}
    for pin in pins:
        artifact = artifact_of(pin)
        sha256, url = listed.get(artifact.file, ("", ""))
        if sha256 in (None, artifact.sha256):
            found[pin.index, artifact.file] = url
    return found
