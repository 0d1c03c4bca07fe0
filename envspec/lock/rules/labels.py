"""A wheel's own label ("+pt24cu118") names the torch and the CUDA that the target has."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.facts.wheels import FAMILY
from envspec.lock.rules.case import LockedCase
from envspec.lock.variant_build import built_version
from envspec.packages.build_label import label_of


def wrong_labels(case: LockedCase) -> Iterator[Finding]:
    """Yield the wheels that say themselves that they were compiled for another torch, CUDA or C++ ABI, unless
    the spec accepts such wheels.

    What no label says, the tables of `rules` may know. A lock isn't judged by them, since they grow after it was made.
    """
    inputs = case.target.inputs
    labels = [
        (pin, label)
        for pin in case.pins("pip")
        if pin.name not in FAMILY
        and not inputs.accepts("built-for-another", pin.name)
        and (label := label_of(built_version(pin), pin.artifact.file if pin.artifact else None)) is not None
    ]
    if not labels:
        return
    # the rules load the tables of GPUs, and few locks have such a wheel
    from envspec.rules.neighbours import label_mismatch, surroundings

    torch = case.target.pin("torch", "pip")
    other = torch or case.target.pin("pytorch", "conda")
    around = surroundings(other.version if other else None, inputs.cuda, inputs.platform, wheel=torch is not None)
    for pin, label in labels:
        wrong = label_mismatch(label, around)
        if wrong:
            said = f"{pin.name} {pin.version} is built for {wrong} by its label, but the target has {around}"
            yield case.flaw("built-for-another", pin.name, said)
