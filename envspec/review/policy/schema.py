"""The policy's format: `FORMAT`, from which its checks and the shipped `policy.schema.json` are made."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from packaging.version import Version

from envspec import __version__
from envspec.base.errors import InputError, Place, SpecError
from envspec.base.places import read_site_file
from envspec.base.reader.document import Document, parse_toml, show, table_name
from envspec.base.reader.nodes import schema_of, table_of
from envspec.base.reader.structure import Checked, Violation, violations
from envspec.lock.signing.model import is_public_key
from envspec.review.policy.model import SOURCES, VERSION, Policy

FORMAT = table_of(Policy)


def rendered_json_schema() -> str:
    """Return the text of the shipped `policy.schema.json`."""
    head: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:envspec:policy",
        "title": "envspec site policy",
    }
    return json.dumps(head | schema_of(FORMAT), indent=2, ensure_ascii=False) + "\n"


# Reading the policy file, which must be root's: a file that a user can change has no force.


_ADMIN = "tell who runs this machine: as long as the policy can't be read, envspec does nothing that it may forbid"


class PolicyError(InputError):
    """The policy file can't be taken at its word. `place` names it."""


def load_policy(path: Path, owner: int | None = None) -> Policy | None:
    """Read the policy; None where the site has none. `owner` is the id of the user who must own the file, root if left
    out.

    Raises PolicyError for one that others may write to, that can't be read, or that isn't in its format: nothing of it
    is ignored.
    """
    try:
        text = read_site_file(str(path), "the site's policy", _ADMIN, owner)
    except InputError as error:
        raise PolicyError(error.message, hint=error.hint, place=error.place) from None
    return None if text is None else parse_policy(text, str(path))


def parse_policy(text: str, path: str) -> Policy:
    """Read a policy's text. Raises PolicyError, with its place, for the first fault."""
    try:
        document = parse_toml(text, path)
    except SpecError as error:
        raise PolicyError(f"the site's policy: {error.message}", hint=_ADMIN, place=error.place) from None
    _refuse_newer(document)
    for wrong in violations(document.data, FORMAT):
        raise _wrong(document, wrong)
    checked = Checked(document, FORMAT)
    _refuse_broken_keys(document, checked)
    build = checked.read(SOURCES, "sources", "allow")
    return checked.record(
        Policy,
        path=path,
        build=None if build is None else frozenset(build),
        own_projects=build is None or checked.value("sources", "own-projects") is True,
        revoked=_days(document, checked.table("signatures", "revoked")),
    )


def _refuse_broken_keys(document: Document, checked: Checked) -> None:
    """Refuse a text that only looks like a public key: revoked, it would end none."""
    keys: dict[tuple[str | int, ...], str] = {
        ("signers", at): key for at, key in enumerate(checked.value("signatures", "signers") or ())
    }
    keys |= {("revoked", key): key for key in checked.table("signatures", "revoked")}
    for path, key in keys.items():
        if not is_public_key(key):
            message = f"the site's policy: {show(key)} is no SSH public key, or not the whole of one"
            raise PolicyError(message, hint=_ADMIN, place=document.place(("signatures", *path), at_key=key in path))


def _days(document: Document, days: Mapping[str, str]) -> Mapping[str, date]:
    try:
        return {(at := key): date.fromisoformat(day) for key, day in days.items()}
    except ValueError:
        place = document.place(("signatures", "revoked", at))
        raise PolicyError(f"the site's policy: {days[at]} is no day", hint=_ADMIN, place=place) from None


def _refuse_newer(document: Document) -> None:
    """Refuse a policy for a newer envspec before its keys are checked: a key that this envspec doesn't know is no fault
    of the policy's."""
    needs = document.data.get("envspec")
    if isinstance(needs, str) and re.fullmatch(VERSION, needs) and Version(needs) > Version(__version__):
        message = f"the site's policy is for envspec {needs} and newer, and this is {__version__}"
        hint = f"install envspec {needs} or newer: until then envspec does nothing that the policy may forbid"
        raise PolicyError(message, hint=hint, place=document.place(("envspec",)))


def _wrong(document: Document, wrong: Violation) -> PolicyError:
    where = document.place(wrong.path, at_key=wrong.at_key) if wrong.path else Place(document.file)
    message = wrong.message.replace(f"{table_name(())} lacks", "it lacks")
    if message.startswith("unknown key"):
        message = f"{message}: envspec {__version__} knows none such"
    hint = wrong.hint() if callable(wrong.hint) else wrong.hint
    if hint is None or hint.startswith("known keys"):
        hint = f'if a newer envspec knows it, the policy says which by `envspec = "VERSION"`; {_ADMIN}'
    return PolicyError(f"the site's policy: {message}", hint=hint, place=where)
