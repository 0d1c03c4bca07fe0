"""Reading the policy file, which must be root's: a file that a user can change has no force."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

from envspec.base.errors import InputError, Place, SpecError
from envspec.base.places import stranger
from envspec.base.reader.document import Document, parse_toml, table_name
from envspec.base.reader.structure import Violation, violations
from envspec.packages.requirement import canonical_name
from envspec.review.policy.model import Policy
from envspec.review.policy.schema import FORMAT

MOST_BYTES = 1 << 20
_HOURS = {"hour": 1, "day": 24, "week": 168}
_ADMIN = "tell who runs this machine: as long as the policy can't be read, envspec does nothing that it may forbid"


class PolicyError(InputError):
    """The policy file can't be taken at its word. `place` names it."""


def load_policy(path: Path, owner: int | None = 0) -> Policy | None:
    """Read the policy; None where the site has none. `owner` is the user id whose file it must be, None on systems
    without.

    Raises PolicyError for one that others may write to, that can't be read, or that isn't in its format: nothing of it
    is ignored.
    """
    try:
        folder = path.parent.stat()
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR) and not path.is_symlink():
            return None
        raise _error(path, f"the site's policy can't be read: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise _error(path, "the site's policy isn't a plain file")
        for where, one in ((path, found), (path.parent, folder)):
            if who := stranger(one, owner):
                raise _error(where, f"the site's policy can't be trusted: {who}")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MOST_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MOST_BYTES:
        raise _error(path, "the site's policy is larger than 1 MiB")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _error(path, "the site's policy isn't UTF-8") from None
    return parse_policy(text, str(path))


def parse_policy(text: str, path: str) -> Policy:
    """A policy's text. Raises PolicyError, with the place, for the first thing in it that is wrong."""
    try:
        document = parse_toml(text, path)
    except SpecError as error:
        raise PolicyError(f"the site's policy: {error.message}", hint=_ADMIN, place=error.place) from None
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
        build=_names(sources, "allow"),
        origins=_texts(sources, "from"),
        minimum_age=_age(releases.get("minimum-age")),
        advisories=releases.get("ask-advisories", False),
        young={canonical_name(name): reason for name, reason in releases.get("except", {}).items()},
        exceptions=_texts(releases, "exceptions"),
        allow_licences=_texts(licences, "allow") or (),
        deny_licences=_texts(licences, "deny") or (),
        licences={canonical_name(name): licence for name, licence in licences.get("known", {}).items()},
        signers=_texts(tables["signatures"], "signers") or (),
        proof=tables["proof"].get("required"),
    )


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...] | None:
    return tuple(table[key]) if key in table else None


def _names(table: Mapping[str, Any], key: str) -> frozenset[str] | None:
    return frozenset(map(canonical_name, table[key])) if key in table else None


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    count, unit = text.split(" ")
    return timedelta(hours=int(count) * _HOURS[unit.removesuffix("s")])


def _wrong(document: Document, wrong: Violation) -> PolicyError:
    where = document.place(wrong.path, at_key=wrong.at_key) if wrong.path else Place(document.file)
    message = wrong.message.replace(f"{table_name(())} lacks", "it lacks")
    hint = wrong.hint() if callable(wrong.hint) else wrong.hint
    return PolicyError(f"the site's policy: {message}", hint=hint or _ADMIN, place=where)


def _error(path: Path, message: str) -> PolicyError:
    return PolicyError(message, hint=_ADMIN, place=Place(str(path)))
