"""Claims of conda packages, asked of their channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from envspec.base.errors import OutsideError
from envspec.base.progress import Progress
from envspec.base.redact import redact
from envspec.base.settings import split_credentials
from envspec.resolve.conda.look_up import as_pin, records_of, upload_time
from envspec.resolve.conda.setup import conda_resolver
from envspec.review.verify import compare
from envspec.review.verify.model import Outcome, PinClaim
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from rattler import RepoDataRecord


def ask_channels(claims: Sequence[PinClaim], spec: Spec, env: Mapping[str, str]) -> Mapping[PinClaim, Outcome]:
    """Compare conda packages with their channels' repodata."""
    try:
        resolver = conda_resolver(spec, env, offline=False, progress=Progress())
        pins = [claim.pin for claim in claims]
        subdirs = {pin.index.rpartition("/")[2] for pin in pins}
        records = records_of(resolver, pins, subdirs, "what conda's channels have")
    except OutsideError as error:
        return {claim: Outcome(unasked=error.message) for claim in claims}
    sources = {one.name: redact(split_credentials(one.address)[0]) for one in resolver.channels}
    return {claim: _outcome(claim, sources[claim.pin.index.rpartition("/")[0]], records) for claim in claims}


def _outcome(claim: PinClaim, source: str, records: Mapping[tuple[str, str], RepoDataRecord]) -> Outcome:
    pin = claim.pin
    assert pin.artifact is not None
    record = records.get((pin.index, pin.artifact.file))
    if record is None:
        return Outcome(source, tuple(compare.of_file(pin.artifact, None)))
    try:
        there = as_pin(record)
    except OutsideError as error:
        return Outcome(source, unasked=error.message)
    return Outcome(source, (*compare.of_record(pin, there), *compare.of_time(claim, upload_time(record))))
