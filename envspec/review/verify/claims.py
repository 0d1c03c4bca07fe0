"""The claims of a lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from envspec.facts.python_builds import sha256_of
from envspec.lock.graph import Graph, Node
from envspec.lock.model import Lock, LockedTarget, Pin, SpecInputs
from envspec.lock.pinned import published_code_in
from envspec.lock.variant_build import machine_of, versions_of
from envspec.net.index_proxy.releases import version_of
from envspec.packages.names import conda_name, requirement_name
from envspec.review.verify.model import Claims, PinClaim
from envspec.spec.newer import moment_of


def claims_of(lock: Lock, targets: Iterable[LockedTarget]) -> Claims:
    """Collect the claims of these targets of a lock, each once, with the targets that make it."""
    targets_by_claim: dict[PinClaim, list[str]] = {}
    for target in targets:
        for claim in (*_claims(target, lock.inputs), *_builds(target, lock.inputs.exclude_newer)):
            targets_by_claim.setdefault(claim, []).append(target.name)
    return {claim: tuple(names) for claim, names in targets_by_claim.items()}


def new_claims(claims: Claims, before: Claims) -> Claims:
    """Leave out the claims of an earlier lock in any of its targets.

    A package with the same pin counts as changed where its target asks for more extras, or has another Python. A later
    `exclude-newer` claims nothing new.
    """
    bounds: dict[PinClaim, list[str | None]] = {}
    for claim in before:
        bounds.setdefault(replace(claim, exclude_newer=None), []).append(claim.exclude_newer)
    return {
        claim: names
        for claim, names in claims.items()
        if not any(_implies(old, claim.exclude_newer) for old in bounds.get(replace(claim, exclude_newer=None), ()))
    }


def _implies(bound: str | None, later: str | None) -> bool:
    """Return whether a file published before one bound was published before another, too."""
    bound_moment, later_moment = moment_of(bound), moment_of(later)
    return later in {None, bound} or (
        bound_moment is not None and later_moment is not None and bound_moment <= later_moment
    )


def apply_bounds(claims: Claims, bounds: Mapping[str, str | None]) -> Claims:
    """Put the spec's own bounds in time in the place of the lock's: by package (normalised), None for none."""
    return {
        replace(claim, exclude_newer=bounds[claim.pin.name])
        if claim.pin.kind == "pip" and claim.builds is None and claim.pin.name in bounds
        else claim: names
        for claim, names in claims.items()
    }


def unasked_parts(lock: Lock, before: Lock | None = None) -> dict[str, tuple[str, ...]]:
    """Name the parts of a lock beside its packages that no index of packages knows, by their kind. Parts that `before`
    has too are left out."""
    # the others are those of envspec's table, or the lock isn't sound
    pythons = {
        f"{python.file} ({python.platform})": python
        for python in lock.pythons
        if sha256_of(python.platform, python.version, python.build) is None
    }
    images = {image.name: image for image in lock.images}
    bases = {base.platform: base for base in lock.bases}
    read = {f"{correction.package} {correction.version}": correction for correction in lock.corrections}
    code = {pin.artifact.file: (pin.artifact, pin.code) for pin in _with_unknown_code(lock) if pin.artifact}
    old: set[object] = set()
    if before is not None:
        old = {*before.pythons, *before.images, *before.bases, *before.corrections}
        old |= {(pin.artifact, pin.code) for target in before for pin in target.pins}
    named: Mapping[str, Mapping[str, object]] = {
        "the build of Python: it is newer than envspec's table": pythons,
        "the digest: envspec doesn't ask the registry": images,
        "what the base has: envspec doesn't read it again": bases,
        "what was read in the wheel: envspec doesn't read it again": read,
        "its code for GPUs: envspec doesn't read the wheel again": code,
    }
    unasked = {what: tuple(name for name, part in parts.items() if part not in old) for what, parts in named.items()}
    return {what: names for what, names in unasked.items() if names}


def _with_unknown_code(lock: Lock) -> Iterator[Pin]:
    """Yield the pins whose code isn't in the table of wheels: a sound lock agrees with the table on all others."""
    for target in lock:
        cuda = target.inputs.cuda
        yield from (pin for pin in target.pins if pin.code and cuda and published_code_in(pin, cuda) is None)


def _claims(target: LockedTarget, shared: SpecInputs) -> Iterator[PinClaim]:
    exclude_newer = shared.exclude_newer
    extras = Graph.of(target).extras
    inputs = target.inputs
    overrides = tuple(requirement for requirement, _ in inputs.overrides)
    machine = machine_of(inputs, versions_of(target.pins))
    for pin in target.pins:
        if pin.kind == "conda":
            yield PinClaim(pin, exclude_newer=exclude_newer, requirements=_build_numbers(target, pin.name))
            continue
        yield PinClaim(
            pin,
            extras.get(Node(pin.kind, pin.name), frozenset()),
            inputs.platform,
            inputs.full_python,
            overrides,
            tuple(metadata for metadata in inputs.metadata if metadata.name == pin.name),
            exclude_newer,
            uncorrected=shared.without_corrections,
            machine=machine if pin.artifact is not None and pin.artifact.variant is not None else None,
            requirements=_version_demands(target, pin.name) if is_pre_release(pin.version) else (),
            glibc=inputs.glibc,
        )


def _build_numbers(target: LockedTarget, name: str) -> tuple[str, ...]:
    """List the match specs of a target and its packages that ask for a build number of a package."""
    needs = (line for pin in target.pins if pin.kind == "conda" for line in pin.dependencies)
    lines = (*target.inputs.conda_requirements, *needs)
    return tuple(sorted({line for line in lines if "build_number" in line and conda_name(line) == name}))


def is_pre_release(version: str) -> bool:
    """Return whether a version is a pre-release as PEP 440 has it."""
    read = version_of(version)
    return read is not None and read.is_prerelease


def _version_demands(target: LockedTarget, name: str) -> tuple[str, ...]:
    """List the bounds on a package's version by a target's requirements, constraints and packages."""
    inputs = target.inputs
    overrides = [line for line, _ in inputs.overrides if requirement_name(line) == name]
    edges = (line for pin in target.pins if pin.kind == "pip" for line in pin.dependencies)
    lines = overrides or [*inputs.requirements, *edges]
    return tuple(sorted({line for line in (*lines, *inputs.constraints) if requirement_name(line) == name}))


def _builds(target: LockedTarget, exclude_newer: str | None) -> Iterator[PinClaim]:
    for pin in target.pins:
        for wheel in target.build_wheels(pin):
            yield PinClaim(wheel, exclude_newer=exclude_newer, builds=pin.name)
