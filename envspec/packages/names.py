"""Names: of packages in requirements and match specs, of channels, of indexes; and both in a normal form."""

from __future__ import annotations

import re
from functools import lru_cache

from envspec.packages.requirement import TEXTS, canonical_name, parse_requirement
from envspec.redact import without_credentials

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def channel_name(channel: str) -> str:
    """What a lock calls a spec's channel: by the name that the spec gives it, or by the last part of its URL's path.

    A URL without a path has its host alone to be known by, with its port: `http://127.0.0.1:8080` is "127.0.0.1-8080".
    What a name in a lock can't have becomes a hyphen there too.
    """
    if not _URL.match(channel):
        return channel.strip("/")
    last = without_credentials(channel).partition("://")[2].rstrip("/").rpartition("/")[2]
    return _NOT_IN_NAMES.sub("-", last).lstrip("._-") or "channel"


@lru_cache(maxsize=TEXTS)
def normalise_requirement(text: str) -> str:
    """A PEP 508 requirement in one spelling: canonical name, sorted extras and specifiers, no credentials.

    Raises ValueError when it isn't PEP 508.
    """
    parsed = parse_requirement(text)
    extras = sorted({canonical_name(extra) for extra in parsed.extras})
    bracket = f"[{','.join(extras)}]" if extras else ""
    specifiers = sorted({specifier.operator + specifier.version for specifier in parsed.specifier})
    normal = canonical_name(parsed.name) + bracket + ",".join(specifiers)
    if parsed.url:
        normal += f" @ {without_credentials(parsed.url)}"
    if parsed.marker:
        # Only a space tells a URL from the marker's semicolon (PEP 508).
        normal += f" ; {parsed.marker}" if parsed.url else f"; {parsed.marker}"
    return normal


def normalise_match_spec(text: str) -> str:
    """A conda match spec in one spelling: lower-case name, single spaces, none inside a version range."""
    joined = re.sub(r"\s*([,|])\s*", r"\1", " ".join(text.split()))
    joined = re.sub(r"(?<=[<>=!~])\s+", "", joined)
    name = conda_name(joined)
    start = joined.find("::") + 2 if "::" in joined else 0
    return joined[:start] + name + joined[start + len(name) :]


@lru_cache(maxsize=16384)
def conda_name(match_spec: str) -> str:
    """The package's name in a match spec or in a record's `depends`."""
    return re.split(r"[\s=<>!~\[]", match_spec.rpartition("::")[2].lstrip(), maxsplit=1)[0].lower()


def requirement_name(requirement: str) -> str:
    """The canonical name at the start of a PEP 508 requirement."""
    return canonical_name(re.split(r"[^A-Za-z0-9._-]", requirement.lstrip(), maxsplit=1)[0])


PUBLIC = "pypi"
"""In a spec's `sources`: from PyPI, or the PyTorch index where that stands in for it, whatever else has the package."""
