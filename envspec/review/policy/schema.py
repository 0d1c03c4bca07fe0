"""The policy's format: `FORMAT`, from which its checks and the shipped `policy.schema.json` are made."""

from __future__ import annotations

import json
from typing import Any

from envspec.base.reader.nodes import CONTROL, LINE, Array, Boolean, Names, Table, Text, schema_of
from envspec.lock.signing.model import PUBLIC_KEY
from envspec.prove.rungs import RUNGS

_PACKAGE = Text(
    doc="A package's name.",
    example="deepspeed",
    says="a package's name",
    pattern=r"_?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?",
    max_length=200,
)
_URL = r"[a-z][a-z0-9+.-]*://[!-~]+"
_INDEX = Text(
    doc="An index or channel by its name in locks (`pytorch` stands for all of PyTorch's), or by its address.",
    example="conda-forge",
    says="an index's name or address",
    pattern=rf"(?:[A-Za-z0-9][A-Za-z0-9._/-]*|{_URL})",
    max_length=2000,
)
_ADDRESS = Text(
    doc="An address; what lies below it counts too.",
    example="https://packages.example.org/simple",
    says="an address",
    pattern=_URL,
    max_length=2000,
)
_LICENCE = Text(
    doc="A licence: an SPDX identifier, or what a package says in its own words; `*` stands for anything.",
    example="AGPL-*",
    says="a licence",
    pattern=rf"[^\s{CONTROL}](?:[^{CONTROL}]*[^\s{CONTROL}])?",
    max_length=200,
)
_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAdqeueR5Wo+Qr0PvT5Bc5/pdGu9bA1VLNnQ2O+lS+m7 ci@example.org"

FORMAT = Table(
    doc="What a site demands of every lock that is made or used on its machines.",
    required=("contact",),
    keys={
        "contact": Text(
            doc="The contact that every refusal names.",
            example="HPC support, hpc-help@example.org",
            says="a line of text",
            pattern=LINE,
            max_length=300,
        ),
        "indexes": Table(
            doc="Where packages come from.",
            keys={
                "allow": Array(
                    doc="The only indexes and channels that packages may come from.",
                    items=_INDEX,
                    example=("pypi", "pytorch", "conda-forge", "https://packages.example.org/simple"),
                    unique=True,
                ),
                "at": Names(
                    doc="Where an index or channel has to be asked, whatever a user configured.",
                    names=Text(
                        doc="Its name in locks.", example="pypi", says="a name", pattern="[A-Za-z0-9][A-Za-z0-9._/-]*"
                    ),
                    values=_ADDRESS,
                ),
                "second": Names(
                    doc="Where `envspec verify` asks for an index a second time, as what made a lock proves little.",
                    names=Text(
                        doc="Its name in locks.", example="pypi", says="a name", pattern="[A-Za-z0-9][A-Za-z0-9._/-]*"
                    ),
                    values=_ADDRESS,
                ),
            },
        ),
        "sources": Table(
            doc="What is built on the site's machines, and so runs its code there.",
            keys={
                "allow": Array(
                    doc="The only packages that may be built from source.",
                    items=_PACKAGE,
                    example=("deepspeed", "flash-attn"),
                    unique=True,
                ),
                "from": Array(
                    doc="The only addresses that git and URL requirements may name.",
                    items=_ADDRESS,
                    example=("https://github.com/example-org",),
                    unique=True,
                ),
            },
        ),
        "releases": Table(
            doc="How old a release must be, and what must be known of it.",
            keys={
                "minimum-age": Text(
                    doc="How long a file must have been published.",
                    example="7 days",
                    says="an age in hours, days or weeks",
                    pattern=r"[1-9][0-9]{0,3} (?:hour|day|week)s?",
                ),
                "ask-advisories": Boolean(
                    doc="Whether `lock`, `install` and `bundle` need an answer of OSV's reports for each release.",
                    example=True,
                    default=False,
                ),
                "exceptions": Array(
                    doc="The only packages, and indexes by their address, that specs may except from `exclude-newer`.",
                    items=_INDEX,
                    example=("urllib3", "https://packages.example.org/simple"),
                    unique=True,
                ),
                "except": Names(
                    doc="Packages whose releases may be younger, each with the reason.",
                    names=_PACKAGE,
                    values=Text(
                        doc="Why.",
                        example="we publish it ourselves",
                        says="a line of text",
                        pattern=LINE,
                        max_length=300,
                    ),
                ),
            },
        ),
        "licences": Table(
            doc="The licences that packages may have.",
            keys={
                "allow": Array(
                    doc="The only licences that packages may have. A package without a known one isn't allowed then.",
                    items=_LICENCE,
                    example=("MIT", "BSD-3-Clause", "Apache-2.0"),
                    unique=True,
                ),
                "deny": Array(
                    doc="The licences that no package may have.", items=_LICENCE, example=("AGPL-*",), unique=True
                ),
                "known": Names(
                    doc="The licences of packages whose metadata doesn't say, or says it wrongly.",
                    names=_PACKAGE,
                    values=_LICENCE,
                ),
            },
        ),
        "signatures": Table(
            doc="The keys of which one must have signed a lock.",
            keys={
                "signers": Array(
                    doc="SSH public keys, one of which must have signed.",
                    items=Text(
                        doc="A key, as a line of a public key file.",
                        example=_KEY,
                        says="an SSH public key, as in a file of one",
                        pattern=PUBLIC_KEY,
                        max_length=20_000,
                    ),
                    example=(_KEY,),
                    min_items=1,
                    unique=True,
                ),
            },
        ),
        "proof": Table(
            doc="How far a target must be proved to work.",
            keys={
                "required": Text(doc="The rung.", example="verified", says="a rung", choices=RUNGS),
            },
        ),
    },
)


def rendered_json_schema() -> str:
    """The text of the shipped `policy.schema.json`."""
    head: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:envspec:policy",
        "title": "envspec site policy",
    }
    return json.dumps(head | schema_of(FORMAT), indent=2, ensure_ascii=False) + "\n"
