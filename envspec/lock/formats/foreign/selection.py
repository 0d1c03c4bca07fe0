"""The extras and dependency groups of a project that a universal file is evaluated with, and the forks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct, field

from envspec.base.errors import InputError
from envspec.base.texts import plural
from envspec.packages.requirement import canonical_name


class Choice(NamedTuple):
    """Something that may be installed or left out. `kind` is "extra", "group", or "package" (a workspace's member)."""

    kind: str
    name: str


class Offers(Struct, frozen=True):
    """The choices that a file offers. `default_groups` are those that its tool installs by default.

    conflicts  sets of which at most one member can be installed
    implied    the further choices of a choice, such as those of an extra `all` that asks for others of its own project
    """

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    default_groups: tuple[str, ...] = ()
    conflicts: tuple[frozenset[Choice], ...] = ()
    implied: Mapping[Choice, frozenset[Choice]] = field(default_factory=dict)

    @property
    def choices(self) -> tuple[Choice, ...]:
        return (
            *(Choice("package", name) for name in self.packages),
            *(Choice("extra", name) for name in self.extras),
            *(Choice("group", name) for name in self.groups),
        )

    def together(self, choices: Iterable[Choice]) -> frozenset[Choice]:
        """Return the choices with everything that they imply."""
        closure: set[Choice] = set()
        waiting = list(choices)
        while waiting:
            choice = waiting.pop()
            if choice not in closure:
                closure.add(choice)
                waiting.extend(self.implied.get(choice, ()))
        return frozenset(closure)

    def clash(self, choices: Iterable[Choice]) -> tuple[Choice, ...]:
        """Return the first set of choices that can't be installed together; empty where all can."""
        closure = self.together(choices)
        return next(
            (tuple(sorted(closure & conflict)) for conflict in self.conflicts if len(closure & conflict) > 1), ()
        )


class Selection(Struct, frozen=True):
    """The selection that is installed with a project: the names of extras and groups. `packages` are members of a
    workspace, None for all. Where a file is evaluated in several forks, `fork` names this one.
    """

    extras: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    packages: frozenset[str] | None = None
    fork: str = ""


PLAIN = Selection()
"""The project alone."""


class Wish(Struct, frozen=True):
    """The choices of the command line. A name may be for one side only: "old:cu12", "new:cu13"."""

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    all_extras: bool = False
    all_groups: bool = False
    default_groups: bool = True
    platforms: tuple[str, ...] = ()
    python: str | None = None

    @property
    def selects(self) -> bool:
        """Return whether the wish selects anything."""
        named = self.extras or self.groups or self.packages
        return bool(named) or self.all_extras or self.all_groups or not self.default_groups


NO_WISH = Wish()


def select(wish: Wish, side: str, offers: Mapping[str, Offers]) -> Selection:
    """Return a wish's selection for one side ("old" or "new"); `offers` has an entry for each side that offers choices.

    A name without a side may exist on one side only, because a pull request may add an extra.
    Raises InputError for names that neither side offers, and for choices that can't be installed together.
    """
    here = offers[side]
    extras = {*_names_on_side("extra", wish.extras, side, offers), *(here.extras if wish.all_extras else ())}
    groups = {*_names_on_side("group", wish.groups, side, offers), *(here.groups if wish.all_groups else ())}
    if wish.default_groups:
        groups.update(here.default_groups)
    packages = frozenset(_names_on_side("package", wish.packages, side, offers)) if wish.packages else None
    choices = [Choice("extra", name) for name in extras] + [Choice("group", name) for name in groups]
    choices += [Choice("package", name) for name in (here.packages if packages is None else packages)]
    if clash := here.clash(choices):
        hint = f"choose one of them: --{clash[0].kind} {clash[0].name}"
        names = " and ".join(f"{choice.kind} {choice.name}" for choice in clash)
        raise InputError(f"{names} of the {side} file can't be installed together", hint=hint)
    return Selection(frozenset(extras), frozenset(groups), packages)


def _names_on_side(kind: str, names: Iterable[str], side: str, offers: Mapping[str, Offers]) -> Iterator[str]:
    on_offer = {at: {choice.name for choice in offer.choices if choice.kind == kind} for at, offer in offers.items()}
    for text in names:
        at, colon, bare = text.partition(":")
        name = canonical_name(bare if colon else text)
        if colon and at not in ("old", "new"):
            raise InputError(f'--{kind} {text}: "{at}" isn\'t a side', hint=f"write old:{bare} or new:{bare}")
        sides = [at] if colon else list(on_offer)
        if not any(name in on_offer.get(place, ()) for place in sides):
            known = sorted({option for place in sides for option in on_offer.get(place, ())})
            files = f"the {at} file has" if colon else "the files have"
            hint = f"choose from: {_shorten(known)}" if known else f"leave it out: {files} none"
            raise InputError(f"{files} no {kind} called {name}", hint=hint)
        if side in sides and name in on_offer[side]:
            yield name


def forks(offers: Iterable[Offers]) -> tuple[Selection, ...]:
    """Select everything that the files of both sides offer, in as few selections as their conflicts allow.

    Files without conflicts give one selection. With conflicts, the first choices of all conflicting sets go together,
    then the second ones, and so on: every choice is in at least one fork, and no fork has a conflict.
    """
    sides = tuple(offers)
    every = tuple(dict.fromkeys(choice for side in sides for choice in side.choices))
    contested = {choice for side in sides for conflict in side.conflicts for choice in conflict}
    common = [c for c in every if not any(side.together([c]) & contested for side in sides)]
    choices_of_forks: list[list[Choice]] = []
    for choice in (c for c in every if c not in common):
        for fork in choices_of_forks:
            if not any(side.clash([*common, *fork, choice]) for side in sides):
                fork.append(choice)
                break
        else:
            choices_of_forks.append([choice])
    return tuple(
        _selection([*common, *fork], fork if len(choices_of_forks) > 1 else [], every)
        for fork in choices_of_forks or [[]]
    )


def _selection(choices: list[Choice], contested: list[Choice], every: tuple[Choice, ...]) -> Selection:
    named = {kind: frozenset(c.name for c in choices if c.kind == kind) for kind in ("extra", "group", "package")}
    whole = named["package"] == {c.name for c in every if c.kind == "package"}
    return Selection(
        named["extra"],
        named["group"],
        None if whole else named["package"],
        "+".join(choice.name for choice in contested),
    )


def describe(selections: Iterable[Selection], offers: Offers) -> str:
    """Describe the selection from a file's offers, for people: "extras cu12, viz (of 12); groups dev; ..."."""
    texts = [_describe(selection, offers) for selection in selections]
    if len(texts) == 1:
        return texts[0]
    return "; or ".join(f"fork {number}: {text}" for number, text in enumerate(texts, 1))


def _describe(selection: Selection, offers: Offers) -> str:
    parts = []
    for kind, names, every in (("extra", selection.extras, offers.extras), ("group", selection.groups, offers.groups)):
        here = [name for name in every if name in names]
        if not every:
            continue
        if not here:
            parts.append(f"no {kind} of {len(every)}")
        elif len(here) == len(every):
            parts.append(f"all {plural(len(every), kind)}" if len(every) > 1 else f"{kind} {every[0]}")
        else:
            parts.append(f"{kind}{'s' if len(here) > 1 else ''} {_shorten(here)} (of {len(every)})")
    if selection.packages is not None:
        parts.append(f"packages {_shorten(sorted(selection.packages))} (of {len(offers.packages)})")
    return ", ".join(parts)


def _shorten(names: list[str], most: int = 12) -> str:
    more = [f"{len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])
