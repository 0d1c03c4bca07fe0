"""A site's references: the figures that its machines should reach, in one file for many specs.

[references]
"training.samples_per_s" = { value = 900, low = -0.1, unit = "samples/s" }

[targets.cu128-hopper.references]          # a target's own come first
"training.samples_per_s" = { value = 2400, low = -0.1, unit = "samples/s" }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from envspec.base.errors import InputError
from envspec.base.reader.document import decode, parse_toml
from envspec.base.reader.nodes import Names, Table
from envspec.base.reader.structure import Checked
from envspec.spec.model import Reference
from envspec.spec.parse import references_of
from envspec.spec.schema import REFERENCE, REFERENCES, TARGET_NAME

# a reference for some GPUs alone is a spec's: the check judges it
_KEYS = {key: node for key, node in REFERENCE.keys.items() if key != "gpus"}
_FIGURES = replace(REFERENCES, values=replace(REFERENCE, keys=_KEYS))
_OF_TARGET = Table(doc="What is expected of one target.", keys={"references": _FIGURES})
FORMAT = Table(
    doc="The figures that a site's machines should reach.",
    keys={
        "references": _FIGURES,
        "targets": Names(doc="What is expected by target.", names=TARGET_NAME, values=_OF_TARGET),
    },
)


class References:
    """The references of a file, by target."""

    def __init__(self, common: Mapping[str, Reference], own: Mapping[str, Mapping[str, Reference]]) -> None:
        self._common, self._own = common, own

    def of(self, target: str) -> dict[str, Reference]:
        """Give the references of a target's figures, by the figure's name."""
        return {**self._common, **self._own.get(target, {})}


def load_references(path: Path) -> References:
    """Read a file of references. Raises InputError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}") from None
    checked = Checked(parse_toml(decode(content, str(path)), str(path)), FORMAT)
    checked.raise_problems()
    targets = {name: references_of(checked, "targets", name, "references") for name in checked.table("targets")}
    return References(references_of(checked, "references"), targets)
