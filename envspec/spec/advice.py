"""Hints for common mistakes. Each function takes the bad value and gives a hint, or None."""

from __future__ import annotations

import re

from envspec.base.redact import redact


def slug(text: str) -> str:
    """Return the name nearest to `text` that may stand in a path: lower case, digits, single `-`, `_` and `.`
    inside."""
    return re.sub(r"\.{2,}", ".", re.sub(r"[^a-z0-9._-]+", "-", text.lower())).strip("-._")[:100].strip("-._")


def name(value: str) -> str | None:
    better = slug(redact(value))
    return f"it becomes a folder's name; use {better!r}" if better else "it becomes a folder's name"


RESERVED = (
    "compose.yaml", "environment.nix", "envspec", "envspec.lock", "flake.lock", "flake.nix", "indexes.nix",
    "job-pyxis.sbatch", "job.sbatch", "modulefile.lua", "requirements",
)  # fmt: skip
"""Names that no target can have: its folder would take the place of a file of its spec's lock or recipes."""


def target_name(value: str) -> str | None:
    if value == "envspec.lock":
        return "the lock itself has this name; choose another"
    return "files of every recipe have this name; choose another" if value in RESERVED else name(value)


def python(value: str) -> str | None:
    if re.fullmatch(r"3\.\d+t", value):
        return f"write {value[:-1]!r}: envspec locks for CPython with its GIL; free-threaded builds aren't supported"
    return "for example: 3.12"


def cuda(value: str) -> str | None:
    match = re.fullmatch(r"(\d{1,2}\.\d{1,2})\.\d+", value)
    if match:
        return f"write {match[1]!r}: wheels are built for a CUDA minor version"
    match = re.fullmatch(r"cu(\d{2})(\d)", value)
    if match:
        return f"write '{match[1]}.{match[2]}'"
    if re.match(r"rocm|hip|xpu|mps|hpu", value, re.IGNORECASE):
        return "envspec locks for NVIDIA GPUs (CUDA) and CPUs only; leave the key out for a CPU target"
    if value in ("", "cpu", "none"):
        return "leave the key out for a CPU target"
    return None


def platform(value: str) -> str | None:
    known = {
        "linux": "linux-64",
        "linux-x86_64": "linux-64",
        "linux/amd64": "linux-64",
        "x86_64": "linux-64",
        "linux-arm64": "linux-aarch64",
        "linux/arm64": "linux-aarch64",
        "aarch64": "linux-aarch64",
        "macos": "osx-arm64",
        "darwin": "osx-arm64",
        "windows": "win-64",
    }
    return f"conda's name for it is {known[value.lower()]!r}" if value.lower() in known else None


def exclude_newer(value: str) -> str | None:
    return "write a date (2026-11-01) or a time (2026-11-01T12:00:00Z); it's read as UTC; or an age (7 days)"


def index_name(value: str) -> str | None:
    if value in ("pypi", "git", "url") or value.startswith("pytorch"):
        return "envspec uses this name itself; mirrors of PyPI or the PyTorch index belong in the user's configuration"
    better = slug(redact(value))
    return f"use {better!r}" if better else None


def index_url(value: str) -> str | None:
    if "@" in value:
        return (
            "leave the credentials out: give them by netrc, the keyring, or UV_INDEX_<NAME>_USERNAME and "
            "UV_INDEX_<NAME>_PASSWORD"
        )
    if "?" in value or "#" in value:
        return "leave out everything from '?' or '#' on"
    if value.startswith(("/", "~")) or "://" not in value:
        return "write a folder as ./path, relative to the spec, or as file:///absolute/path; a space is %20"
    return None


def channel(value: str) -> str | None:
    if "@" in value or "/t/" in value:
        return "leave the credentials out: conda tools read them from their own login or netrc"
    return None


def user(value: str) -> str | None:
    if value == "root":
        return "the image runs as an unprivileged user; leave the key out for 'dev'"
    return None


def variable(value: str) -> str | None:
    if value.startswith("ENVSPEC_"):
        return "names that begin with ENVSPEC_ are envspec's; give such a variable when the image is started"
    if value in ("PATH", "CONDA_PREFIX", "VIRTUAL_ENV", "PYTHONPATH"):
        return "programs find the environment by this variable: leave the key out"
    if value.startswith("UV_"):
        return "uv's settings are the builder's: give them by a uv.toml when the image is built"
    return None


def image(value: str) -> str | None:
    if "://" in value:
        return "leave out the scheme: write registry.example.org/name:tag"
    if value != value.lower():
        return "an image's name is lower case"
    return None


def apt(value: str) -> str | None:
    match = re.fullmatch(r"([a-z0-9+.-]+)=[a-z0-9+.:~-]+", value)
    return f"leave the version out: {match[1]!r}" if match else None
