"""The table of conda-forge's packages and the PyPI projects that they install, as parselmouth reads them."""

from __future__ import annotations

from collections.abc import Mapping

from envspec.packages.conda import SAME
from envspec.packages.requirement import canonical_name

MAPPING = "files/compressed_mapping.json"
"""The file in parselmouth's repository. It says what each package holds: conda's ninja, cmake and uv hold a program and
no distribution, so they are no PyPI project, whatever their name."""


def table_from(mapping: Mapping[str, str | None], revision: str, date: str) -> str:
    """Make the text of the table from a commit's file."""
    origin = f"parselmouth, github.com/prefix-dev/parselmouth, {MAPPING} at {revision[:12]} ({date})"
    return table_text(mapping, f"{origin}; BSD-3-Clause, Copyright (c) 2023, prefix.dev GmbH")


def table_text(mapping: Mapping[str, str | None], source: str) -> str:
    """Make the text of the table from parselmouth's `compressed_mapping.json`; `source` names its commit and date.

    A package that only carries a copy of another conda package's distribution (flit-core has tomli's) doesn't provide
    it. parselmouth takes the first distribution that it finds, so such packages keep their own name here.
    """
    lines = [f"# {source}", "# one conda package a line and its PyPI name: = the same, nothing for none"]
    for name, provided in sorted(mapping.items()):
        own = canonical_name(name)
        if (
            provided
            and provided != own
            and canonical_name(mapping.get(provided) or "") == provided
            and provided not in own
        ):
            provided = own
        lines.append(f"{name} {SAME}" if provided == own else f"{name} {provided}" if provided else name)
    return "\n".join(lines) + "\n"
