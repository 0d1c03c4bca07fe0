"""Why a lock is stale: one type a cause, so that a caller can act on it and a person can read it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Lock, TargetInputs
from envspec.packages.names import conda_name, requirement_name
from envspec.spec.model import Spec


@dataclass(frozen=True)
class Reason:
    """Base of all. `code` names the cause for machines; `message` is one line for people."""

    code: ClassVar[str]

    @property
    def message(self) -> str:
        raise NotImplementedError


# The lock itself.


@dataclass(frozen=True)
class LockMissing(Reason):
    code = "lock-missing"

    @property
    def message(self) -> str:
        return "there is no lock yet"


@dataclass(frozen=True)
class LockDamaged(Reason):
    """`problem` is the message of the LockError that reading the lock raised."""

    code = "lock-damaged"
    problem: str

    @property
    def message(self) -> str:
        return self.problem


# What all targets share.


@dataclass(frozen=True)
class _Changed(Reason):
    what: ClassVar[str]
    old: str | None
    new: str | None

    @property
    def message(self) -> str:
        return _change(self.what, self.old, self.new)


@dataclass(frozen=True)
class NameChanged(_Changed):
    code, what = "name-changed", "the name"


@dataclass(frozen=True)
class ExcludeNewerChanged(_Changed):
    code, what = "exclude-newer-changed", "exclude-newer"


@dataclass(frozen=True)
class AllowSourceChanged(Reason):
    code = "allow-source-changed"
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def message(self) -> str:
        changes = [*(f"{name} was added" for name in self.added), *(f"{name} was removed" for name in self.removed)]
        return f"allow-source: {', '.join(changes)}"


@dataclass(frozen=True)
class CorrectionsChanged(Reason):
    """The spec does without other corrections of published metadata than the lock did."""

    code = "corrections-changed"
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def message(self) -> str:
        return f"without-corrections: {', '.join(self.old) or 'none'} -> {', '.join(self.new) or 'none'}"


@dataclass(frozen=True)
class SourceChanged(Reason):
    """A package comes from another named index, or no longer from a named one."""

    code = "source-changed"
    package: str
    old: str | None
    new: str | None

    @property
    def message(self) -> str:
        return _change(f"the index of {self.package}", self.old, self.new)


@dataclass(frozen=True)
class ChannelsChanged(Reason):
    code = "channels-changed"
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def message(self) -> str:
        return _change("the list of conda channels", ", ".join(self.old) or None, ", ".join(self.new) or None)


@dataclass(frozen=True)
class ImageChanged(Reason):
    """The spec's base is another image than the one whose digest the lock has."""

    code = "image-changed"
    old: str
    new: str

    @property
    def message(self) -> str:
        return _change("the base image", self.old, self.new)


# What a target has. `targets` is empty where the reason holds for every target that spec and lock share.


@dataclass(frozen=True)
class TargetAdded(Reason):
    code = "target-added"
    target: str

    @property
    def message(self) -> str:
        return f"target {self.target} is not locked yet"


@dataclass(frozen=True)
class TargetRemoved(Reason):
    code = "target-removed"
    target: str

    @property
    def message(self) -> str:
        return f"target {self.target} is no longer in the spec"


@dataclass(frozen=True)
class _OfTargets(Reason):
    targets: tuple[str, ...]

    @property
    def _for(self) -> str:
        return f" ({', '.join(self.targets)})" if self.targets else ""


@dataclass(frozen=True)
class _TargetChanged(_OfTargets):
    what: ClassVar[str]
    old: str | None
    new: str | None

    @property
    def message(self) -> str:
        return _change(self.what, self.old, self.new) + self._for


@dataclass(frozen=True)
class PlatformChanged(_TargetChanged):
    code, what = "platform-changed", "the platform"


@dataclass(frozen=True)
class PythonChanged(_TargetChanged):
    code, what = "python-changed", "Python"


@dataclass(frozen=True)
class GlibcChanged(_TargetChanged):
    code, what = "glibc-changed", "glibc"


@dataclass(frozen=True)
class CudaChanged(_TargetChanged):
    code, what = "cuda-changed", "CUDA"


@dataclass(frozen=True)
class GpusChanged(_TargetChanged):
    code, what = "gpus-changed", "the list of GPUs"


@dataclass(frozen=True)
class DriverChanged(_TargetChanged):
    code, what = "driver-changed", "the driver"


@dataclass(frozen=True)
class RequirementAdded(_OfTargets):
    code = "requirement-added"
    kind: str
    requirement: str

    @property
    def message(self) -> str:
        return f"{_kind(self.kind)}{self.requirement} was added{self._for}"


@dataclass(frozen=True)
class RequirementRemoved(_OfTargets):
    code = "requirement-removed"
    kind: str
    requirement: str

    @property
    def message(self) -> str:
        return f"{_kind(self.kind)}{self.requirement} was removed{self._for}"


@dataclass(frozen=True)
class RequirementChanged(_OfTargets):
    code = "requirement-changed"
    kind: str
    old: str
    new: str

    @property
    def message(self) -> str:
        return f"{_kind(self.kind)}{self.old} became {self.new}{self._for}"


# The files rendered from the lock. `path` is relative to the lock's folder.


@dataclass(frozen=True)
class RenderedMissing(Reason):
    code = "rendered-missing"
    path: str

    @property
    def message(self) -> str:
        return f"{self.path} is missing"


@dataclass(frozen=True)
class RenderedEdited(Reason):
    code = "rendered-edited"
    path: str

    @property
    def message(self) -> str:
        return f"{self.path} is not what the lock says"


@dataclass(frozen=True)
class RenderedExtra(Reason):
    code = "rendered-extra"
    path: str

    @property
    def message(self) -> str:
        return f"{self.path} belongs to no target of the lock"


def reasons(spec: Spec, lock: Lock) -> tuple[Reason, ...]:
    """Why `lock` is not a lock of `spec` any more; empty when it is. Raises SpecError as `target_inputs` does."""
    shared = [target for target in spec.targets if lock.target(target.name)]
    found: dict[_OfTargets, list[str]] = {}
    for target in shared:
        locked = lock.target(target.name)
        assert locked is not None
        for reason in _of_target(locked.inputs, target_inputs(spec, target)):
            found.setdefault(reason, []).append(target.name)
    wanted = {target.name for target in spec.targets}
    return (
        *_of_spec(spec, lock),
        *(TargetAdded(target.name) for target in spec.targets if lock.target(target.name) is None),
        *(TargetRemoved(target.name) for target in lock if target.name not in wanted),
        *(
            reason if len(names) == len(shared) else replace(reason, targets=tuple(names))
            for reason, names in found.items()
        ),
    )


def image_reasons(spec: Spec, lock: Lock, used: Collection[str]) -> tuple[Reason, ...]:
    """Whether the lock has the digest of a base that the spec no longer names. `used`: the images of its recipes.

    A digest that the lock has not is no reason: no registry may have answered, and the tag stands alone.
    """
    base = spec.image.base
    left = sorted({image.name for image in lock.images} - set(used))
    return () if "@" in base or lock.image(base) or not left else (ImageChanged(", ".join(left), base),)


def rendered_reasons(expected: Mapping[str, str], found: Mapping[str, str]) -> tuple[Reason, ...]:
    """How the rendered files on disk (`found`, text by path) differ from those that the lock gives (`expected`)."""
    out: list[Reason] = []
    for path in sorted({*expected, *found}):
        if path not in found:
            out.append(RenderedMissing(path))
        elif path not in expected:
            out.append(RenderedExtra(path))
        elif expected[path] != found[path]:
            out.append(RenderedEdited(path))
    return tuple(out)


def _of_spec(spec: Spec, lock: Lock) -> Iterator[Reason]:
    old, new = lock.inputs, spec_inputs(spec)
    if lock.name != spec.name:
        yield NameChanged(lock.name, spec.name)
    if old.exclude_newer != new.exclude_newer:
        yield ExcludeNewerChanged(old.exclude_newer, new.exclude_newer)
    added, removed = _difference(old.allow_source, new.allow_source)
    if added or removed:
        yield AllowSourceChanged(added, removed)
    if old.without_corrections != new.without_corrections:
        yield CorrectionsChanged(old.without_corrections, new.without_corrections)
    for package in sorted({*old.sources, *new.sources}):
        if old.sources.get(package) != new.sources.get(package):
            yield SourceChanged(package, old.sources.get(package), new.sources.get(package))
    if old.channels != new.channels:
        yield ChannelsChanged(old.channels, new.channels)


def _of_target(old: TargetInputs, new: TargetInputs) -> Iterator[_OfTargets]:
    if old.platform != new.platform:
        yield PlatformChanged((), old.platform, new.platform)
    if old.python != new.python:
        yield PythonChanged((), old.python, new.python)
    # A platform without glibc says so by its name.
    if old.glibc != new.glibc and old.platform == new.platform:
        yield GlibcChanged((), old.glibc, new.glibc)
    if old.cuda != new.cuda:
        yield CudaChanged((), old.cuda, new.cuda)
    if old.gpus != new.gpus:
        yield GpusChanged((), ", ".join(old.gpus) or None, ", ".join(new.gpus) or None)
    if old.driver != new.driver:
        yield DriverChanged((), old.driver, new.driver)
    yield from _of_requirements("pip", old.requirements, new.requirements, requirement_name)
    yield from _of_requirements("conda", old.conda_requirements, new.conda_requirements, conda_name)


def _of_requirements(
    kind: str, old: tuple[str, ...], new: tuple[str, ...], name_of: Callable[[str], str]
) -> Iterator[_OfTargets]:
    added, removed = _difference(old, new)
    added_by_name, removed_by_name = _by_name(added, name_of), _by_name(removed, name_of)
    for name in sorted({*added_by_name, *removed_by_name}):
        gone, come = removed_by_name.get(name, []), added_by_name.get(name, [])
        if len(gone) == len(come) == 1:
            yield RequirementChanged((), kind, gone[0], come[0])
            continue
        yield from (RequirementRemoved((), kind, text) for text in gone)
        yield from (RequirementAdded((), kind, text) for text in come)


def _by_name(requirements: Iterable[str], name_of: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in requirements:
        found.setdefault(name_of(text), []).append(text)
    return found


def _difference(old: Iterable[str], new: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What was added and what was removed, each sorted."""
    before, after = set(old), set(new)
    return tuple(sorted(after - before)), tuple(sorted(before - after))


def _change(what: str, old: str | None, new: str | None) -> str:
    if old is None:
        return f"{what} was set to {new}"
    if new is None:
        return f"{what} was {old} and is not set any more"
    return f"{what} changed from {old} to {new}"


def _kind(kind: str) -> str:
    return "conda's " if kind == "conda" else ""
