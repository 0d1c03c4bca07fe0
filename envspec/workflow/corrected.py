"""What corrections of published metadata did to a solution, and what a solution breaks of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from envspec.facts.corrections import Correction, Corrections, admits, implies, of_extra, some_admitted
from envspec.lock.model import Pin
from envspec.packages.requirement import asked, published_requirement


@dataclass(frozen=True)
class Effect:
    """What a correction did: "numpy<2 added", "transformers 4.49.0 locked"."""

    correction: Correction
    text: str


def broken(
    corrections: Corrections, pins: Iterable[Pin], versions: Mapping[str, str], off: Collection[str]
) -> tuple[Correction, ...]:
    """Find the corrections that a solution breaks: those of the tables, and those that extras of its packages say.

    `versions` are those of all packages, conda's included; `off` names extras' corrections that are switched off.
    """
    of_extras = (
        of_extra(pin.name, pin.version, bound)
        for pin in pins
        for bound in pin.works_with
        if asked(bound).name in versions and not admits(bound, versions[asked(bound).name])
    )
    return (*corrections.broken_by(versions), *(one for one in of_extras if one.name not in off))


def effects(
    corrections: Corrections, pins: Sequence[Pin], versions: Mapping[str, str], requirements: Iterable[str]
) -> tuple[Effect, ...]:
    """List what corrections did to a solution. What its published metadata and the spec's `requirements` say as well
    did nothing."""
    said: dict[str, list[str]] = {}
    for line in (*requirements, *(line for pin in pins for line in pin.dependencies)):
        said.setdefault(asked(line).name, []).append(str(published_requirement(line).specifier))
    return tuple(effect for pin in pins for effect in _effects(corrections, pin, versions, said))


def _effects(
    corrections: Corrections, pin: Pin, versions: Mapping[str, str], said: Mapping[str, list[str]]
) -> Iterator[Effect]:
    for one in corrections.about(pin.name):
        texts = said.get(one.bounded, ())
        if one.kind == "requirement":
            if one.requirement in pin.added:
                yield Effect(one, f"{one.requirement} added")
        elif one.bounded not in versions:
            continue
        elif one.kind == "extra":
            bound = next((bound for bound in pin.works_with if asked(bound).name == one.bounded), None)
            yield Effect(one, f"{bound} added" if bound and one.seen == pin.version else _locked(pin))
        elif one.concerns(pin.name, pin.version):
            if not implies(texts, one.requirement):
                yield Effect(one, f"{one.requirement} added")
        elif not admits(one.requirement, versions[one.bounded]) and some_admitted(
            one.versions, (*said.get(pin.name, ()), f">{pin.version.partition('+')[0]}")
        ):
            # a newer version of it was given up
            yield Effect(one, _locked(pin))


def _locked(pin: Pin) -> str:
    return f"{pin.name} {pin.version} locked"
