"""The solving of prepared targets to exact pins: the conda half first, because its packages count for pip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from envspec.errors import InternalError
from envspec.facts.corrections import Correction, corrections_broken_by
from envspec.facts.missing_requirements import MissingRequirement
from envspec.lock.model import Pin
from envspec.resolve.conda.request import CondaRequest
from envspec.resolve.pip.provided import provided_by
from envspec.resolve.pip.request import Preferences, Request, request_for
from envspec.workflow.keep import Kept
from envspec.workflow.prepare import Prepared


class Resolver(Protocol):
    """A resolver of the pip half. `keep` holds, by target, versions to keep where they still fit."""

    def resolve(
        self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]: ...


class CondaHalf(Protocol):
    """A resolver of the conda half. `keep` holds a package's version and build."""

    def resolve(
        self, requests: Mapping[str, CondaRequest], keep: Mapping[str, Preferences]
    ) -> Mapping[str, tuple[Pin, ...]]: ...


@dataclass(frozen=True)
class Solved:
    """A target and its pins so far.

    prepared     its inputs
    conda        the pins of its conda half
    pip          the pins of its pip half
    corrections  of published metadata, those that bound the pip half
    """

    prepared: Prepared
    conda: tuple[Pin, ...] = ()
    pip: tuple[Pin, ...] = ()
    corrections: tuple[Correction, ...] = ()

    @property
    def name(self) -> str:
        return self.prepared.name

    @property
    def pins(self) -> tuple[Pin, ...]:
        """The pins of both halves."""
        return (*self.conda, *self.pip)

    @cached_property
    def request(self) -> Request | None:
        """Make the request of the pip half; None without one."""
        prepared = self.prepared
        if not prepared.inputs.requirements:
            return None
        bounds = {*prepared.constraints, *(correction.constraint for correction in self.corrections)}
        return request_for(
            prepared.shared,
            prepared.inputs,
            tuple(sorted(bounds)),
            provided_by(self.conda),
            prepared.missing,
            prepared.exempt,
        )

    @property
    def missing(self) -> tuple[MissingRequirement, ...]:
        """Give the requirements that the metadata of its pip half lacks."""
        known = self.request.missing if self.request else ()
        return tuple(one for one in known if any(one.concerns(pin.name, pin.version) for pin in self.pip))

    @property
    def uncorrected(self) -> tuple[Correction, ...]:
        """Give the corrections that its pip half breaks, because they didn't bound it."""
        broken = corrections_broken_by(
            {pin.name: pin.version for pin in self.pip}, self.prepared.shared.without_corrections
        )
        return tuple(correction for correction in broken if correction not in self.corrections)


def solve(prepared: Sequence[Prepared], resolver: Resolver, conda: CondaHalf | None, kept: Kept) -> tuple[Solved, ...]:
    """Solve both halves of the targets.

    Raises what the resolvers raise, and InternalError for a conda half without `conda`.
    """
    installed = _conda_half(prepared, conda, kept)
    targets = tuple(Solved(one, installed.get(one.name, ()), corrections=one.corrections) for one in prepared)
    while True:
        requests = {one.name: one.request for one in targets if one.request is not None}
        pins = resolver.resolve(requests, kept.pip) if requests else {}
        targets = tuple(replace(one, pip=tuple(pins.get(one.name, ()))) for one in targets)
        if not any(one.uncorrected for one in targets):
            return targets
        # what uv chose has published metadata that is wrong: once more, with what that should have said
        targets = tuple(replace(one, corrections=(*one.corrections, *one.uncorrected)) for one in targets)


def _conda_half(prepared: Sequence[Prepared], conda: CondaHalf | None, kept: Kept) -> Mapping[str, tuple[Pin, ...]]:
    requests = {one.name: one.conda for one in prepared if one.conda is not None}
    if not requests:
        return {}
    if conda is None:
        raise InternalError(f"{', '.join(requests)} ask for conda packages, and no conda resolver was given")
    return conda.resolve(requests, kept.conda)
