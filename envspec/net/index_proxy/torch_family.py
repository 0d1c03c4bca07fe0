"""The torch family's pages, made from the facts that ship with envspec (`envspec.facts.wheels`).

These pages are uv's first index. They have only the torch family, so that no other package of the PyTorch index (old
copies of idna, packaging, …) can shadow PyPI's. With uv's `first-index` strategy, uv takes a name of these pages from
nowhere else, whether the spec or a package requires it. Where the user configured a mirror and the facts are not
enough, the server joins them with the mirror's pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from envspec.facts import edition, released, wheels
from envspec.net.simple_page import Page

_FORMAT = "1"
"""Version of the pages and METADATA that uv keeps. A new one makes uv ask for them again."""


@cache
def facts_digest(variant: str) -> str:
    """Make a digest of all that a variant's pages and METADATA are made of: uv keeps them for as long as it stays."""
    digest = hashlib.sha256(_FORMAT.encode())
    for file in (f"wheels/{variant}.json", "released.toml"):
        digest.update(Path(edition.folder(), file).read_bytes())
    return digest.hexdigest()[:16]


def facts_page(variant: str, project: str, accept: Callable[[wheels.WheelFile], bool]) -> Page:
    """List a project's files in the shipped facts of a variant, as PEP 691 rows with links relative to its page."""
    rows: Page = []
    for wheel in wheels.load(variant).files(project) if variant in wheels.variants() else ():
        if not accept(wheel):
            continue
        row: dict[str, object] = {
            "filename": wheel.file,
            # of what a wheel's name may have, a URL has this alone in another form
            "url": f"../files/{wheel.file.replace('+', '%2B')}",
            "hashes": {"sha256": wheel.sha256},
            "core-metadata": True,
        }
        if wheel.requires_python:
            row["requires-python"] = wheel.requires_python
        if wheel.size is not None:
            row["size"] = wheel.size
        date = released.date(project, wheel.version)
        if date:
            # uv takes nothing without a date when the spec has `exclude-newer`
            row["upload-time"] = date
        rows.append(row)
    return rows


def belongs(variant: str) -> Callable[[wheels.WheelFile], bool]:
    """Select the files of a variant's page that really are of that variant.

    The pages also hold CPU wheels without a local version (macOS and aarch64, in every cuNNN folder up to torch 2.0):
    a CUDA target must not take those. triton has no local version and belongs to all; so does the `cpu` page to macOS.
    """

    def accept(wheel: wheels.WheelFile) -> bool:
        return variant == "cpu" or wheel.project == "triton" or wheel.version.endswith(f"+{variant}")

    return accept
