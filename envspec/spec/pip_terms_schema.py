"""The keys that `[pip]` and `[targets.X.pip]` share besides dependencies. Part of `envspec.spec.schema`'s `FORMAT`."""

from __future__ import annotations

from collections.abc import Mapping

from envspec.base.reader.nodes import LINE, NAME, PACKAGE, PLACE, Array, Boolean, Either, Names, Node, Table, Text
from envspec.spec import advice

INDEX_NAME = Text(
    doc="The index's name.",
    example="internal",
    says="a free name of lower-case letters, digits, '.', '_' and '-'",
    pattern=rf"(?!(?:pypi|git|url)$|pytorch){NAME}",
    max_length=100,
    advice=advice.index_name,
)


def _reason(example: str) -> Text:
    return Text(
        doc="Why: for whoever reads the spec, and in every diff that adds or changes it.",
        example=example,
        says="a reason in one line",
        pattern=LINE,
        max_length=300,
    )


def pip_terms_keys(requirement: Text) -> Mapping[str, Node]:
    """Return the keys. `requirement` is the format's node for one."""
    return {
        "constraints": Array(
            doc="Bounds that ask for nothing: they hold for a package that something else requires.",
            items=requirement,
            example=("numpy<2.3",),
        ),
        "overrides": Array(
            doc="Requirements that take the place of all others on their package, whatever asks for it.",
            items=Table(
                doc="An override.",
                required=("requirement", "reason"),
                keys={"requirement": requirement, "reason": _reason("its tests pass with numpy 2")},
            ),
            example=({"requirement": "numpy>=2", "reason": "its tests pass with numpy 2"},),
        ),
        "find-links": Names(
            doc="Flat indexes: single pages with links to files, or folders of files. Packages come from one by "
            "`sources`.",
            names=INDEX_NAME,
            values=Text(
                doc="The URL of its page, without credentials, which netrc, the keyring or uv hold; or its folder, "
                "relative to the spec.",
                example="https://packages.example.org/torch-2.8.0+cu128.html",
                says="an http, https or file URL without credentials, or a folder relative to the spec",
                pattern=PLACE,
                secret=True,
                advice=advice.index_url,
            ),
        ),
        "accept": Names(
            doc="Findings of the rules that are taken knowingly, by code, each with its reason.",
            names=Text(
                doc="The finding's code.",
                example="cuda-major-mixed",
                says="the code of a finding",
                pattern="[a-z0-9][a-z0-9-]*",
                max_length=100,
            ),
            values=Either(
                text=_reason("it loads the libraries of its own CUDA"),
                table=Names(
                    doc="The finding is taken of these packages alone, each with its reason.",
                    names=Text(
                        doc="A package.",
                        example="mlserver",
                        says="the name of a package",
                        pattern=PACKAGE,
                    ),
                    values=_reason("its tests pass with Python 3.13"),
                    not_empty=True,
                ),
            ),
        ),
        "inspect": Boolean(
            doc="Whether `lock` reads in wheels what their METADATA leaves out, and bounds the packages beside them: "
            "that they were compiled for NumPy 1, or import pkg_resources.",
            example=False,
            default=True,
        ),
    }
