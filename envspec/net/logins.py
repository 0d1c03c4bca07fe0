"""Logins at indexes from the user's settings."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from envspec.settings import Credentials, Settings, index_credentials, split_credentials


def credentials_of(settings: Settings, indexes: Mapping[str, str], env: Mapping[str, str]) -> dict[str, Credentials]:
    """Collect credentials by origin: those inside URLs, and uv's variables for named indexes."""
    found: dict[str, Credentials] = {}
    named = [(name, url) for name, url in indexes.items()]
    for name, url in [*named, *settings.mirrors.items(), ("pypi", settings.default_index or "")]:
        bare, own = split_credentials(url)
        credentials = own or index_credentials(name, env)
        parts = urlsplit(bare)
        if credentials and parts.netloc:
            found[f"{parts.scheme}://{parts.netloc}"] = credentials
    return found
