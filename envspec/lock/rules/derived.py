"""The rules for a lock as a whole, and for values derived from its pins and targets: they agree with the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from envspec.base.finding import Finding, Severity
from envspec.facts.compute_capability import REST_UNREAD
from envspec.facts.minimum import architectures, driver_floor
from envspec.facts.python_builds import TRIPLES, is_released, reaches, sha256_of
from envspec.lock.conda_files import channel_of
from envspec.lock.model import Artifact, Lock, LockedPython, LockedTarget, Pin, inventory_name
from envspec.lock.rules.case import LockedCase
from envspec.lock.shared_paths import pip_order
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.python_range import is_within
from envspec.packages.version_numbers import numbers

_TABLED = "conda-forge"
"""The channel that the table of PyPI names covers. Records of other channels say themselves what they provide."""

_MARKED = "is marked as direct, but the spec doesn't name it"
_UNMARKED = "isn't marked as direct, but the spec names it"


def wrong_marks(case: LockedCase) -> Iterator[Finding]:
    """Yield marks that are wrong. Pins marked `direct` are those that the spec names; `provides` is only on conda
    packages."""
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
        if pin.kind == "pip" and pin.provides:
            message = f"{pin.name} is a pip package and can't provide {', '.join(pin.provides)}"
            yield case.flaw("wrong-provides", pin.name, message)
        if pin.kind == "pip" and pin.build is not None:
            yield case.flaw("wrong-build", pin.name, f"{pin.name} is a pip package but has the build {pin.build}")
        if pin.publisher and (pin.kind != "pip" or pin.git or pin.url):
            message = f"{pin.name} has the publisher {pin.publisher.kind}, but no index that could say so"
            yield case.flaw("wrong-publisher", pin.name, message)
        if later := set(pin.overwrites) - {*before.get(pin.name, ())}:
            message = f"{pin.name} can't overwrite {', '.join(sorted(later))}, which isn't installed before it"
            yield case.flaw("wrong-overwrites", pin.name, message)
        if pin.kind == "conda" and (pin.git or pin.url):
            yield case.flaw("unasked-source", pin.name, f"{pin.name} is a conda package but names its own source")
        if pin.git and pin.url:
            yield case.flaw("unasked-source", pin.name, f"{pin.name} is of a repository but names a file besides")


# Values that envspec's tables give. The tables grow and are corrected after a lock was made, so that a lock may hold
# others: that is a warning, and the stricter value counts.


def with_todays_names(target: LockedTarget) -> LockedTarget:
    """Give a target with today's PyPI names of its conda packages. The result is the target itself where the lock has
    these names, or those from before the table had the package."""
    changed = {pin: replace(pin, provides=names) for pin in target.pins if (names := _todays_names(pin)) is not None}
    pins = tuple(changed.get(pin, pin) for pin in target.pins) if changed else target.pins
    return replace(target, pins=pins) if changed else target


def wrong_code(case: LockedCase) -> Iterator[Finding]:
    """Yield GPU code of a package that isn't a wheel of a CUDA target, and GPU code that differs from the table of
    wheels. The table may know more of a wheel that was read in part."""
    cuda = case.target.inputs.cuda
    for pin in case.target.pins:
        if not pin.code:
            continue
        # the rules of wheels take longer to import than most locks to judge
        from envspec.lock.pinned import published_code_in

        if cuda is None or pin.kind != "pip" or not pin.is_wheel:
            message = f"{pin.name} has code for GPUs, and isn't a wheel of a target for CUDA"
            yield case.flaw("wrong-code", pin.name, message)
        elif (published := published_code_in(pin, cuda)) is not None:
            own = {code for code in pin.code if code.startswith(("sm_", "compute_"))}
            if pin.code != published and not (REST_UNREAD in pin.code and own <= {*published}):
                message = (
                    f"{pin.name}'s wheel has the code {', '.join(published) or 'of none'}, not {', '.join(pin.code)}"
                )
                yield case.flaw("wrong-code", pin.name, message)


def _todays_names(pin: Pin) -> tuple[str, ...] | None:
    if pin.kind == "pip" or channel_of(pin)[0] != _TABLED:
        return None
    from envspec.packages.conda import pypi_names, untabled_names

    names = pypi_names(pin.name, pin.dependencies)
    return None if pin.provides in (names, untabled_names(pin.name, pin.dependencies)) else names


def other_names(case: LockedCase, severity: Severity) -> Iterator[Finding]:
    """Yield the conda packages whose PyPI names differ today."""
    for pin in case.pins("conda"):
        if (todays := _todays_names(pin)) is not None:
            names, locked = (", ".join(provided) or "nothing" for provided in (todays, pin.provides))
            message = f"by today's facts {pin.name} provides {names} (the lock says {locked})"
            yield case.flaw("wrong-provides", pin.name, message, severity)


def other_target_facts(case: LockedCase, severity: Severity) -> Iterator[Finding]:
    """Yield a target's differences from today's tables: the architectures of its GPUs, and the lower bound of the
    driver for its CUDA and GPUs. A bound without CUDA, or architectures without GPUs, is an error: no table ever gave
    it."""
    target, inputs = case.target, case.target.inputs
    if not (inputs.cuda or inputs.gpus or target.architectures or target.driver_floor):
        return
    expected, strict = architectures(inputs.gpus), strictest(target)
    if target.architectures != expected:
        names, locked, counts = map(_architecture_text, (expected, target.architectures, strict.architectures))
        message = f"by today's facts the GPUs are {names} (the lock says {locked}), so {counts} counts"
        yield case.flaw("wrong-architectures", None, message, severity if inputs.gpus else "error")
    lower_bound = driver_floor(inputs.cuda, inputs.platform, inputs.gpus)
    if target.driver_floor != lower_bound:
        locked = target.driver_floor or "none"
        message = f"by today's facts the driver floor is {lower_bound or 'unknown'} (the lock says {locked})"
        message = f"{message}, so {strict.driver_floor or 'none'} counts"
        yield case.flaw("wrong-driver-floor", None, message, severity if inputs.cuda else "error")


def strictest(target: LockedTarget) -> LockedTarget:
    """Give a target with the stricter values of its lock and today's tables: the newer driver, and the architectures
    that both name. Where they have none in common, today's count, else the lock's."""
    inputs = target.inputs
    todays, locked = architectures(inputs.gpus), target.architectures
    common = tuple(architecture for architecture in todays if architecture in locked) or todays or locked
    lower_bounds = (driver_floor(inputs.cuda, inputs.platform, inputs.gpus), target.driver_floor)
    lower_bound = max((bound for bound in lower_bounds if bound), key=numbers, default=None)
    if (common, lower_bound) == (locked, target.driver_floor):
        return target
    return replace(target, architectures=common, driver_floor=lower_bound, as_locked=(locked, target.driver_floor))


def _architecture_text(architectures: tuple[str, ...]) -> str:
    return ", ".join(architectures) or "of no known architecture"


# The rules for a lock as a whole: one file has one hash in all targets, and Python is a build for them.

WRONG_PYTHON = "wrong-python"


def two_hashes(lock: Lock) -> Iterator[Finding]:
    """Yield the files that differ between targets, and the hashes that stand for two files."""
    files: dict[tuple[str, str], tuple[Artifact, str]] = {}
    names: dict[str, str] = {}
    for target in lock:
        for pin in target.pins:
            if pin.artifact is None:
                continue
            file, sha256 = pin.artifact.file, pin.artifact.sha256
            first, where = files.setdefault((pin.url or pin.index, file), (pin.artifact, target.name))
            if first != pin.artifact:
                message = f"{file} of {pin.index} has another hash or size than in {where}"
                yield Finding("error", "wrong-hash", message, targets=(target.name,), package=pin.name)
            if names.setdefault(sha256, pin.name) != pin.name:
                message = f"{file} has the sha256 of a file of {names[sha256]}"
                yield Finding("error", "wrong-hash", message, targets=(target.name,), package=pin.name)


def wrong_pythons(lock: Lock) -> Iterator[Finding]:
    """Yield the builds of Python that no target gets, a platform's second build, and files of another build."""
    seen: set[str] = set()
    for python in lock.pythons:
        users = [target for target in lock if lock.python(target) == python]
        names = tuple(target.name for target in users) or tuple(target.name for target in lock)
        if not users or python.platform in seen:
            yield Finding(
                "error",
                WRONG_PYTHON,
                f"Python {python.version} for {python.platform} is locked for no target",
                targets=names,
            )
        seen.add(python.platform)
        for target in users:
            inputs = target.inputs
            if not is_within(python.version, inputs.python, inputs.python_range):
                required = inputs.python_range or inputs.python
                message = f"Python {python.version} is locked, but the target asks for {required}"
                yield Finding("error", WRONG_PYTHON, message, targets=(target.name,))
        if not _is_file_of(python):
            message = f"{python.file} is not Python {python.version} of {python.build} for {python.platform}"
            yield Finding("error", WRONG_PYTHON, message, targets=names)
        elif differs := _unlike_the_table(python):
            yield Finding("error", WRONG_PYTHON, differs, targets=names)
        if not is_released(python.build, lock.inputs.exclude_newer):
            message = (
                f"Python {python.version} of {python.build} isn't older than exclude-newer, {lock.inputs.exclude_newer}"
            )
            yield Finding("error", WRONG_PYTHON, message, targets=names)


def wrong_bases(lock: Lock) -> Iterator[Finding]:
    """Yield the platforms whose base's inventory isn't locked, or isn't beside the lock as it was locked."""
    used = {target.inputs.platform for target in lock} if lock.inputs.base else set()
    for platform in sorted({*used, *(base.platform for base in lock.bases)}):
        names = tuple(target.name for target in lock if target.inputs.platform == platform) or tuple(
            target.name for target in lock
        )
        rows = [base for base in lock.bases if base.platform == platform]
        if len(rows) != 1 or platform not in used:
            message = f"{len(rows)} inventories of a base for {platform} are locked, not {int(platform in used)}"
            yield Finding("error", "wrong-base", message, targets=names)
        elif (inventory := lock.inventories.get(platform)) is None:
            message = f"{inventory_name(platform)} beside the lock is missing, or isn't the inventory that was locked"
            yield Finding("error", "wrong-base", message, targets=names)
        elif inventory.digest != rows[0].digest:
            message = f"{inventory_name(platform)} is of {inventory.digest}, and the lock is on {rows[0].digest}"
            yield Finding("error", "wrong-base", message, targets=names)


def _is_file_of(python: LockedPython) -> bool:
    triple = TRIPLES.get(python.platform, "")
    name = re.escape(f"cpython-{python.version}+{python.build}-{triple}-install_only")
    return re.fullmatch(rf"{name}(?:_stripped)?\.tar\.gz", python.file) is not None


def _unlike_the_table(python: LockedPython) -> str | None:
    """Return a build's difference from envspec's table of builds. The table can't judge builds that came after it."""
    known = sha256_of(python.platform, python.version, python.build)
    if known is None:
        return f"there is no {python.file}" if reaches(python.build) else None
    is_same = known == python.sha256 and python.file.endswith("_stripped.tar.gz")
    return None if is_same else f"{python.file} isn't the build with the sha256 {python.sha256}, but {known}"
