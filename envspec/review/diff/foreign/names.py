"""Indexes and channels by name, as envspec's locks call them: URLs of hosts and mirrors mean the same by them."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from envspec.base.redact import without_credentials

_PYTORCH = re.compile(r"/whl/(?:nightly/|test/)?(cpu|cu\d+|rocm[\d.]+|xpu)(?:/|$)")
_PYPI_FILE = re.compile(r"/packages/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}/")
"""How PyPI lays out its files, and every mirror of it."""


def index_name(url: str | None) -> str:
    """Return an index's name by its URL, or by the URL of a file on it: "pypi", "pytorch/cu126", or host and path.

    None, for a format that names no index where it is the default one, is "pypi". A mirror of PyPI has PyPI's own
    paths; registries of one's own have "pypi" and "simple" deeper in theirs.
    """
    if not url:
        return "pypi"
    bare = without_credentials(url)
    parts = urlsplit(bare)
    if match := _PYTORCH.search(parts.path):
        return f"pytorch/{match[1]}"
    folders = [part for part in parts.path.split("/") if part]
    on_its_host = folders[:1] == ["simple"] and "pypi" in (parts.hostname or "").split(".")
    if _PYPI_FILE.search(parts.path) or on_its_host or folders[:2] == ["pypi", "simple"]:
        return "pypi"
    return f"{parts.hostname or ''}{parts.path}".strip("/") or bare


def is_pypi_itself(url: str) -> bool:
    """Say whether an index's URL is PyPI's own, and no mirror's: its host has no name before "pypi"."""
    return bool(re.fullmatch(r"pypi\.[a-z]+", urlsplit(url).hostname or "")) and index_name(url) == "pypi"


def channel_name(file_url: str) -> str:
    """Return a channel's name and subdir by the URL of one of its files: "conda-forge/linux-64"."""
    folders = [part for part in urlsplit(without_credentials(file_url)).path.split("/")[:-1] if part]
    return "/".join(folders[-2:]) or "unknown"


def subdir(file_url: str) -> str:
    """Return the subdir ("linux-64", "noarch") by the URL of a file."""
    return channel_name(file_url).rpartition("/")[2]


def conda_file(file: str) -> tuple[str, str, str]:
    """Return name, version and build from a file's name: `numpy-2.1.0-py312h1_0.conda`. Raises ValueError for another
    name."""
    stem = file.removesuffix(".conda").removesuffix(".tar.bz2")
    name, version, build = stem.rsplit("-", 2)
    return name, version, build
