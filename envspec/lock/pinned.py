"""A locked target's exact pins as the rules judge them, with the known code of its wheels; without any network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from envspec.base.finding import Finding, merge_targets
from envspec.binaries.device_code import published_code
from envspec.facts.compute_capability import REST_UNREAD
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.shared_paths import pip_order
from envspec.lock.variant_build import architectures_of, built_version
from envspec.rules.neighbours import Origin
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.rules.wheel_code import WheelBuild, build_of, locked_code
from envspec.spec.model import Spec, Target

_OF_TORCH = ("torch", "triton", "numpy")
"""The packages of a base that wheels on top were compiled against."""


def pinned_versions(target: LockedTarget, read: Mapping[str, WheelBuild]) -> PinnedVersions:
    """Give a target's pins with the facts `read` in their wheels, by package."""
    provided = {name: version for name, version in target.provided if name in _OF_TORCH}
    pip = [pin for pin in target.pins if pin.kind == "pip"]
    files = {pin.name: pin.artifact for pin in pip if pin.artifact}
    return PinnedVersions(
        {**provided, **{pin.name: built_version(pin) for pin in target.pins}},
        builds={pin.name: pin.build for pin in target.pins if pin.kind == "conda" and pin.build},
        needs={pin.name: pin.dependencies for pin in pip},
        origins={
            **dict.fromkeys(provided, Origin("base", "")),
            **{pin.name: Origin(pin.index, files[pin.name].file) for pin in pip if pin.name in files},
        },
        read=read,
        architectures={
            name: architectures_of(artifact.variant) for name, artifact in files.items() if artifact.variant
        },
        order=pip_order(target),
    )


def _published_build(pin: Pin) -> WheelBuild | None:
    """Give the build of a pin's file by the table of fully read wheels; None for a file that the table lacks."""
    known = published_code(pin.artifact.sha256) if pin.artifact and pin.is_wheel else None
    return WheelBuild(known.notes, known.code) if known else None


def published_code_in(pin: Pin, cuda: str) -> tuple[str, ...] | None:
    """Give the code of a pin in a target of this CUDA by the table; None for a file that it lacks."""
    build = _published_build(pin)
    return locked_code(build, cuda) if build else None


def judge_by_gpus(spec: Spec, target: Target, locked: LockedTarget) -> tuple[Finding, ...]:
    """Judge the pins of a locked target by the GPUs and the driver of `target`, which may differ from those that it was
    locked for. As in `lock`, the table of wheels counts, and the code that `lock` read in other wheels. A target that
    has another CUDA or platform now gets no findings."""
    inputs = locked.inputs
    if inputs.cuda is None or (inputs.cuda, inputs.platform) != (target.cuda, target.platform):
        return ()
    pins = [pin for pin in locked.pins if pin.kind == "pip"] if inputs.inspect else []
    known = {pin.name: _published_build(pin) or (build_of(pin.code) if pin.code else None) for pin in pins}
    read = {name: build for name, build in known.items() if build is not None}
    findings = judge_pins(spec, target, pinned_versions(locked, read), by_gpus_alone=True)
    return tuple(finding.tell_ways() for finding in findings)


def warnings_of(spec: Spec, lock: Lock) -> tuple[Finding, ...]:
    """Judge the pins of a sound lock by the GPUs of their own targets. An error by today's facts is a warning here: it
    was none when the lock was made."""
    warnings = (
        replace(finding, severity="warning", targets=(target.name,))
        for target in spec.targets
        if (locked := lock.target(target.name))
        for finding in judge_by_gpus(spec, target, locked)
        if finding.severity != "info"
    )
    return merge_targets(warnings)


def with_fullest_code(targets: Sequence[LockedTarget]) -> tuple[LockedTarget, ...]:
    """Give the targets with the fullest code that is known of each wheel: a wheel that was read to its end for one
    target's GPUs may have been read in part for another's."""
    known = {
        (pin.artifact, target.inputs.cuda): pin.code
        for target in targets
        for pin in target.pins
        if pin.code and REST_UNREAD not in pin.code
    }

    def with_code(pin: Pin, cuda: str | None) -> Pin:
        return replace(pin, code=known.get((pin.artifact, cuda), pin.code)) if pin.code else pin

    return tuple(
        replace(target, pins=tuple(with_code(pin, target.inputs.cuda) for pin in target.pins)) for target in targets
    )
