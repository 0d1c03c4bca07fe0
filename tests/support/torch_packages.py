"""What a wheel of the PyTorch indexes needs from PyPI, as stand-ins of the same names and versions."""

from collections.abc import Iterable

from packaging.requirements import Requirement

from envspec.facts import wheels
from envspec.packages.tags import marker_environment
from support.packages import Dist, wheel


def stand_ins(
    variant: str, torch: str, *, platform: str = "linux-64", python: str = "3.12", skip: Iterable[str] = ()
) -> list[Dist]:
    """A tiny wheel of everything that the shipped facts say torch of this version asks for in this variant."""
    environment = marker_environment(platform, python)
    files = [file for file in wheels.load(variant).files("torch") if file.version.partition("+")[0] == torch]
    made: dict[str, Dist] = {}
    for file in files:
        for text in file.requires_dist:
            requirement = Requirement(text)
            holds = requirement.marker is None or requirement.marker.evaluate({**environment, "extra": ""})
            if holds and requirement.name not in skip:
                made.setdefault(requirement.name, wheel(requirement.name, _version(requirement)))
    assert made, f"the facts know no torch {torch} in {variant}"
    return list(made.values())


def _version(requirement: Requirement) -> str:
    """A version that fits: the pinned one, else the lowest named one, else 1.0."""
    named = {s.operator: s.version for s in requirement.specifier}
    for operator in ("==", ">=", "<=", "~="):
        if operator in named:
            return named[operator].removesuffix(".*")
    return "1.0"
