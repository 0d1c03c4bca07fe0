"""A change's meaning to a reviewer: a sentence, its risk, and the targets where it holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from envspec.base import finding

Risk = Literal["high", "medium", "low"]
RISKS: tuple[Risk, ...] = ("high", "medium", "low")
"""high    something can stop working, or a stranger's files could get in: understand it before you merge
medium  worth a look: behaviour, licence or origin may change
low     routine
"""


@dataclass(frozen=True)
class Fact:
    """`code` is stable and for machines. `targets` is empty where the fact holds wherever the change does.

    `package` names the package that causes a fact about a whole target.
    """

    risk: Risk
    code: str
    message: str
    targets: tuple[str, ...] = ()
    package: str | None = None


def highest(risks: Iterable[Risk]) -> Risk:
    """Return the highest of some risks; "low" for none."""
    return min(risks, key=RISKS.index, default="low")


def merge_facts(found: Iterable[tuple[str, Fact]], targets: Iterable[str]) -> tuple[Fact, ...]:
    """Merge facts found target by target: each once, with the targets that it holds for unless these are all of
    `targets`.

    The highest risk comes first.
    """
    facts = finding.merge_targets((replace(fact, targets=(target,)) for target, fact in found), tuple(targets))
    return tuple(sorted(facts, key=lambda fact: RISKS.index(fact.risk)))
