"""A variant suits its target: what it needs, the target's machines have. So does a wheel's own label ("+pt24cu118"):
it names the torch and the CUDA that the target has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from envspec.base.finding import Finding
from envspec.facts.wheels import FAMILY
from envspec.lock.model import Pin, TargetInputs, WheelVariant
from envspec.lock.rules.case import LockedCase
from envspec.lock.variant_build import built_version, is_for_cpu, properties_of
from envspec.packages.build_label import label_of
from envspec.packages.variant_choice import of_namespace
from envspec.packages.variants import AARCH64, ABI, NULL, NVIDIA, X86_64, Property


def wrong_variants(case: LockedCase) -> Iterator[Finding]:
    """Yield variants that contradict themselves, that the target's machines don't support, and those for CPUs in a CUDA
    target, unless the spec accepts them.

    Of namespaces whose values a release lists itself, only the index knows more.
    """
    inputs = case.target.inputs
    for pin in case.target.pins:
        variant = pin.artifact.variant if pin.artifact else None
        if variant is None or pin.kind != "pip":
            continue
        name = f"the variant {variant.label} of {pin.name} {pin.version}"
        wrong = _contradiction(variant) or _unsupported_reason(case, variant)
        if wrong:
            yield case.flaw("wrong-variant", pin.name, f"{name} {wrong}")
        elif inputs.cuda is not None and _is_refused_cpu(pin, variant, inputs):
            yield case.flaw("cpu-variant", pin.name, f"{name} is for CPUs, and others of this release are for CUDA")


def _is_refused_cpu(pin: Pin, variant: WheelVariant, inputs: TargetInputs) -> bool:

    # of torch itself nobody may accept it
    return is_for_cpu(variant) and (pin.name in FAMILY or not inputs.accepts("cpu-variant", pin.name))


def _contradiction(variant: WheelVariant) -> str | None:
    properties = properties_of(variant)
    if len(set(variant.priorities)) < len(variant.priorities):
        return "has a namespace twice"
    if (variant.label == NULL) != (not properties):
        return f"has {'properties' if properties else 'none'}, and only {NULL} has none"
    strange = {one.namespace for one in properties} - set(variant.priorities)
    if strange:
        return f"has the namespace {min(strange)}, which its priorities lack"
    order = sorted(set(properties), key=lambda one: (variant.priorities.index(one.namespace), one))
    return None if list(properties) == order else "has its properties in another order than a lock has them"


def _unsupported_reason(case: LockedCase, variant: WheelVariant) -> str | None:
    from envspec.lock.machine import machine_of, versions_of

    needs: dict[tuple[str, str], list[str]] = {}
    for one in properties_of(variant):
        needs.setdefault((one.namespace, one.feature), []).append(one.value)
    machine = machine_of(case.target.inputs, versions_of(case.target.pins))
    for (namespace, feature), values in needs.items():
        if namespace not in (NVIDIA, X86_64, AARCH64, ABI):
            continue
        for alone in machine.each:
            known: Mapping[str, tuple[str, ...]] = dict(of_namespace(namespace, alone, [feature]))
            if not set(values) & set(known.get(feature, ())):
                needed = " or ".join(str(Property(namespace, feature, value)) for value in values)
                return f"needs {needed}, and the target has {alone.said}"
    return None


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
