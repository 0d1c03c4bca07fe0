"""environment.yml: a list of requirements. An exported one (`name=version=build`) pins all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envspec.lock.model import Lock, Pin
from envspec.packages.names import conda_name
from envspec.review.diff.foreign import requirements
from envspec.review.diff.foreign.shape import lock_of, sequence, string
from envspec.review.diff.foreign.universal import DEFAULT_PYTHON, Environment
from envspec.review.diff.model import LoosePin

KNOWS: frozenset[str] = frozenset()

_EXPORTED = re.compile(r"=?=([^=,|*<>!~\s]+)(?:=([^=\s]+))?")


def read(data: Mapping[str, Any]) -> tuple[Lock, bool]:
    """Return what the file asks for, and whether it pins everything, builds included. Raises Malformed."""
    pins: list[Pin] = []
    pip: list[str] = []
    for one in sequence(data.get("dependencies"), "dependencies"):
        if isinstance(one, dict):
            pip += [string(line, "a requirement of pip") for line in sequence(one.get("pip"), "pip")]
        else:
            pins.append(_pin(string(one, "a dependency")))
    complete = bool(pins) and all(pin.build for pin in pins)
    if pip:
        lock, _ = requirements.read("\n".join(pip), (Environment("", "linux-64", DEFAULT_PYTHON),))
        pins += lock.targets[0].pins
    return lock_of({("", ""): pins}), complete


def _pin(text: str) -> Pin:
    name = conda_name(text)
    constraint = text.rpartition("::")[2].lstrip()[len(name) :].strip()
    exact = _EXPORTED.fullmatch(constraint.replace(" ", ""))
    if exact and (exact[2] or constraint.startswith("==")):
        return Pin("conda", name, exact[1], "", None, build=exact[2])
    return LoosePin("conda", name, "", "", None, specifier=" ".join(constraint.split()) or "*")
