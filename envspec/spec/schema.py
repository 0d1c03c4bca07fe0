"""The spec's format, described once: `FORMAT`, made of the tables' records and of the forms of their values. The checks
(`envspec.base.reader.structure`) and the JSON Schema that editors read follow from it. What no schema can say (does
this requirement parse?) is in `envspec.spec.values`.

`python -m envspec.spec.schema` prints the JSON Schema; the shipped `spec.schema.json` is that output.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from envspec.base.reader.nodes import AGE, DATE, Either, Names, Table, Text, schema_of, table_of
from envspec.spec import advice, forms
from envspec.spec.cluster import KubernetesTable, SlurmTable
from envspec.spec.matrix import Matrix
from envspec.spec.model import Audit, BaseKeys, CondaTable, Image, PipTable, PipTerms, ProjectParts, Smoke, Target

_NUMBER = r"(?:0|[1-9][0-9]?)"
_MINOR = "|".join(forms.PYTHONS).replace(".", r"\.")
_CLAUSE = rf"(?:(?:[<>]=?|[!=]=) ?[34](?:\.{_NUMBER}){{0,2}}|[!=]= ?3\.{_NUMBER}\.\*|~= ?3(?:\.{_NUMBER}){{1,2}})"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"

MINIMAL_TARGET = 'add one, for example:\n  [targets.cpu]\n  platform = "linux-64"'


def newer_for(names: Text, what: str, age: str) -> Names:
    """Return a table of exceptions: `what` each is about, and how an age is written."""
    return Names(
        doc=f"What `exclude-newer` doesn't hold for: {what}, each with the reason.",
        names=names,
        values=Table(
            doc="An exception of `exclude-newer`.",
            required=("reason",),
            keys={
                "exclude-newer": Text(
                    doc="The bound that holds instead: a date, a time or an age; none at all, if left out.",
                    example="1 day",
                    says="an RFC 3339 date or time, or an age such as 1 day",
                    pattern=rf"{DATE}(?:[Tt ][^\s]+)?|{age}",
                    date=True,
                ),
                "reason": forms.reason("its fixes can't wait"),
                "until": forms.UNTIL,
            },
        ),
    )


_FOLDER = Text(
    doc="The folder with the pyproject.toml, relative to the spec's file.",
    example=".",
    says="a folder's relative path, with '/'",
    pattern=r"(?!.*//)(?:[A-Za-z0-9_.-][A-Za-z0-9_. +-]*/)*[A-Za-z0-9_.-][A-Za-z0-9_. +-]*/?",
    max_length=1000,
)
PROJECT = Either(
    text=_FOLDER,
    table=Table(
        doc="A local project: the dependencies of its pyproject.toml are the spec's, with these extras and groups.",
        required=("path",),
        keys={
            "path": _FOLDER,
            **table_of(ProjectParts).keys,
        },
    ),
)
_ENV = Table(
    doc="The environment as a whole.",
    required=("python",),
    keys={
        "name": forms.ENV_NAME,
        "description": Text(
            doc="What the environment is for.",
            example="Text, image and video training on PyTorch 2.9",
            multiline=True,
        ),
        "project": PROJECT,
        "python": Text(
            doc="The Python version: X.Y is its newest build, X.Y.Z that build, and a range (PEP 440) the newest build "
            "that it admits.",
            example="3.12",
            says=f"a Python version from {forms.PYTHONS[0]} to {forms.PYTHONS[-1]}, or a range such as >=3.11,<3.13",
            pattern=rf"(?:{_MINOR})(?:\.{_NUMBER})?|{_CLAUSE}(?:, ?{_CLAUSE})*",
            max_length=100,
            advice=advice.python,
        ),
        "exclude-newer": Text(
            doc="Nothing published at or after this time is used: an RFC 3339 date or time, always read as UTC; or an "
            "age in hours, days or weeks, counted back from the moment when the lock began or was upgraded.",
            example="2026-11-01",
            says="an RFC 3339 date or time, or an age such as 7 days",
            pattern=rf"{DATE}(?:[Tt ]{_TIME})?|{AGE}",
            date=True,
            advice=advice.exclude_newer,
        ),
        "exclude-newer-package": newer_for(forms.PACKAGE_NAME, "a package", AGE),
        "exclude-newer-index": newer_for(forms.INDEX_NAME, "all packages of an index of [pip]", AGE),
    },
)

FORMAT = Table(
    doc="A training environment, for envspec to lock.",
    required=("env",),
    any_of=("targets", "matrix"),
    missing=MINIMAL_TARGET,
    keys={
        "env": _ENV,
        "pip": replace(table_of(PipTable), keys={**table_of(PipTable).keys, **table_of(PipTerms).keys}),
        "conda": table_of(CondaTable),
        "targets": Names(
            doc="One environment to lock for each platform, CUDA version and kind of GPU.",
            not_empty=True,
            names=forms.TARGET_NAME,
            values=table_of(Target),
        ),
        "matrix": table_of(Matrix),
        "image": table_of(Image),
        "base": table_of(BaseKeys),
        "slurm": table_of(SlurmTable),
        "kubernetes": table_of(KubernetesTable),
        "smoke": table_of(Smoke),
        "audit": table_of(Audit),
    },
)
"""The whole format, from the document's root."""


def json_schema() -> dict[str, Any]:
    """Return `FORMAT` as a JSON Schema, draft-07: what most editors read, and what SchemaStore asks for.

    TOML's dates count as the strings they're written as.
    """

    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:envspec:spec",
        "title": "envspec",
    }
    return head | schema_of(FORMAT)


def rendered_json_schema() -> str:
    """Return the text of the shipped `spec.schema.json`."""

    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(rendered_json_schema())
