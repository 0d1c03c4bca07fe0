"""The part of the format that is about source: a local project, and what packages need that don't say so themselves."""

from __future__ import annotations

from envspec.base.reader.nodes import Array, Either, Names, Node, Table, Text
from envspec.base.reader.patterns import LINE, PACKAGE

_VERSIONS = Text(
    doc="The releases that it holds for: a version, or a specifier of PEP 440. Left out: all of them.",
    example="2.8.3",
    says="a version or a specifier",
    pattern=LINE,
)
_FOLDER = Text(
    doc="The folder with the pyproject.toml, relative to the spec's file.",
    example=".",
    says="a folder's relative path, with '/'",
    pattern=r"(?!.*//)(?:[A-Za-z0-9_.-][A-Za-z0-9_. +-]*/)*[A-Za-z0-9_.-][A-Za-z0-9_. +-]*/?",
    max_length=1000,
)
_PART = Text(
    doc="The name of an extra or of a dependency group.",
    example="train",
    says="a name of letters, digits, '.', '_' and '-'",
    pattern=PACKAGE,
)

_PARTS: dict[str, Node] = {
    "extras": Array(doc="Extras of the project.", items=_PART, example=("train",), unique=True),
    "groups": Array(doc="Dependency groups (PEP 735).", items=_PART, example=("dev",), unique=True),
}

PROJECT = Either(
    text=_FOLDER,
    table=Table(
        doc="A local project: the dependencies of its pyproject.toml are the spec's, with these extras and groups.",
        required=("path",),
        keys={
            "path": _FOLDER,
            **_PARTS,
        },
    ),
)
TARGET_PROJECT = Table(
    doc="Extras and dependency groups of the spec's project that this target takes, besides those of all targets.",
    not_empty=True,
    keys=_PARTS,
)


def source_keys(package: Text, requirement: Text) -> dict[str, Node]:
    """Return the keys of a pip table about sources. `package` and `requirement` describe a name and a requirement."""
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
        "build-dependencies": Names(
            doc="All that a package's build needs. It's locked and installed with the environment, and the build sees "
            "these packages in the lock's versions, what they require, and nothing else.",
            names=package,
            values=Array(
                doc="What the build of one package needs, its own [build-system] requires included.",
                items=requirement,
                example=("torch", "ninja", "packaging", "setuptools", "wheel"),
            ),
        ),
        "no-build-isolation": Array(
            doc="Packages that are built in the environment itself, where they see everything that it has.",
            items=package,
            example=("flash-attn",),
        ),
    }
