"""The spec's format, described once: `FORMAT`. The parser's structural checks (`envspec.base.reader.structure`)
and the JSON Schema that editors read are both made from it. What no schema can say (does this requirement parse?) is in
`envspec.spec.values`.

`python -m envspec.spec.schema` prints the JSON Schema; the shipped `spec.schema.json` is that output.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from envspec.base.reader.nodes import (
    AGE,
    CONTROL,
    DATE,
    LINE,
    NAME,
    PACKAGE,
    PLACE,
    URL,
    Array,
    Boolean,
    Either,
    Integer,
    Names,
    Node,
    Number,
    Table,
    Text,
    schema_of,
)
from envspec.spec import advice
from envspec.spec.cluster import KUBERNETES_TABLE, SLURM_TABLE
from envspec.spec.image_schema import BASE_TABLE, IMAGE_TABLE
from envspec.spec.model import DEFAULT_GLIBC, Smoke
from envspec.spec.pip_terms import INDEX_NAME, pip_terms_keys

UNTIL = Text(
    doc="The last day on which it counts, in UTC.",
    example="2026-12-31",
    says="a date",
    pattern=DATE,
    date=True,
)


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
                "reason": Text(
                    doc="Why.",
                    example="its fixes can't wait",
                    says="a reason in one line",
                    pattern=LINE,
                    max_length=300,
                ),
                "until": UNTIL,
            },
        ),
    )


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


_LICENCE = Text(
    doc="A licence: an SPDX identifier, or what a package says in its own words; `*` stands for anything.",
    example="BSD-3-Clause",
    says="a licence",
    pattern=rf"[^\s{CONTROL}](?:[^{CONTROL}]*[^\s{CONTROL}])?",
    max_length=200,
)


ACCEPTABLE = ("licence", "licence-unknown", "yanked")
"""The findings that a spec can accept. A vulnerability is ignored by its advisory."""


def _waiver(doc: str, example: str) -> Either:
    reason = Text(doc=doc, example=example, says="a reason", pattern=rf"[^{CONTROL}]*[^\s{CONTROL}][^{CONTROL}]*")
    return Either(
        text=reason,
        table=Table(
            doc=f"{doc} With its end, or for some targets.",
            required=("reason",),
            keys={
                "reason": reason,
                "until": UNTIL,
                "targets": Array(
                    doc="The targets for which it counts; all of them, if left out.",
                    items=Text(doc="A target of this spec.", example="cpu", says="a target's name", pattern=NAME),
                    example=("cpu",),
                    min_items=1,
                    unique=True,
                ),
            },
        ),
    )


PYTHONS = tuple(f"3.{minor}" for minor in range(8, 16))
PLATFORMS = ("linux-64", "linux-aarch64", "osx-64", "osx-arm64", "win-64")
WORKLOADS = ("basic", "multimodal", "llm", "deit", "dynamic")

_NAME_SAYS = "a name of lower-case letters, digits, '.', '_' and '-', starting with a letter or digit, up to 100 long"
_VERSION = r"(?:0|[1-9][0-9]?)\.(?:0|[1-9][0-9]?)"
_MINOR = "|".join(PYTHONS).replace(".", r"\.")
_NUMBER = r"(?:0|[1-9][0-9]?)"
_CLAUSE = rf"(?:(?:[<>]=?|[!=]=) ?[34](?:\.{_NUMBER}){{0,2}}|[!=]= ?3\.{_NUMBER}\.\*|~= ?3(?:\.{_NUMBER}){{1,2}})"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"

MINIMAL_TARGET = 'add one, for example:\n  [targets.cpu]\n  platform = "linux-64"'

_REQUIREMENT = Text(
    doc="A requirement in the form of PEP 508.",
    example="torch==2.9.*",
    says="a requirement",
    pattern=LINE,
)
_MATCH_SPEC = Text(
    doc="A conda match spec: name, version, build.",
    example="ffmpeg 7.*",
    says="a match spec",
    pattern=LINE,
)
_PIP_DEPENDENCIES = Array(
    doc="What pip installs: PEP 508 requirements.",
    items=_REQUIREMENT,
    example=("torch==2.9.*", "torchvision", "transformers>=4.57,<5"),
)
_CONDA_DEPENDENCIES = Array(
    doc="What comes from conda's channels: match specs.",
    items=_MATCH_SPEC,
    example=("ffmpeg 7.*", "openssh"),
)
_PACKAGE_NAME = Text(doc="A package's name.", example="deepspeed", says="a package's name", pattern=PACKAGE)
_CORRECTION_NAME = Text(
    doc="A correction's name.", example="torch-numpy-2", says="a correction's name", pattern="[a-z0-9][a-z0-9-]*"
)
_PIP_TERMS = {**source_keys(_PACKAGE_NAME, _REQUIREMENT), **pip_terms_keys(_REQUIREMENT)}
_PLATFORM = Text(
    doc="The platform, by conda's name for it.",
    example="linux-64",
    choices=PLATFORMS,
    advice=advice.platform,
)
_CUDA = Text(
    doc="The CUDA version of the builds to lock. Left out: a CPU target.",
    example="12.8",
    says="a CUDA version X.Y",
    pattern=_VERSION,
    advice=advice.cuda,
)
_CUDA_OR_CPU = Text(
    doc="A CUDA version, or 'cpu' for targets without CUDA.",
    example="12.8",
    says="a CUDA version X.Y or 'cpu'",
    pattern=rf"(?:cpu)?|{_VERSION}",
    advice=advice.cuda,
)
_GPU = Text(
    doc="A GPU: a product ('H100'), an architecture ('hopper') or a compute capability ('sm_90').",
    example="H100",
    says="a GPU's name",
    pattern=rf"[^\s{CONTROL}](?:[^{CONTROL}]*[^\s{CONTROL}])?",
    max_length=100,
)
_GPUS = Array(doc="The GPUs that the target is for.", items=_GPU, example=("H100", "H200"), min_items=1, unique=True)

ENV_NAME = Text(
    doc="The environment's name, also the folder of its locks. The file's name without .toml if left out.",
    example="mm-v2.9",
    says=_NAME_SAYS,
    pattern=NAME,
    max_length=100,
    advice=advice.name,
)
TARGET_NAME = Text(
    doc="The target's name, also the folder of its lock.",
    example="cu128-hopper",
    says=_NAME_SAYS,
    # A folder of such a name would take the place of the lock, or of what recipes share.
    pattern=NAME,
    but=tuple(advice.RESERVED),
    max_length=100,
    advice=advice.target_name,
)

_ENV = Table(
    doc="The environment as a whole.",
    required=("python",),
    keys={
        "name": ENV_NAME,
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
            says=f"a Python version from {PYTHONS[0]} to {PYTHONS[-1]}, or a range such as >=3.11,<3.13",
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
        "exclude-newer-package": newer_for(_PACKAGE_NAME, "a package", AGE),
        "exclude-newer-index": newer_for(INDEX_NAME, "all packages of an index of [pip]", AGE),
    },
)

_PIP = Table(
    doc="What comes from Python package indexes.",
    keys={
        "dependencies": _PIP_DEPENDENCIES,
        "allow-source": Array(
            doc="Packages that may be built from source, which runs their code; everything else must be a wheel.",
            items=_PACKAGE_NAME,
            example=("deepspeed",),
        ),
        "without-corrections": Array(
            doc="Corrections of published metadata to switch off, by name; `envspec lock` names those it applies.",
            items=_CORRECTION_NAME,
            example=("torch-numpy-2",),
        ),
        "indexes": Names(
            doc="Further indexes, each with a name.",
            names=INDEX_NAME,
            values=Text(
                doc="The URL of its simple index, without credentials, which netrc, the keyring or uv hold; or its "
                "folder, relative to the spec.",
                example="https://packages.example.org/simple",
                says="an http, https or file URL without credentials, or a folder relative to the spec",
                pattern=PLACE,
                secret=True,
                advice=advice.index_url,
            ),
        ),
        "sources": Names(
            doc="Packages that come from one of the named indexes alone, and from nowhere else.",
            names=_PACKAGE_NAME,
            values=Text(
                doc='The name of an index or flat index; "pypi" for what must come from PyPI instead of a named index.',
                example="internal",
            ),
        ),
        **_PIP_TERMS,
    },
)


_CONDA = Table(
    doc="What comes from conda's channels.",
    keys={
        "channels": Array(
            doc="The channels, the most important one first.",
            items=Text(
                doc="A channel's name.",
                example="conda-forge",
                says="a channel's name, or its http, https or file URL without credentials",
                # "/t/TOKEN/" in a channel's URL is conda's way of giving credentials.
                pattern=rf"(?!.*/t/)(?:[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*|{URL})",
                advice=advice.channel,
            ),
            example=("conda-forge",),
            unique=True,
        ),
        "dependencies": _CONDA_DEPENDENCIES,
    },
)


_TARGETS = Names(
    doc="One environment to lock for each platform, CUDA version and kind of GPU.",
    not_empty=True,
    names=TARGET_NAME,
    values=Table(
        doc="A target.",
        required=("platform",),
        keys={
            "platform": _PLATFORM,
            "cuda": _CUDA,
            "gpus": _GPUS,
            "driver": Text(
                doc="The NVIDIA driver on the machines; checked against what the CUDA version needs.",
                example="550.54.15",
                says="a driver version like 550.54.15",
                pattern=r"[0-9]{1,4}(?:\.[0-9]{1,4}){1,2}",
            ),
            "cpu": Text(
                doc="The oldest processors of the target: which builds for newer instructions it may have, where a"
                " package has such variants. Without it, those that every machine of the platform runs.",
                example="x86-64-v3",
                says="x86-64-v1 to x86-64-v4, or an Arm architecture from armv8-a to armv9.6-a",
                pattern=r"x86-64-v[1-4]|armv8(?:\.[1-9])?-a|armv9(?:\.[1-6])?-a",
            ),
            "cuda-compat": Boolean(
                doc="Whether the recipes bring NVIDIA's cuda-compat, with which older drivers run a newer CUDA: forward"
                " compatibility, for data-centre GPUs and RTX cards of workstations.",
                example=True,
                default=False,
            ),
            "glibc": Text(
                doc="The oldest glibc that the target must run on.",
                example="2.28",
                says="a glibc version from 2.17 to 2.49",
                pattern=r"2\.(?:1[7-9]|[2-4][0-9])",
                default=DEFAULT_GLIBC,
            ),
            "pip": Table(
                doc="Added for this target only; of one name, what the target says takes the place of the spec's.",
                keys={"dependencies": _PIP_DEPENDENCIES, **_PIP_TERMS},
            ),
            "conda": Table(doc="Added for this target only.", keys={"dependencies": _CONDA_DEPENDENCIES}),
            "project": TARGET_PROJECT,
        },
    ),
)


_MATRIX = Table(
    doc="Shorthand: every combination becomes a target, named like cu128-sm90.",
    required=("platform",),
    keys={
        "platform": Array(doc="The platforms.", items=_PLATFORM, example=("linux-64",), min_items=1, unique=True),
        "cuda": Array(doc="The CUDA versions.", items=_CUDA_OR_CPU, example=("12.6", "12.8"), min_items=1, unique=True),
        "gpus": Array(
            doc="Lists of GPUs; each list becomes targets of its own.",
            items=_GPUS,
            example=(("A100",), ("H100", "H200")),
            min_items=1,
            unique=True,
        ),
        "exclude": Array(
            doc="Combinations to leave out: what matches all keys of an entry. With gpus, only those GPUs go.",
            items=Table(
                doc="What to leave out.",
                not_empty=True,
                keys={"platform": _PLATFORM, "cuda": _CUDA_OR_CPU, "gpus": _GPUS},
            ),
            example=({"cuda": "12.6", "gpus": ["H200"]},),
        ),
    },
)


REFERENCE = Table(
    doc="What is expected of one figure.",
    required=("value",),
    keys={
        "value": Number(doc="The expected value.", example=740.0, minimum=-1e300, maximum=1e300),
        "low": Number(
            doc="How far below the value a run may be, as a share.",
            example=-0.05,
            minimum=-1,
            maximum=0,
        ),
        "high": Number(doc="How far above the value a run may be, as a share.", example=0.1, minimum=0),
        "unit": Text(doc="The unit.", example="TFLOP/s"),
        "gpus": Array(
            doc="The GPUs that this is expected of: a run on others isn't judged by it.",
            items=_GPU,
            example=("A100",),
            min_items=1,
            unique=True,
        ),
    },
)
REFERENCES = Names(
    doc="Figures that the site expects; a run is compared with them.",
    names=Text(
        doc="The figure's name.",
        example="samples_per_s",
        says="a figure's name of letters, digits, '.', '_', ':', '/' and '-'",
        pattern="[A-Za-z0-9][A-Za-z0-9._:/-]*",
        max_length=100,
    ),
    values=REFERENCE,
)


_SMOKE = Table(
    doc="The training check.",
    keys={
        "workload": Text(
            doc="The training workload.", example="multimodal", choices=WORKLOADS, default=Smoke().workload
        ),
        "steps": Integer(doc="How many steps to train.", example=50, minimum=1, maximum=100_000, default=Smoke().steps),
        "references": REFERENCES,
    },
)


_AUDIT = Table(
    doc="What `envspec audit` accepts. Nothing of it is locked.",
    keys={
        "allow-licences": Array(
            doc="The licences that packages may have; with this list, they may have no other.",
            items=_LICENCE,
            example=("MIT", "BSD-3-Clause", "Apache-2.0"),
            min_items=1,
            unique=True,
        ),
        "deny-licences": Array(
            doc="The licences that no package may have.",
            items=_LICENCE,
            example=("AGPL-*",),
            min_items=1,
            unique=True,
        ),
        "licences": Names(
            doc="The licences of packages, conda's too, whose metadata names no licence or a wrong one.",
            # conda has names such as _libgcc_mutex
            names=replace(_PACKAGE_NAME, pattern=f"_?{_PACKAGE_NAME.pattern}"),
            values=_LICENCE,
        ),
        "ignore": Names(
            doc="Advisories that don't concern this environment, each with the reason, and its end.",
            names=Text(
                doc="The advisory's identifier, or one of its aliases.",
                example="CVE-2024-34064",
                says="an advisory's identifier",
                pattern="[A-Za-z0-9][A-Za-z0-9._:-]*",
                max_length=100,
            ),
            values=_waiver("Why the advisory doesn't concern this environment.", "no template here comes from outside"),
        ),
        "accept": Names(
            doc="Other findings that are taken knowingly: by package and code, each with the reason.",
            names=replace(_PACKAGE_NAME, pattern=f"_?{_PACKAGE_NAME.pattern}"),
            values=Names(
                doc="The findings of a package, by code.",
                names=Text(
                    doc="The finding's code.",
                    example="yanked",
                    says="the code of a finding that can be accepted",
                    choices=ACCEPTABLE,
                ),
                values=_waiver("Why the finding is taken.", "yanked for its documentation alone"),
            ),
        ),
    },
)

FORMAT = Table(
    doc="A training environment, for envspec to lock.",
    required=("env",),
    any_of=("targets", "matrix"),
    missing=MINIMAL_TARGET,
    keys={
        "env": _ENV,
        "pip": _PIP,
        "conda": _CONDA,
        "targets": _TARGETS,
        "matrix": _MATRIX,
        "image": IMAGE_TABLE,
        "base": BASE_TABLE,
        "slurm": SLURM_TABLE,
        "kubernetes": KUBERNETES_TABLE,
        "smoke": _SMOKE,
        "audit": _AUDIT,
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
