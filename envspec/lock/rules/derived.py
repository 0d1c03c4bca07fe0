"""The rules for a lock as a whole, and for values derived from its pins and targets: they agree with the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.facts import minimum
from envspec.facts.compute_capability import REST_UNREAD
from envspec.facts.minimum import architecture_sets, architectures, driver_floor, driver_floors
from envspec.facts.python_builds import TRIPLES, is_released, reaches, sha256_of
from envspec.lock.conda_files import channel_of
from envspec.lock.model import Artifact, Lock, LockedPython, Pin, inventory_name
from envspec.lock.rules.case import LockedCase
from envspec.lock.shared_paths import pip_order
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.python_range import is_within

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
        if pin.git and pin.url:
            yield case.flaw("unasked-source", pin.name, f"{pin.name} is of a repository but names a file besides")


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
    from envspec.packages.conda import untabled_names

    return (untabled_names(pin.name, pin.dependencies), *minimum.provides(pin.name))


def wrong_code(case: LockedCase) -> Iterator[Finding]:
    """Yield code for GPUs on what is no wheel of a target for CUDA, and code that the table of wheels has otherwise of
    that very file. Of one that was read in part, the table may know more."""
    cuda = case.target.inputs.cuda
    for pin in case.target.pins:
        if not pin.code:
            continue
        # the rules of wheels take longer to import than most locks to judge
        from envspec.lock.pinned import published_code_in

        if cuda is None or pin.kind != "pip" or not pin.is_wheel:
            said = f"{pin.name} has code for GPUs, and isn't a wheel of a target for CUDA"
            yield case.flaw("wrong-code", pin.name, said)
        elif (right := published_code_in(pin, cuda)) is not None:
            own = {one for one in pin.code if one.startswith(("sm_", "compute_"))}
            if pin.code != right and not (REST_UNREAD in pin.code and own <= {*right}):
                said = f"{pin.name}'s wheel has the code {', '.join(right) or 'of none'}, not {', '.join(pin.code)}"
                yield case.flaw("wrong-code", pin.name, said)


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
    if target.architectures != right and not (former_too and target.architectures in architecture_sets(inputs.gpus)):
        said = f"the GPUs are {_architecture_text(right)}, not {_architecture_text(target.architectures)}"
        yield case.flaw("wrong-architectures", None, said)
    floor = driver_floor(inputs.cuda, inputs.platform, inputs.gpus)
    if target.driver_floor != floor and not (
        former_too and target.driver_floor in driver_floors(inputs.cuda, inputs.platform, inputs.gpus)
    ):
        yield case.flaw("wrong-driver-floor", None, f"the driver floor is {floor}, not {target.driver_floor}")


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
                said = f"{file} of {pin.index} has another hash or size than in {where}"
                yield Finding("error", "wrong-hash", said, targets=(target.name,), package=pin.name)
            if names.setdefault(sha256, pin.name) != pin.name:
                said = f"{file} has the sha256 of a file of {names[sha256]}"
                yield Finding("error", "wrong-hash", said, targets=(target.name,), package=pin.name)


def wrong_pythons(lock: Lock) -> Iterator[Finding]:
    """Yield the builds of Python that no target gets, a second one for a platform, and files that aren't of theirs."""
    seen: set[str] = set()
    for one in lock.pythons:
        users = [target for target in lock if lock.python(target) == one]
        names = tuple(target.name for target in users) or tuple(target.name for target in lock)
        if not users or one.platform in seen:
            yield Finding(
                "error", WRONG_PYTHON, f"Python {one.version} for {one.platform} is locked for no target", targets=names
            )
        seen.add(one.platform)
        for target in users:
            inputs = target.inputs
            if not is_within(one.version, inputs.python, inputs.python_range):
                asked = inputs.python_range or inputs.python
                said = f"Python {one.version} is locked, but the target asks for {asked}"
                yield Finding("error", WRONG_PYTHON, said, targets=(target.name,))
        if not _is_file_of(one):
            said = f"{one.file} is not Python {one.version} of {one.build} for {one.platform}"
            yield Finding("error", WRONG_PYTHON, said, targets=names)
        elif differs := _unlike_the_table(one):
            yield Finding("error", WRONG_PYTHON, differs, targets=names)
        if not is_released(one.build, lock.inputs.exclude_newer):
            said = f"Python {one.version} of {one.build} isn't older than exclude-newer, {lock.inputs.exclude_newer}"
            yield Finding("error", WRONG_PYTHON, said, targets=names)


def wrong_bases(lock: Lock) -> Iterator[Finding]:
    """Yield the platforms whose base's inventory isn't locked, or doesn't lie beside the lock as it was locked."""
    used = {target.inputs.platform for target in lock} if lock.inputs.base else set()
    for platform in sorted({*used, *(one.platform for one in lock.bases)}):
        names = tuple(target.name for target in lock if target.inputs.platform == platform) or tuple(
            target.name for target in lock
        )
        rows = [one for one in lock.bases if one.platform == platform]
        if len(rows) != 1 or platform not in used:
            said = f"{len(rows)} inventories of a base for {platform} are locked, not {int(platform in used)}"
            yield Finding("error", "wrong-base", said, targets=names)
        elif (found := lock.inventories.get(platform)) is None:
            said = f"{inventory_name(platform)} beside the lock is missing, or isn't the inventory that was locked"
            yield Finding("error", "wrong-base", said, targets=names)
        elif found.digest != rows[0].digest:
            said = f"{inventory_name(platform)} is of {found.digest}, and the lock is on {rows[0].digest}"
            yield Finding("error", "wrong-base", said, targets=names)


def _is_file_of(one: LockedPython) -> bool:
    triple = TRIPLES.get(one.platform, "")
    name = re.escape(f"cpython-{one.version}+{one.build}-{triple}-install_only")
    return re.fullmatch(rf"{name}(?:_stripped)?\.tar\.gz", one.file) is not None


def _unlike_the_table(one: LockedPython) -> str | None:
    """Say what envspec's table of builds has otherwise. What came after the table it can't tell."""
    known = sha256_of(one.platform, one.version, one.build)
    if known is None:
        return f"there is no {one.file}" if reaches(one.build) else None
    is_same = known == one.sha256 and one.file.endswith("_stripped.tar.gz")
    return None if is_same else f"{one.file} isn't the build with the sha256 {one.sha256}, but {known}"
