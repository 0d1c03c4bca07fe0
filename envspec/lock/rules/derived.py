"""The rule for values that a lock derives from its pins and targets: they agree with those and with the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envspec.base.finding import Finding
from envspec.facts.minimum import architecture_sets, architectures, driver_floor, driver_floors
from envspec.lock.conda_files import channel_of
from envspec.lock.model import Pin, TargetInputs
from envspec.lock.rules.case import LockedCase
from envspec.lock.shared_paths import pip_order
from envspec.packages.names import conda_name, requirement_name

_TABLED = "conda-forge"
"""The channel that the table of PyPI names covers. Records of other channels say themselves what they provide."""

_MARKED = "is marked as direct, but the spec doesn't name it"
_UNMARKED = "isn't marked as direct, but the spec names it"


def wrong_marks(case: LockedCase) -> Iterator[Finding]:
    """Yield marks that are wrong. Pins marked `direct` are those that the spec names; `provides` is only on conda
    packages, as the table has it."""
    inputs = case.target.inputs
    named = {
        "pip": {requirement_name(text) for text in inputs.requirements},
        "conda": {conda_name(text) for text in inputs.conda_requirements},
    }
    order = [*pip_order(case.target)] if any(pin.overwrites for pin in case.target.pins) else []
    before = {name: order[:place] for place, name in enumerate(order)}
    for pin in case.target.pins:
        if pin.direct != (pin.name in named[pin.kind]):
            yield case.flaw("wrong-direct", pin.name, f"{pin.name} {_MARKED if pin.direct else _UNMARKED}")
        right = _provides(pin)
        if pin.provides != right and pin.provides not in _former_provides(pin):
            said = f"{pin.name} provides {', '.join(right) or 'nothing'}, not {', '.join(pin.provides) or 'nothing'}"
            yield case.flaw("wrong-provides", pin.name, said)
        if pin.kind == "pip" and pin.build is not None:
            yield case.flaw("wrong-build", pin.name, f"{pin.name} is a pip package but has the build {pin.build}")
        if pin.publisher and (pin.kind != "pip" or pin.git or pin.url):
            said = f"{pin.name} has the publisher {pin.publisher.kind}, but no index that could say so"
            yield case.flaw("wrong-publisher", pin.name, said)
        if strange := set(pin.overwrites) - {*before.get(pin.name, ())}:
            said = f"{pin.name} can't overwrite {', '.join(sorted(strange))}, which isn't installed before it"
            yield case.flaw("wrong-overwrites", pin.name, said)
        if pin.kind == "conda" and (pin.git or pin.url):
            yield case.flaw("unasked-source", pin.name, f"{pin.name} is a conda package but names its own source")


def _provides(pin: Pin) -> tuple[str, ...]:
    if pin.kind == "pip":
        return ()
    if channel_of(pin)[0] != _TABLED:
        return pin.provides
    from envspec.packages.conda import pypi_names

    return pypi_names(pin.name, pin.dependencies)


def _former_provides(pin: Pin) -> tuple[tuple[str, ...], ...]:
    """Return what the table may have said when the package was locked: it grows, and is corrected."""
    if pin.kind == "pip":
        return ()
    from envspec.facts import minimum
    from envspec.packages.conda import untabled_names

    return (untabled_names(pin.name, pin.dependencies), *minimum.provides(pin.name))


def wrong_target_facts(case: LockedCase) -> Iterator[Finding]:
    """Yield wrong facts of a target: its GPUs give the architectures, CUDA and the GPUs give the driver floor.

    What a former table gave is right too: it changed after the lock was made, which `differing_facts` tells.
    """
    yield from _differences(case, former_too=True)


def differing_facts(case: LockedCase) -> Iterator[str]:
    """Yield what today's tables give for a target, where its lock holds what they gave when it was made."""
    yield from (flaw.message for flaw in _differences(case, former_too=False))
    for pin in case.pins("conda"):
        right = _provides(pin)
        if pin.provides != right:
            yield f"{pin.name} provides {', '.join(right) or 'nothing'}, not {', '.join(pin.provides) or 'nothing'}"


def _differences(case: LockedCase, *, former_too: bool) -> Iterator[Finding]:
    target, inputs = case.target, case.target.inputs
    if not (inputs.cuda or inputs.gpus or target.architectures or target.driver_floor):
        return

    right = architectures(inputs.gpus)
    if target.architectures != right and not (former_too and target.architectures in _sets(inputs.gpus)):
        said = f"the GPUs are {_architecture_text(right)}, not {_architecture_text(target.architectures)}"
        yield case.flaw("wrong-architectures", None, said)
    floor = driver_floor(inputs.cuda, inputs.platform, inputs.gpus)
    if target.driver_floor != floor and not (former_too and target.driver_floor in _floors(inputs)):
        yield case.flaw("wrong-driver-floor", None, f"the driver floor is {floor}, not {target.driver_floor}")


def _sets(gpus: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return architecture_sets(gpus)


def _floors(inputs: TargetInputs) -> tuple[str | None, ...]:
    return driver_floors(inputs.cuda, inputs.platform, inputs.gpus)


def _architecture_text(architectures: tuple[str, ...]) -> str:
    return ", ".join(architectures) or "of no known architecture"
