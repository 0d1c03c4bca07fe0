"""Names of packages, channels and indexes, and normal forms of requirements and match specs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from envspec.base.redact import without_credentials
from envspec.packages.requirement import TEXTS, canonical_name, parse_requirement

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


PACKAGE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
"""The pattern of PEP 508's names."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def channel_name(channel: str) -> str:
    """Give a channel's name in a lock: the name that the spec gives, or the last part of the URL's path.

    A URL without a path is named after host and port: `http://127.0.0.1:8080` is "127.0.0.1-8080". Characters that a
    lock's names can't have become hyphens.
    """
    if not _URL.match(channel):
        return channel.strip("/")
    last = without_credentials(channel).partition("://")[2].rstrip("/").rpartition("/")[2]
    return _NOT_IN_NAMES.sub("-", last).lstrip("._-") or "channel"


@lru_cache(maxsize=TEXTS)
def normalise_requirement(text: str) -> str:
    """Normalise a PEP 508 requirement: canonical name, sorted extras and specifiers, no credentials.

    Raises ValueError for a text that isn't PEP 508.
    """
    parsed = parse_requirement(text)
    extras = sorted({canonical_name(extra) for extra in parsed.extras})
    normal = canonical_name(parsed.name) + (f"[{','.join(extras)}]" if extras else "")
    normal += ",".join(sorted({clause.operator + clause.version for clause in parsed.specifier}))
    if parsed.url:
        normal += f" @ {without_credentials(parsed.url)}"
    if parsed.marker:
        # Only a space tells a URL from the marker's semicolon (PEP 508).
        normal += f" ; {parsed.marker}" if parsed.url else f"; {parsed.marker}"
    return normal


def normalise_match_spec(text: str) -> str:
    """Normalise a conda match spec: lower-case name, single spaces, none inside a version range."""
    joined = re.sub(r"\s*([,|])\s*", r"\1", " ".join(text.split()))
    joined = re.sub(r"(?<=[<>=!~])\s+", "", joined)
    name = conda_name(joined)
    start = joined.find("::") + 2 if "::" in joined else 0
    return joined[:start] + name + joined[start + len(name) :]


@lru_cache(maxsize=TEXTS)
def conda_name(match_spec: str) -> str:
    """Read the package's name in a match spec or in a line of a record's `depends`."""
    return re.split(r"[\s=<>!~\[]", match_spec.rpartition("::")[2].lstrip(), maxsplit=1)[0].lower()


@lru_cache(maxsize=TEXTS)
def requirement_name(requirement: str) -> str:
    """Read the canonical name at the start of a PEP 508 requirement."""
    return canonical_name(re.split(r"[^A-Za-z0-9._-]", requirement.lstrip(), maxsplit=1)[0])


def is_of_extra(requirement: str) -> bool:
    """Return whether a published requirement holds for an extra alone, by its marker."""
    return "extra" in requirement.partition(";")[2]


PUBLIC = "pypi"
"""In a spec's `sources`: take the package from PyPI, or from the PyTorch index in its place, whatever index has it."""


PACKAGES_OF: Mapping[str, tuple[str, ...]] = {
    "absl": ("absl-py",), "attr": ("attrs",), "bs4": ("beautifulsoup4",), "Crypto": ("pycryptodome",),
    "cv2": ("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv", "py-opencv"),
    "dateutil": ("python-dateutil",), "docx": ("python-docx",), "dotenv": ("python-dotenv",),
    "faiss": ("faiss-cpu", "faiss-gpu", "faiss-gpu-cu12"), "ffmpeg": ("ffmpeg-python",), "fitz": ("pymupdf",),
    "git": ("gitpython",), "google": ("protobuf",), "hydra": ("hydra-core",), "jwt": ("pyjwt",),
    "mpl_toolkits": ("matplotlib",), "PIL": ("pillow", "pillow-simd"), "pkg_resources": ("setuptools",),
    "pynvml": ("nvidia-ml-py", "pynvml"), "serial": ("pyserial",), "skimage": ("scikit-image",),
    "skbuild": ("scikit-build",), "sklearn": ("scikit-learn",), "slugify": ("python-slugify",),
    "umap": ("umap-learn",), "yaml": ("pyyaml",), "zmq": ("pyzmq",),
}  # fmt: skip
"""Modules whose package has another name, as RECORDs of its wheels have it. Others are looked for by their own name."""
