"""Problems for uv: a request, and the bounds that envspec adds to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import cached_property
from typing import Literal, Protocol, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import Release
from envspec.packages.names import requirement_name
from envspec.packages.python_range import releases_of
from envspec.packages.tags import takes_python
from envspec.resolve.pip.request import Preferences, Request, with_constraints
from envspec.resolve.torch_index.choice import TorchIndex

CODE = "requires-python"
"""The finding of a release that refuses the target's Python. A spec can accept it, by package."""


class Strength(IntEnum):
    """The order in which bounds yield on a conflict: the lowest first."""

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


class Retreat(Struct, frozen=True):
    """A package of a solution, and a release of it that the target's Python is too new for.

    release  that release: the one of the solution, if its Requires-Python refuses the target's, else a newer one with
             wheels for older Pythons alone
    named    the newest older release that names the target's Python, or none
    older    the newest older release that doesn't refuse it, or none
    """

    name: str
    taken: str
    release: Release
    named: str | None
    older: str | None

    @property
    def refuses(self) -> bool:
        """Whether the release's Requires-Python refuses the target's Python."""
        return self.taken == self.release.version

    @property
    def code(self) -> str:
        """The code under which a spec accepts what the solution has."""
        return CODE if self.refuses else "retreat"

    @property
    def may_be_built(self) -> bool:
        """Whether the answer is the release's source: it says nothing against this Python."""
        return not self.refuses and self.release.source

    def why(self, request: Request) -> str:
        """Give the reason why the release isn't an answer."""
        if self.refuses:
            return refusal(self.release, request)
        return f"{self.release.version} has no wheel for Python {request.python}, only for older ones"

    def message(self, request: Request) -> str:
        """Write the message: the reason why the release isn't an answer, and the older one that would be."""
        older = self.older if self.refuses else self.taken
        note = f", and {older} says nothing of it" if older else ""
        return f"{self.name} {self.why(request)}{note}"


def refusal(release: Release, request: Request) -> str:
    """Write that a release refuses a target's Python, with the patch release where it admits others of that minor
    version."""
    requires = release.requires_python or ""
    some = any(takes_python(requires, build) for build in releases_of(request.python, None))
    python = request.full_python if some else request.python
    return f"{release.version} doesn't take Python {python} (Requires-Python {requires})"


class Bound(Struct, frozen=True):
    """A bound, or another term, that envspec adds to a problem.

    line      PEP 508; of the forms `source` and `final` the package's name
    why       the release that it leaves out, and the reason, for messages: "2.0 is a pre-release"
    retreat   the release that the target's Python is too new for
    above     the versions of the packages that led to that package
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


_S = TypeVar("_S", bound="Subject")


class Subject(Protocol):
    """A target of a spec, with the knowledge from the answers so far."""

    @property
    def request(self) -> Request | None:
        """The request of its pip half; None without one."""

    @property
    def preferences(self) -> Preferences | None:
        """The versions to keep in place of the last lock's; None for those."""

    def review(self: _S, pins: tuple[Pin, ...]) -> _S:
        """Give the target with the first new term that an answer shows, which makes it another request; else with the
        answer. Raises AnswerNo for one that is refused."""

    def without_refusals(self: _S) -> _S | None:
        """Give the target as it was before the rules' refusals bounded it, where those leave no answer."""


class Unreviewed(Struct, frozen=True):
    """A request without a target. Any answer to it stands."""

    request: Request
    preferences: Preferences | None = None

    def review(self, pins: tuple[Pin, ...]) -> Unreviewed:
        """Give the same."""
        return self

    def without_refusals(self) -> None:
        """Give nothing: no rule bounds it."""


class Problem(Struct, frozen=True, dict=True):
    """A question about one target.

    own_request  the target's request, with the variants that were met
    label        the target's name, for messages
    pinned       versions of the last lock that stay where they fit: they were judged when they were chosen
    index        the index of the torch family
    is_fresh     no cached page counts, however young
    is_fallback  an attempt after a refusal: an answer counts; where it is refused, too, the first refusal is reported
    """

    own_request: Request
    label: str = ""
    bounds: tuple[Bound, ...] = ()
    pinned: Mapping[str, str] = field(default_factory=dict)
    index: TorchIndex = TorchIndex(None)
    is_fresh: bool = False
    is_fallback: bool = False
    subject: Subject | None = None

    @cached_property
    def request(self) -> Request:
        """The target's request with the bounds of the torch family's index."""
        return with_constraints(self.own_request, self.index.constraints)

    def of_target(self, equal: Problem) -> Problem:
        """Give the problem to another target with an equal one: equal requests may still differ in their notes."""
        return replace(self, own_request=equal.own_request, label=equal.label, subject=equal.subject)

    def beside(self, *more: Bound) -> Problem:
        """Give the problem with more bounds."""
        return replace(self, bounds=(*self.bounds, *more))

    def unknown(self, bounds: Iterable[Bound]) -> tuple[Bound, ...]:
        """Pick the bounds that the problem doesn't have yet."""
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
