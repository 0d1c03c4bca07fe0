"""A resolver's proof that no versions fit, as values."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from envspec.base.errors import AnswerNo

Kind = Literal["requires", "no-release", "only", "no-wheel", "no-build", "not-found", "python", "unread"]


class Clause(Struct, frozen=True):
    """A premise of the proof. Names are canonical, ranges are specifiers; "" is every version.

    kind      requires    `package` needs `other` within `bound`
              no-release  no index has a release within `versions`
              only        the releases that there are lie within `versions`
              no-wheel    no wheel of it fits the target
              no-build    it has nothing but a source, and isn't to be built
              not-found   no index has the project
              python      the target's Python isn't within `versions` of Python
              unread      none of these, or in other words
    package   the package that it is about; "" is the spec itself, and what is unread
    """

    kind: Kind
    package: str = ""
    versions: str = ""
    other: str = ""
    bound: str = ""


class Stray(Struct, frozen=True):
    """A package that was to be fetched by its own address.

    name, url  the package, and its address
    building   it is what a build requires
    barred     its source may not be built
    """

    name: str
    url: str
    building: bool
    barred: bool


class Conflict(Struct, frozen=True):
    """The proof of a resolver, as far as it is read.

    chain     the premises of its proof, in its order; what it concludes from them is left out
    mentions  canonical names of all that it mentions and that may be packages
    """

    chain: tuple[Clause, ...] = ()
    mentions: frozenset[str] = frozenset()

    def of(self, *kinds: Kind) -> tuple[Clause, ...]:
        """Give the premises of these kinds."""
        return tuple(clause for clause in self.chain if clause.kind in kinds)

    def packages_of(self, *kinds: Kind) -> tuple[str, ...]:
        """Name the packages that premises of these kinds are about, in the proof's order."""
        return tuple(dict.fromkeys(clause.package for clause in self.of(*kinds)))

    @property
    def packages(self) -> frozenset[str]:
        """All packages of the proof: of its premises, or whatever it mentions where one of them is unread."""
        if self.of("unread"):
            return self.mentions
        return frozenset(name for premise in self.chain for name in (premise.package, premise.other) if name)

    @property
    def requested(self) -> tuple[str, ...]:
        """The packages that the spec itself asks for, as far as the proof needs them."""
        return tuple(dict.fromkeys(premise.other for premise in self.of("requires") if not premise.package))

    def bounds_on(self, package: str) -> tuple[str, ...]:
        """Give the ranges in which a package is required."""
        return tuple(
            dict.fromkeys(
                premise.bound for premise in self.of("requires") if premise.other == package and premise.bound
            )
        )


class Unsatisfiable(AnswerNo):
    """No set of versions satisfies the spec for a target."""

    code = "unsatisfiable"
    conflict: Conflict = Conflict()

    @property
    def subjects(self) -> tuple[str, ...]:
        return self.about or tuple(sorted(self.conflict.packages))

    @property
    def requested(self) -> tuple[str, ...]:
        return self.about or self.conflict.requested
