"""Questions to a running index proxy, with the login of its run."""

from urllib.request import Request, urlopen

from envspec.net.index_proxy.server import IndexProxy


def asked(proxy: IndexProxy, url: str, method: str = "GET") -> Request:
    """The request that uv would send."""
    return Request(url, method=method, headers={"Authorization": proxy.login.basic})


def body_of(proxy: IndexProxy, url: str) -> bytes:
    with urlopen(asked(proxy, url), timeout=10) as reply:
        content: bytes = reply.read()
        return content
