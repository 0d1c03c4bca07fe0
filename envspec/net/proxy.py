"""The user's web proxies, as curl's variables name them: `http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envspec.base.errors import InputError
from envspec.base.redact import redact
from envspec.base.settings import split_credentials

if TYPE_CHECKING:
    import urllib3


def proxy_for(url: str, env: Mapping[str, str]) -> str | None:
    """The proxy to ask for a URL, credentials and all; None to ask directly, as this machine itself always is.

    Raises InputError for one that speaks no HTTP.
    """
    parts = urlsplit(url)
    if is_loopback(url) or _is_direct(parts.hostname or "", env.get("no_proxy") or env.get("NO_PROXY") or ""):
        return None
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if proxy := env.get(variable):
                return _address(proxy, variable)
    return None


def through(proxy: str, options: Mapping[str, Any]) -> urllib3.ProxyManager:
    """Connections through a proxy, with the login that its address has."""
    import urllib3
    from urllib3.util import make_headers

    bare, login = split_credentials(proxy)
    headers = make_headers(proxy_basic_auth=f"{login.username}:{login.password}") if login else None
    return urllib3.ProxyManager(bare, proxy_headers=headers, **options)


def is_loopback(url: str) -> bool:
    """Whether a URL's host is this machine itself."""
    return urlsplit(url).hostname in ("127.0.0.1", "::1", "localhost")


def _address(proxy: str, variable: str) -> str:
    # curl takes a host and a port for an HTTP proxy
    whole = proxy if "://" in proxy else f"http://{proxy}"
    try:
        parts = urlsplit(whole)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine:
        shown = redact(whole).rpartition("@")[2]
        raise InputError(f"{variable} is {shown!r}, which is no HTTP proxy", hint=f"{variable}=http://HOST:PORT")
    return whole


def _is_direct(host: str, no_proxy: str) -> bool:
    """Whether `NO_PROXY` names the host or a domain above it."""
    domains = [entry.strip().lstrip(".").lower() for entry in no_proxy.split(",")]
    return "*" in domains or any(domain and f".{host.lower()}".endswith(f".{domain}") for domain in domains)
