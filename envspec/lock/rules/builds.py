"""The rules for build environments of sources: wheels for the target, with the target's own torch, CUDA and NumPy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from packaging.specifiers import SpecifierSet

from envspec.base.finding import Finding
from envspec.facts.cuda_stack import stack_of
from envspec.lock.model import BuildPin, Pin
from envspec.lock.rules.case import LockedCase
from envspec.lock.rules.cuda import cuda_major_of
from envspec.lock.rules.files import is_wheel_for
from envspec.lock.rules.requirements import version_of

NUMPY = "numpy"
_NUMPY_FOR_OLDER = (2, 0)
"""The series whose headers build for NumPy 1.19 and all newer ones; later series leave old ones out. Source: NumPy's
numpyconfig.h, NPY_FEATURE_VERSION: 1.19 in 2.0, 1.21 in 2.1, 1.23 in 2.3."""
_OLDEST_NUMPY = (1, 19)


def wrong_build_environments(case: LockedCase) -> Iterator[Finding]:
    """Yield the flaws of build environments: one listed for a package that isn't built, a file that isn't a wheel for
    the target, two wheels of one package, and a wheel with another torch, CUDA or NumPy than the target's."""
    pins = {pin.name: pin for pin in case.target.pins}
    for pin in case.target.pins:
        if pin.built_with is None:
            continue
        if pin.kind != "pip" or pin.is_wheel:
            message = f"{pin.name} names what it is built with, but isn't built"
            yield case.flaw("wrong-build-environment", pin.name, message)
        wheel_counts = Counter(wheel.name for wheel in pin.built_with)
        for wheel in pin.built_with:
            if wheel_counts[wheel.name] > 1 or not is_wheel_for(case, wheel):
                message = (
                    f"{wheel.file} isn't the one wheel of {wheel.name} {wheel.version} that {pin.name} is built with"
                )
                yield case.flaw("wrong-build-environment", pin.name, message)
            elif difference := unlike_target(wheel, pins, case.target.inputs.cuda):
                message = f"{pin.name} is built with {wheel.name} {wheel.version}, but {difference}"
                yield case.flaw("wrong-build-environment", pin.name, message)


def missing_build_environments(case: LockedCase, against_lock: frozenset[str]) -> Iterator[Finding]:
    """Yield the built sources whose build environment the lock lacks. `against_lock` names the sources that are built
    against the lock's own packages."""
    for pin in case.pins("pip"):
        if pin.is_wheel or pin.name in against_lock:
            continue
        if pin.built_with is None:
            message = f"{pin.name} {pin.version} is built, but the lock doesn't say what with"
            yield case.flaw("no-build-environment", pin.name, message)


def unlike_target(wheel: BuildPin, pins: Mapping[str, Pin], cuda: str | None) -> str | None:
    """Describe the forbidden difference of a wheel in a build environment from the target, given by its pins, by name,
    and its CUDA; None where there is none.

    torch, its companions and compiler are the target's very files; so is all that the target has from another index
    than PyPI. NVIDIA's packages have its versions and CUDA. NumPy is the target's or an older one of its major, for
    NumPy 1 also 2.0, which builds for both.
    """
    locked = pins.get(wheel.name)
    bounds = bounds_on_numpy(locked.version) if locked is not None and wheel.name == NUMPY else ()
    admitting = (SpecifierSet(bound.removeprefix(NUMPY)).contains(wheel.version, prereleases=True) for bound in bounds)
    if locked is not None and bounds and not any(admitting):
        return f"what that builds doesn't run with the target's {locked.version}"
    stack = stack_of(wheel.name)
    own = locked is not None and locked.kind == "pip" and locked.index != "pypi"
    if stack != "torch" and not own:
        major = cuda_major_of(wheel.pin)
        if stack == "nvidia" and locked is not None and locked.kind == "pip" and locked.version != wheel.version:
            return f"the target has {locked.version}"
        if cuda and major and major != cuda.partition(".")[0]:
            return f"the target is for CUDA {cuda}"
        return None
    if locked is None or locked.kind == "conda":
        return f"the target has {'none of pip' if locked is None else f'that of {locked.index}'}"
    artifact = locked.artifact
    if artifact is None or (artifact.file, artifact.sha256) != (wheel.file, wheel.sha256):
        return f"the target has {locked.version} from {locked.index}"
    return None


def is_shared(pin: Pin) -> bool:
    """Return whether a build that gets a package gets the target's own."""
    return pin.name == NUMPY or stack_of(pin.name) is not None or (pin.kind == "pip" and pin.index != "pypi")


def bounds_of(pins: Sequence[Pin]) -> tuple[str, ...]:
    """Give PEP 508 lines by which a build gets the target's torch and CUDA; NumPy has bounds of its own."""
    shared = (p for p in pins if p.kind == "pip" and p.name != NUMPY and not p.url and not p.git)
    return tuple(f"{p.name}=={p.version}" for p in shared if stack_of(p.name) or p.index != "pypi")


def bounds_on_numpy(version: str) -> tuple[str, ...]:
    """Give PEP 508 lines, the best first, that bound the NumPy of a build for a target with this version: the newest up
    to it, of its major, else one that builds for it, too."""
    numbers = version_of(version).release[:2]
    if numbers >= _NUMPY_FOR_OLDER:
        return (f"{NUMPY}>={numbers[0]},<={version}",)
    older = f"{NUMPY}<={version}"
    return (older, f"{NUMPY}==2.0.*") if numbers >= _OLDEST_NUMPY else (older,)
