"""The URLs of a lock's files by this machine's indexes: for formats that contain URLs, and for downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from envspec.base.redact import without_credentials
from envspec.configuration.settings import load_settings
from envspec.lock.conda_files import channel_of, urls_in_channels
from envspec.lock.model import Pin
from envspec.spec.model import Spec


def file_urls(
    pins: Iterable[Pin],
    spec: Spec,
    env: Mapping[str, str],
    on_page: Callable[[int, int], None] = lambda done, total: None,
) -> dict[tuple[str, str], str]:
    """Give the URL of every file, without credentials, by (index or channel, file name).

    Works out channels' URLs and asks the indexes for others; calls `on_page` with the number of pages read and of all
    pages. Raises what `channel_urls` and `artifact_urls` raise.
    """
    pins = tuple(pins)
    conda = [pin for pin in pins if pin.kind == "conda"]
    pip = [pin for pin in pins if pin.kind == "pip"]
    urls: dict[tuple[str, str], str] = {}
    # most formats contain no URL, and load no resolver
    if conda:
        from envspec.artifacts.conda_channels import channel_urls

        urls |= urls_in_channels(conda, channel_urls({channel_of(pin)[0] for pin in conda}, spec, env))
    if pip:
        from envspec.artifacts.urls import artifact_urls

        urls |= artifact_urls(pip, spec, env, on_page)
    return urls


def index_addresses(names: Iterable[str], spec: Spec, env: Mapping[str, str]) -> dict[str, str]:
    """Give the URL of each index, without credentials, by its name in the lock. Asks no index.

    Raises what `index_address` raises.
    """
    from envspec.artifacts.urls import index_address

    settings = load_settings(env)
    flat = {name: settings.flat_url(name, urls[0]) for name, urls in spec.flat_pages.items()}
    named = {**flat, **settings.index_urls(spec.indexes)}
    return {name: without_credentials(index_address(name, named, settings, env)) for name in names}
