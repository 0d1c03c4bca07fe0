"""METADATA with corrections, as the proxy shows it to uv."""

from __future__ import annotations

from envspec.facts.corrections import Corrections
from envspec.packages.requirement import canonical_name


def corrected(metadata: bytes, corrections: Corrections) -> bytes:
    """Add to METADATA, as the proxy writes it (a line a field, in UTF-8), the lines that it lacks."""
    if not corrections.rows:
        return metadata
    head, _, rest = metadata.decode().partition("\n\n")
    fields = [line.partition(": ")[::2] for line in head.split("\n")]
    named = dict(fields)
    published = [value for field, value in fields if field == "Requires-Dist"]
    package, version = canonical_name(named.get("Name", "")), named.get("Version", "")
    more = [
        *corrections.left_out(package, version, published),
        *corrections.bounds(package, version, published),
    ]
    lines = [head, *(f"Requires-Dist: {line}" for line in more)]
    return ("\n".join(lines) + "\n\n" + rest).encode() if more else metadata
