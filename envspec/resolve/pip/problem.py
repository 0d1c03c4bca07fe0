"""What uv is asked: a request, and the bounds that envspec adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.packages.names import requirement_name
from envspec.resolve.pip.request import Request

if TYPE_CHECKING:
    from envspec.resolve.pip.retreat import Retreat


class Strength(IntEnum):
    """What yields on a conflict: the lowest first."""

    NEWEST = 20
    """A requirement of the spec is at its newest release that fits."""
    NEAR = 30
    """A requirement of the spec isn't behind that."""
    UPGRADE = 40
    """A requirement of the spec isn't below the last lock."""
    RULE = 60
    """Something of the target refuses a release: the bound stays, and the conflict is refused."""


Form = Literal["constraint", "requirement", "source", "final"]
"""How uv is told: a constraint, a requirement of the spec's besides, a package whose sources it sees, a package of
which it takes no pre-release."""


class Bound(Struct, frozen=True):
    """Something that envspec adds to a problem.

    line      PEP 508; of the forms `source` and `final` the package's name
    why       the release that it leaves out, and the reason, where that is told: "2.0 is a pre-release"
    retreat   the release that the target's Python is too new for
    above     the versions of what led to that package
    """

    line: str
    form: Form = "constraint"
    strength: Strength = Strength.RULE
    why: str = ""
    retreat: Retreat | None = None
    above: tuple[tuple[str, str], ...] = ()

    @property
    def package(self) -> str:
        return requirement_name(self.line)


class Problem(Struct, frozen=True, dict=True):
    """What uv is asked about one target, or about several with equal requests.

    label  the targets' names, for messages
    kept   versions of the last lock that stay where they fit: they were judged when they were chosen
    """

    request: Request
    label: str = ""
    bounds: tuple[Bound, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)

    def beside(self, *more: Bound) -> Problem:
        """Give the problem with more bounds."""
        return replace(self, bounds=(*self.bounds, *more))

    def unknown(self, bounds: Iterable[Bound]) -> tuple[Bound, ...]:
        """Pick the bounds that say something new."""
        known = {(bound.form, bound.line) for bound in self.bounds}
        return tuple(bound for bound in bounds if (bound.form, bound.line) not in known)

    @property
    def is_led(self) -> bool:
        """Whether a bound may yield."""
        return any(bound.strength < Strength.RULE for bound in self.bounds)

    def lines(self, form: Form) -> tuple[str, ...]:
        """List the lines of the bounds of one form."""
        return tuple(dict.fromkeys(bound.line for bound in self.bounds if bound.form == form))

    @cached_property
    def question(self) -> Request:
        """The request with all bounds but those on pre-releases."""
        return replace(
            self.request,
            constraints=(*self.request.constraints, *self.lines("constraint")),
            requirements=(*self.request.requirements, *self.lines("requirement")),
            unfit=(*self.request.unfit, *self.lines("source")),
        )
