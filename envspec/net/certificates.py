"""The certificates that the user trusts, read once: that takes as long as many requests."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path


def tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Make the context of TLS connections, with the user's own bundle or else the system's. Equal certificates share
    one."""
    bundle = env.get("SSL_CERT_FILE") or env.get("REQUESTS_CA_BUNDLE") or env.get("PIP_CERT")
    own = bundle if bundle and Path(bundle).is_file() else None
    default = ssl.get_default_verify_paths()
    files = (own,) if own else (default.cafile, default.capath)
    return _context(own, tuple((file, _stamp(file)) for file in files))


@lru_cache(4)
def _context(bundle: str | None, _state: object) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=bundle)
    except ssl.SSLError as error:
        if error.reason is None:  # OpenSSL had no memory even for a reason
            raise MemoryError(str(error)) from None
        raise


def _stamp(file: str | None) -> tuple[int, int] | None:
    """Tell a file or folder from what it was before."""
    if file is None:
        return None
    found = Path(file).stat()
    return found.st_mtime_ns, found.st_size
