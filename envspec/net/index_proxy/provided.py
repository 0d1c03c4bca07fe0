"""The packages that conda installs, as pages of an index: one version each, with METADATA without dependencies."""

from __future__ import annotations

import hashlib

Provided = tuple[tuple[str, str], ...]
"""PyPI name (normalised) and version (PEP 440) of each package that conda installs, sorted."""


def stub_page(name: str, version: str) -> list[dict[str, object]]:
    """Make the `files` of a provided package's page (PEP 691)."""
    text = stub_metadata(name, version)
    return [
        {
            "filename": f"{name.replace('-', '_')}-{version}-py3-none-any.whl",
            "url": f"../files/{name}.whl",
            # nobody downloads it, but uv would in order to learn its hash
            "hashes": {"sha256": hashlib.sha256(text).hexdigest()},
            "core-metadata": True,
            # long before every `exclude-newer`
            "upload-time": "2000-01-01T00:00:00Z",
        }
    ]


def stub_metadata(name: str, version: str) -> bytes:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
