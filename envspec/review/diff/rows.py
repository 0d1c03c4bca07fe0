"""A review as values: rows of packages with their moves, and each move's meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from envspec.base import finding
from envspec.base.texts import few, plural
from envspec.lock.model import LockedPython

K = TypeVar("K", bound=Any)
V = TypeVar("V")

# A change's meaning to a reviewer: a sentence, its risk, and the targets where it holds.


Risk = Literal["high", "medium", "low"]
RISKS: tuple[Risk, ...] = ("high", "medium", "low")
"""high    something can stop working, or a stranger's files could get in: understand it before you merge
medium  worth a look: behaviour, licence or origin may change
low     routine
"""


class Fact(Struct, frozen=True):
    """`code` is stable and for machines. `targets` is empty where the fact holds wherever the change does.

    `package` names the package that causes a fact about a whole target, `key` the key of the spec that it is about
    (`("image", "services")`); that of a target's own table stands below the target's.
    """

    risk: Risk
    code: str
    message: str
    targets: tuple[str, ...] = ()
    package: str | None = None
    key: tuple[str, ...] = ()


TARGETS = ("target-removed", "target-added", "target-renamed")
"""The codes of facts about whole targets, which stand first."""


def highest(risks: Iterable[Risk]) -> Risk:
    """Return the highest of some risks; "low" for none."""
    return min(risks, key=RISKS.index, default="low")


def merge_facts(target_facts: Iterable[tuple[str, Fact]], targets: Iterable[str]) -> tuple[Fact, ...]:
    """Merge facts found target by target: each once, with the targets that it holds for unless these are all of
    `targets`.

    The highest risk comes first.
    """
    facts = finding.merge_targets((replace(fact, targets=(target,)) for target, fact in target_facts), tuple(targets))
    return tuple(sorted(facts, key=lambda fact: RISKS.index(fact.risk)))


def differing(old: Mapping[K, V], new: Mapping[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
    """Yield the keys whose values differ, in their order, with the old and the new value: None where it has none."""
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            yield key, old.get(key), new.get(key)


SHOUTED = frozenset(
    {"hash-changed", "file-changed", "size-changed", "requirements-changed", "local-version", "near-name", "malicious"}
)
"""The codes of facts that stand above everything else where their risk is high: a lock was tampered with, or a name
was mistaken."""


class LookedUp(Struct, frozen=True):
    """The database of advisories behind a comparison, and the gaps of the look-up.

    database    its name without credentials, and `as_of` the time of its oldest answer (RFC 3339) or None
    unread      a reason for each source that couldn't be read: with one, a package without findings may be unsafe
    not_asked   checks left out for some packages: the codes, the reason, the packages
    """

    database: str
    as_of: str | None = None
    unread: tuple[str, ...] = ()
    not_asked: tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...] = ()

    def gaps(self) -> Iterator[str]:
        """Yield a line for each source that couldn't be read."""
        yield from (f"INCOMPLETE: {reason}" for reason in self.unread)

    def lines(self) -> Iterator[str]:
        """Describe the look-up for people: unread sources first, then the database, then checks left out."""
        yield from self.gaps()
        as_of = f", as of {self.as_of[:10]}" if self.as_of else ""
        if self.database:
            yield f"looked up in {self.database}{as_of}"
        for codes, reason, packages in self.not_asked:
            yield f"not checked for {', '.join(codes)}: {reason}: {few(packages)}"


class Asked(Struct, frozen=True):
    """The indexes' answers about the changed pins (`envspec diff --verify`).

    pins      the number of the new lock's pins that were asked about; `proved` are those that their index publishes so,
              `refuted` those that it doesn't, `by_facts` those that envspec's own facts have so
    unasked   the packages that couldn't be asked about, with the reason
    brought   the servers that came with the change, each with the packages that it publishes as locked. The change's
              author chose the server too, so these aren't `proved`
    """

    pins: int
    proved: int
    refuted: int
    unasked: tuple[tuple[str, tuple[str, ...]], ...] = ()
    brought: tuple[tuple[str, tuple[str, ...]], ...] = ()
    by_facts: int = 0

    def gaps(self) -> Iterator[str]:
        """Yield a line for each reason for which packages couldn't be asked about."""
        for reason, packages in self.unasked:
            yield f"COULDN'T BE ASKED: {few(packages)}: {reason}"

    def lines(self) -> Iterator[str]:
        """Describe the indexes' answers for people, the most serious first."""
        yield from self.gaps()
        for server, packages in self.brought:
            yield f"PROVES NOTHING: {server} came with this change, and only its own word vouches for {few(packages)}"
        files = plural(self.pins, "changed file")
        many = self.proved != 1
        published = f"{'are as their' if many else 'is as its'} index publishes {'them' if many else 'it'}"
        answers = [f"{self.proved} of {files} {published}"]
        if self.by_facts:
            answers.append(f"{self.by_facts} {'matches' if self.by_facts == 1 else 'match'} envspec's own records")
        answers += [f"{self.refuted} NOT as published"] if self.refuted else []
        vouched = sum(len(packages) for _, packages in self.brought)
        if (open_ones := self.pins - self.proved - self.by_facts - self.refuted - vouched) > 0:
            answers.append(f"{open_ones} couldn't be asked in full")
        yield ", ".join(answers)


class View(Struct, frozen=True):
    """A package as a row shows it. None is unknown; `form` is "wheel", "sdist", "conda" or "git"; `size` is bytes.

    `source` is the URL of a requirement that names its own: for git with the commit, and the folder in it. `variant` is
    the label of a variant's wheel.
    """

    version: str
    build: str | None
    index: str | None
    form: str | None
    licence: str | None
    size: int | None
    file: str | None = None
    sha256: str | None = None
    source: str | None = None
    variant: str | None = None


class Move(Struct, frozen=True):
    """One change, in the same words for every target it holds in.

    action   "added", "removed", or "changed" (with `jump`, one of `envspec.review.diff.jump.KINDS`)
    targets  empty where it holds for every target that both sides have
    needs    names of packages that it requires now and didn't before; `drops`: the reverse
    parts    the exact changes that read alike, where the targets have different files or requirements: `old` and `new`
             are those of the part whose size changed most, `needs` and `drops` all of theirs, and a fact names the
             targets that it is of
    partner  of a CUDA library that came or went: the one whose place it took, or that took its place
    cause    the change that it follows from, where that explains it: "torch 2.9.1", "Python 3.13"
    releases the page of its repository's releases, where METADATA names one at a known forge: safe to be linked
    pulled_by the package whose change takes this one back, and the correction of envspec's that says so, if one does
    renamed  a sentence for each package, where the move stands for several (`envspec.review.diff.renames`), and `what`
             became of them
    """

    action: str
    old: View | None
    new: View | None
    jump: str
    targets: tuple[str, ...]
    facts: tuple[Fact, ...]
    needs: tuple[str, ...]
    drops: tuple[str, ...]
    parts: tuple[Move, ...] = ()
    partner: str | None = None
    renamed: tuple[str, ...] = ()
    what: str = "under the new CUDA's names"
    cause: str | None = None
    pulled_by: tuple[str, str | None] | None = None
    releases: str | None = None

    @property
    def exact(self) -> tuple[Move, ...]:
        """One exact change."""
        return self.parts or (self,)

    @property
    def risk(self) -> Risk:
        return highest(fact.risk for fact in self.facts)


class Row(Struct, frozen=True):
    """A package. `direct` and `via` (the packages that require it) are None where neither side knows. `new` says that
    the old lock has it in no target; a CUDA library under a new name isn't new."""

    kind: str
    name: str
    direct: bool | None
    via: tuple[str, ...] | None
    moves: tuple[Move, ...]
    risk: Risk
    new: bool = False

    @property
    def fixes(self) -> bool:
        """Return whether a move fixes a known vulnerability."""
        return any(fact.code == "vulnerability-fixed" for move in self.moves for fact in move.facts)

    @property
    def packages(self) -> int:
        """The number of packages for a reader: each of those that a row stands for, whatever the number of its
        targets."""
        return len({text.partition(" ")[0] for move in self.moves for text in move.renamed}) or 1

    @property
    def stays(self) -> bool:
        """Return whether the same files are installed everywhere, and only their record changed."""
        pairs = [(part.old, part.new) for move in self.moves for part in move.exact]
        if any(move.renamed for move in self.moves):
            return False
        return self.risk == "low" and all(old and new and _identity(old) == _identity(new) for old, new in pairs)


def _identity(view: View) -> tuple[str | None, ...]:
    return view.version, view.build, view.sha256, view.source


def in_order(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Sort rows by risk. Of one risk, fixes of vulnerabilities come first, then packages that the spec asks for by
    name. A package whose name is like another's stands below the jump that brought it."""

    def key(row: Row) -> tuple[object, ...]:
        likened = any(fact.code == "near-name" for move in row.moves for fact in move.facts)
        return RISKS.index(row.risk), not row.fixes, not row.direct, likened, row.name, row.kind

    return tuple(sorted(rows, key=key))


class TargetSize(Struct, frozen=True):
    """The download of a target before and after, in bytes; None where a file's size isn't known."""

    name: str
    old: int | None
    new: int | None


class PythonMove(Struct, frozen=True):
    """The build of Python of a platform, before and after; None where none is locked."""

    platform: str
    old: LockedPython | None
    new: LockedPython | None


class Review(Struct, frozen=True):
    """The data of all renderers. `settings` has the changes of the spec's other settings, `gpu` the change's meaning
    for GPUs.

    came, went   targets
    renamed      the old and the new name of targets that only got another name: everywhere else they have the new one
    chosen       sentences on universal files: their environments, extras and groups
    looked_up    the database of vulnerabilities and its gaps (`diff.advisories`), None if none was asked
    flaws        pins of the new lock that can't be right (`envspec.lock.judge`), or that its indexes don't publish
    verified     the indexes' answers (`envspec.review.diff.judged`), None if they weren't asked
    pythons      the builds of Python that moved; `settings` has their facts
    """

    name: str
    old_title: str
    new_title: str
    settings: tuple[Fact, ...]
    gpu: tuple[Fact, ...]
    came: tuple[str, ...]
    went: tuple[str, ...]
    sizes: tuple[TargetSize, ...]
    rows: tuple[Row, ...]
    renamed: tuple[tuple[str, str], ...] = ()
    looked_up: LookedUp | None = None
    chosen: tuple[str, ...] = ()
    flaws: tuple[Fact, ...] = ()
    verified: Asked | None = None
    pythons: tuple[PythonMove, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.flaws or self.settings or self.gpu or self.came or self.went or self.rows)

    @property
    def risk(self) -> Risk:
        return highest(
            (*(fact.risk for fact in (*self.flaws, *self.settings, *self.gpu)), *(row.risk for row in self.rows))
        )

    def reaches(self, risk: Risk) -> bool:
        """Return whether something changed and its risk is this high, or higher."""
        return bool(self) and RISKS.index(self.risk) <= RISKS.index(risk)

    @property
    def shouted(self) -> tuple[tuple[Row, Fact], ...]:
        """The changes that an honest lock hardly ever has, each with its targets."""
        return tuple(
            (row, replace(fact, targets=fact.targets or move.targets))
            for row in self.rows
            for move in row.moves
            for fact in move.facts
            if fact.risk == "high" and fact.code in SHOUTED
        )
