"""The policy's format: `FORMAT`, from which its checks and the shipped `policy.schema.json` are made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from packaging.version import Version

from envspec import __version__
from envspec.base.errors import InputError, Place, SpecError
from envspec.base.places import read_site_file
from envspec.base.reader.document import Document, parse_toml, table_name
from envspec.base.reader.nodes import CONTROL, LINE, Array, Boolean, Names, Table, Text, schema_of
from envspec.base.reader.structure import Violation, violations
from envspec.lock.signing.model import PUBLIC_KEY
from envspec.packages.requirement import canonical_name
from envspec.prove.rungs import RUNGS
from envspec.review.policy.model import Policy

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
_VERSION = r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,2}"
_DAY = r"20[0-9]{2}-[01][0-9]-[0-3][0-9]"
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
        "envspec": Text(
            doc="The oldest envspec that knows the policy: an older one says so, and refuses all that it may forbid.",
            example="0.1.0",
            says="a version of envspec",
            pattern=_VERSION,
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
                "own-projects": Boolean(
                    doc="Whether specs' own projects may be built beside what `allow` names, whatever their name.",
                    example=True,
                    default=False,
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
            doc="The keys that must have signed a lock.",
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
                "revoked": Names(
                    doc="Keys that don't count from a day on, whenever they signed: a signature proves no time.",
                    names=Text(
                        doc="A key, as in `signers`.",
                        example=_KEY,
                        says="an SSH public key, as in a file of one",
                        pattern=PUBLIC_KEY,
                        max_length=20_000,
                    ),
                    values=Text(doc="The day.", example="2026-11-01", says="a day, such as 2026-11-01", pattern=_DAY),
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


# Reading the policy file, which must be root's: a file that a user can change has no force.


_HOURS = {"hour": 1, "day": 24, "week": 168}
_ADMIN = "tell who runs this machine: as long as the policy can't be read, envspec does nothing that it may forbid"


class PolicyError(InputError):
    """The policy file can't be taken at its word. `place` names it."""


def load_policy(path: Path, owner: int | None = None) -> Policy | None:
    """Read the policy; None where the site has none. `owner` is the user id whose file it must be, root if left out.

    Raises PolicyError for one that others may write to, that can't be read, or that isn't in its format: nothing of it
    is ignored.
    """
    try:
        text = read_site_file(str(path), "the site's policy", _ADMIN, owner)
    except InputError as error:
        raise PolicyError(error.message, hint=error.hint, place=error.place) from None
    return None if text is None else parse_policy(text, str(path))


def parse_policy(text: str, path: str) -> Policy:
    """A policy's text. Raises PolicyError, with the place, for the first thing in it that is wrong."""
    try:
        document = parse_toml(text, path)
    except SpecError as error:
        raise PolicyError(f"the site's policy: {error.message}", hint=_ADMIN, place=error.place) from None
    _refuse_newer(document)
    for wrong in violations(document.data, FORMAT):
        raise _wrong(document, wrong)
    tables = {name: document.data.get(name, {}) for name in FORMAT.keys}
    indexes, sources, releases, licences = (tables[name] for name in ("indexes", "sources", "releases", "licences"))
    return Policy(
        path=path,
        contact=document.data["contact"],
        indexes=_texts(indexes, "allow"),
        places=MappingProxyType(dict(indexes.get("at", {}))),
        second=MappingProxyType(dict(indexes.get("second", {}))),
        build=(frozenset(map(canonical_name, sources["allow"])) if "allow" in sources else None),
        own_projects="allow" not in sources or sources.get("own-projects", False),
        origins=_texts(sources, "from"),
        minimum_age=_age(releases.get("minimum-age")),
        advisories=releases.get("ask-advisories", False),
        young={canonical_name(name): reason for name, reason in releases.get("except", {}).items()},
        exceptions=_texts(releases, "exceptions"),
        allow_licences=_texts(licences, "allow") or (),
        deny_licences=_texts(licences, "deny") or (),
        licences={canonical_name(name): licence for name, licence in licences.get("known", {}).items()},
        signers=_texts(tables["signatures"], "signers") or (),
        revoked=_days(document, tables["signatures"].get("revoked", {})),
        proof=tables["proof"].get("required"),
    )


def _days(document: Document, days: Mapping[str, str]) -> Mapping[str, date]:
    try:
        return {(at := key): date.fromisoformat(day) for key, day in days.items()}
    except ValueError:
        place = document.place(("signatures", "revoked", at))
        raise PolicyError(f"the site's policy: {days[at]} is no day", hint=_ADMIN, place=place) from None


def _refuse_newer(document: Document) -> None:
    """Before anything else in it: what an older envspec doesn't know in a newer policy is no fault of the policy's."""
    needs = document.data.get("envspec")
    if isinstance(needs, str) and re.fullmatch(_VERSION, needs) and Version(needs) > Version(__version__):
        message = f"the site's policy is for envspec {needs} and newer, and this is {__version__}"
        hint = f"install envspec {needs} or newer: until then envspec does nothing that the policy may forbid"
        raise PolicyError(message, hint=hint, place=document.place(("envspec",)))


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    return tuple(table[key]) if key in table else None


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    count, unit = text.split(" ")
    return timedelta(hours=int(count) * _HOURS[unit.removesuffix("s")])


def _wrong(document: Document, wrong: Violation) -> PolicyError:
    where = document.place(wrong.path, at_key=wrong.at_key) if wrong.path else Place(document.file)
    message = wrong.message.replace(f"{table_name(())} lacks", "it lacks")
    if message.startswith("unknown key"):
        message = f"{message}: envspec {__version__} knows none such"
    hint = wrong.hint() if callable(wrong.hint) else wrong.hint
    if hint is None or hint.startswith("known keys"):
        hint = f'if a newer envspec knows it, the policy says which by `envspec = "VERSION"`; {_ADMIN}'
    return PolicyError(f"the site's policy: {message}", hint=hint, place=where)
