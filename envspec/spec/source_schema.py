"""The part of the format that is about building from source: what packages need that don't say so themselves."""

from __future__ import annotations

from envspec.spec.nodes import CONTROL, Array, Node, Table, Text

_VERSIONS = Text(
    doc="The releases that it holds for: a version, or a specifier of PEP 440. Left out: all of them.",
    example="2.8.3",
    says="a version or a specifier",
    pattern=rf"[^{CONTROL}]*[^\s{CONTROL}][^{CONTROL}]*",
)


def source_keys(package: Text, requirement: Text) -> dict[str, Node]:
    """Return the keys of `[pip]` about sources. `package` and `requirement` describe a name and a requirement."""
    return {
        "metadata": Array(
            doc="What sources require, where their own metadata can't be had without torch or a compiler. "
            "It counts in place of their own, for sources alone; the first entry that covers a version holds.",
            items=Table(
                doc="The dependencies of one package's sources.",
                required=("name", "dependencies"),
                keys={
                    "name": package,
                    "version": _VERSIONS,
                    "dependencies": Array(
                        doc="All that the package requires, as its METADATA would say it.",
                        items=requirement,
                        example=("torch", "einops"),
                    ),
                },
            ),
            example=({"name": "flash-attn", "version": "2.8.3", "dependencies": ["torch", "einops"]},),
        ),
    }
