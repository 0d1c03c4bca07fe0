"""Credentials out of texts: nothing that envspec prints, logs or writes may hold a password from a URL."""

from __future__ import annotations

import re
from collections.abc import Iterable

# up to the last @ before a slash, whatever stands there: a password may hold @, ? or a quote that nobody escaped
_USERINFO = re.compile(r"(?<=://)[^/\s\"<>]*@")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Take the user part out of every URL in `text`, and every given secret wherever it stands."""
    text = _USERINFO.sub("", text)
    for secret in secrets:
        if secret:
            text = text.replace(secret, "****")
    return text
