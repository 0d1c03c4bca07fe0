"""The rules for a lock as a whole: one file has one hash in all targets, and Python is a build for them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.facts.python_builds import TRIPLES, is_released, reaches, sha256_of
from envspec.lock.model import Artifact, Lock, LockedPython
from envspec.packages.python_range import is_within

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
