"""Attestations (PEP 740) proved with `pypi-attestations`, the extra `attest`.

An index can serve any attestations. Their proof is a certificate for the publisher's own identity, and a public log.
The roots of trust are those of the installed `sigstore`; nothing is fetched for them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from envspec.base.errors import OutsideError

if TYPE_CHECKING:
    from pypi_attestations import Provenance

Refusal = Callable[[bytes, str, str], "str | None"]
"""(what the index serves, file, sha256) → why it proves no publisher of that file; None where it does."""


def attestor() -> Refusal | None:
    """Give the function that proves attestations; None without the extra `attest`."""
    try:
        import pypi_attestations  # noqa: F401
    except ImportError:
        return None
    # it warns that it doesn't fetch newer roots, which is meant
    logging.getLogger("sigstore").setLevel(logging.ERROR)
    return refusal


def refusal(body: bytes, file: str, sha256: str) -> str | None:
    """Give the first reason why a file's attestations don't hold, None where all of them do.

    Raises OutsideError for a document that is no provenance.
    """
    from pydantic import ValidationError
    from pypi_attestations import AttestationError, Distribution, Provenance

    try:
        provenance = Provenance.model_validate_json(body)
        dist = Distribution(name=file, digest=sha256)
    except ValidationError as error:
        first = error.errors()[0]
        hint = "a newer pypi-attestations may know this kind of publisher"
        raise OutsideError(f"the attestations of {file} can't be read: {first['msg']}", hint=hint) from None
    if not provenance.attestation_bundles:
        return "its index serves none"
    try:
        return _first_reason(provenance, dist)
    except AttestationError as error:
        return " ".join(str(error).split())


def _first_reason(provenance: Provenance, dist: object) -> str | None:
    for bundle in provenance.attestation_bundles:
        if not bundle.attestations:
            return f"its index serves none by {bundle.publisher.kind}"
        for attestation in bundle.attestations:
            attestation.verify(bundle.publisher, dist, offline=True)  # type: ignore[arg-type]
    return None
