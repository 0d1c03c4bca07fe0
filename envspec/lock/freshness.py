"""Why a lock is stale: each cause has a code for machines, words for people, and details of its type's shape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from envspec.lock.inputs import inputs_in, target_inputs, with_kept_python
from envspec.lock.model import Lock, TargetInputs
from envspec.packages.names import conda_name, requirement_name
from envspec.spec.model import Spec

_WORDS = {
    "lock-missing": "there is no lock yet",
    "name-changed": "the name",
    "exclude-newer-changed": "exclude-newer",
    "image-changed": "the base image",
    "image-python-changed": "the Python of images",
    "channels-changed": "the list of conda channels",
    "target-added": "is not locked yet",
    "target-removed": "is no longer in the spec",
    "platform-changed": "the platform",
    "python-changed": "Python",
    "glibc-changed": "glibc",
    "cuda-changed": "CUDA",
    "gpus-changed": "the list of GPUs",
    "driver-changed": "the driver",
    "cpu-changed": "the oldest kind of processor",
    "inspect-changed": "inspect",
    "requirement-added": "was added",
    "requirement-removed": "was removed",
    "rendered-missing": "is missing",
    "rendered-edited": "differs from what the lock gives",
    "rendered-extra": "belongs to no target of the lock",
    "recipe-missing": "is missing from its recipe",
    "recipe-differs": "differs from what the spec and its lock give",
    "recipe-extra": "belongs to no recipe of the lock",
}
"""The message of a cause, or what its message says about the subject. The other causes write their own sentence."""


@dataclass(frozen=True)
class Reason:
    """The base of all causes. `code` names the cause for machines: one of the type's `codes`. `message` is one line for
    people. The other fields are the cause's details."""

    codes: ClassVar[tuple[str, ...]]
    code: str

    @property
    def message(self) -> str:
        return _WORDS[self.code]


@dataclass(frozen=True)
class LockMissing(Reason):
    codes = ("lock-missing",)


@dataclass(frozen=True)
class LockDamaged(Reason):
    """A lock that can't be read. `problem` is the message of the LockError."""

    codes = ("lock-damaged",)
    problem: str

    @property
    def message(self) -> str:
        return self.problem


# What all targets share.


@dataclass(frozen=True)
class SpecChanged(Reason):
    """A value of the whole spec; None where it isn't set. The image is the one whose digest the lock has."""

    codes = ("name-changed", "exclude-newer-changed", "image-changed", "image-python-changed")
    old: str | None
    new: str | None

    @property
    def message(self) -> str:
        return _change(_WORDS[self.code], self.old, self.new)


@dataclass(frozen=True)
class AllowSourceChanged(Reason):
    codes = ("allow-source-changed",)
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def message(self) -> str:
        changes = [*(f"{name} was added" for name in self.added), *(f"{name} was removed" for name in self.removed)]
        return f"allow-source: {', '.join(changes)}"


@dataclass(frozen=True)
class ListChanged(Reason):
    """A list of the whole spec: the channels, or the corrections of published metadata that the spec switches off."""

    codes = ("corrections-changed", "channels-changed")
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def message(self) -> str:
        old, new = ", ".join(self.old), ", ".join(self.new)
        if self.code == "corrections-changed":
            return f"without-corrections: {old or 'none'} -> {new or 'none'}"
        return _change(_WORDS[self.code], old or None, new or None)


@dataclass(frozen=True)
class SourceChanged(Reason):
    """A package that comes from a different named index, or no longer from a named one."""

    codes = ("source-changed",)
    package: str
    old: str | None
    new: str | None

    @property
    def message(self) -> str:
        return _change(f"the index of {self.package}", self.old, self.new)


# What a target has. `targets` is empty where the reason holds for every target that spec and lock share.


@dataclass(frozen=True)
class TargetCameOrWent(Reason):
    codes = ("target-added", "target-removed")
    target: str

    @property
    def message(self) -> str:
        return f"target {self.target} {_WORDS[self.code]}"


@dataclass(frozen=True)
class _OfTargets(Reason):
    targets: tuple[str, ...]

    @property
    def _for(self) -> str:
        return f" ({', '.join(self.targets)})" if self.targets else ""


@dataclass(frozen=True)
class TargetChanged(_OfTargets):
    """A value of a target; None where it isn't set."""

    codes = (
        *("platform-changed", "python-changed", "glibc-changed", "cuda-changed", "gpus-changed", "driver-changed"),
        *("cpu-changed", "inspect-changed"),
    )
    old: str | None
    new: str | None

    @property
    def message(self) -> str:
        return _change(_WORDS[self.code], self.old, self.new) + self._for


@dataclass(frozen=True)
class RequirementCameOrWent(_OfTargets):
    """`kind` is "pip" or "conda"."""

    codes = ("requirement-added", "requirement-removed")
    kind: str
    requirement: str

    @property
    def message(self) -> str:
        return f"{_kind(self.kind)}{self.requirement} {_WORDS[self.code]}{self._for}"


@dataclass(frozen=True)
class RequirementChanged(_OfTargets):
    codes = ("requirement-changed",)
    kind: str
    old: str
    new: str

    @property
    def message(self) -> str:
        return f"{_kind(self.kind)}{self.old} became {self.new}{self._for}"


@dataclass(frozen=True)
class TermChanged(_OfTargets):
    """A constraint, an override, the page of a flat index, or a finding that is accepted. `name` is what it is about;
    None for what came or went, else its text, page or reason."""

    codes = ("constraint-changed", "override-changed", "find-links-changed", "accept-changed")
    name: str
    old: str | None
    new: str | None

    @property
    def message(self) -> str:
        what = {
            "constraint-changed": f"the constraint {self.name}",
            "override-changed": f"the override {self.name}",
            "find-links-changed": f"the page of {self.name}",
            "accept-changed": f"the accepted finding {self.name}",
        }[self.code]
        if self.old is None:
            text = f"{what} was added"
        elif self.new is None:
            text = f"{what} was removed"
        else:
            reason = ": its reason" if self.code in ("override-changed", "accept-changed") else ""
            text = _change(what + reason, self.old, self.new)
        return text + self._for


@dataclass(frozen=True)
class MetadataChanged(_OfTargets):
    """What the spec states of a package's sources; None where it states nothing."""

    codes = ("metadata-changed",)
    package: str
    old: str | None
    new: str | None

    @property
    def message(self) -> str:
        return _change(f"the metadata of {self.package}", self.old, self.new) + self._for


@dataclass(frozen=True)
class FileDiffers(Reason):
    """A file rendered from the lock (`path` is below the lock's folder) or exported from it (below the recipes')."""

    codes = (
        "rendered-missing",
        "rendered-edited",
        "rendered-extra",
        "recipe-missing",
        "recipe-differs",
        "recipe-extra",
    )
    path: str

    @property
    def message(self) -> str:
        return f"{self.path} {_WORDS[self.code]}"


def reasons(spec: Spec, lock: Lock) -> tuple[Reason, ...]:
    """Return why `lock` is stale for `spec`; empty when it is current. Raises SpecError as `target_inputs` does."""
    spec = with_kept_python(spec, lock)
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
        *(TargetCameOrWent("target-added", target.name) for target in spec.targets if lock.target(target.name) is None),
        *(TargetCameOrWent("target-removed", target.name) for target in lock if target.name not in wanted),
        *(
            reason if len(names) == len(shared) else replace(reason, targets=tuple(names))
            for reason, names in found.items()
        ),
    )


def image_reasons(spec: Spec, lock: Lock, used: Collection[str]) -> tuple[Reason, ...]:
    """Return whether the lock has the digest of a base image that the spec no longer names. `used` are the images of
    the spec's recipes.

    A missing digest doesn't make a lock stale: the registry may not have answered, and then the tag stands alone.
    """
    base = spec.image.base
    left = sorted({image.name for image in lock.images} - set(used))
    return () if "@" in base or lock.image(base) or not left else (SpecChanged("image-changed", ", ".join(left), base),)


def rendered_reasons(expected: Mapping[str, str], found: Mapping[str, str]) -> tuple[Reason, ...]:
    """Return how the rendered files on disk (`found`, text by path) differ from what the lock gives (`expected`)."""
    out: list[Reason] = []
    for path in sorted({*expected, *found}):
        if path not in found:
            out.append(FileDiffers("rendered-missing", path))
        elif path not in expected:
            out.append(FileDiffers("rendered-extra", path))
        elif expected[path] != found[path]:
            out.append(FileDiffers("rendered-edited", path))
    return tuple(out)


def _of_spec(spec: Spec, lock: Lock) -> Iterator[Reason]:
    old, new = lock.inputs, inputs_in(spec, lock)
    if lock.name != spec.name:
        yield SpecChanged("name-changed", lock.name, spec.name)
    if old.exclude_newer != new.exclude_newer:
        yield SpecChanged("exclude-newer-changed", old.exclude_newer, new.exclude_newer)
    if old.image_python != new.image_python:
        yield SpecChanged("image-python-changed", *(one.image_python or "locked" for one in (old, new)))
    added, removed = _difference(old.allow_source, new.allow_source)
    if added or removed:
        yield AllowSourceChanged("allow-source-changed", added, removed)
    if old.without_corrections != new.without_corrections:
        yield ListChanged("corrections-changed", old.without_corrections, new.without_corrections)
    for package in sorted({*old.sources, *new.sources}):
        if old.sources.get(package) != new.sources.get(package):
            yield SourceChanged("source-changed", package, old.sources.get(package), new.sources.get(package))
    if old.channels != new.channels:
        yield ListChanged("channels-changed", old.channels, new.channels)


def _of_metadata(old: TargetInputs, new: TargetInputs) -> Iterator[_OfTargets]:
    before, after = (
        {one.title: ", ".join(one.dependencies) or "nothing" for one in side.metadata} for side in (old, new)
    )
    for title in sorted({*before, *after}):
        if before.get(title) != after.get(title):
            yield MetadataChanged("metadata-changed", (), title, before.get(title), after.get(title))
    for name in sorted({one.name for one in new.metadata}):
        # of one package, the first entry that covers a version counts
        was, now = ([one.title for one in side.metadata if one.name == name] for side in (old, new))
        if was != now and set(was) == set(now):
            yield MetadataChanged("metadata-changed", (), name, ", ".join(was), ", ".join(now))


def _of_target(old: TargetInputs, new: TargetInputs) -> Iterator[_OfTargets]:
    if old.platform != new.platform:
        yield TargetChanged("platform-changed", (), old.platform, new.platform)
    if (old.python, old.python_range) != (new.python, new.python_range):
        yield TargetChanged("python-changed", (), old.python_range or old.python, new.python_range or new.python)
    # A platform without glibc says so by its name.
    if old.glibc != new.glibc and old.platform == new.platform:
        yield TargetChanged("glibc-changed", (), old.glibc, new.glibc)
    machines = (("cuda", old.cuda, new.cuda), ("gpus", ", ".join(old.gpus) or None, ", ".join(new.gpus) or None))
    for name, was, is_now in (*machines, ("driver", old.driver, new.driver), ("cpu", old.cpu, new.cpu)):
        if was != is_now:
            yield TargetChanged(f"{name}-changed", (), was, is_now)
    if old.inspect != new.inspect:
        yield TargetChanged("inspect-changed", (), *("true" if one.inspect else "false" for one in (old, new)))
    yield from _of_requirements("pip", old.requirements, new.requirements, requirement_name)
    yield from _of_requirements("conda", old.conda_requirements, new.conda_requirements, conda_name)
    yield from _of_metadata(old, new)
    yield from _of_terms("constraint-changed", {c: c for c in old.constraints}, {c: c for c in new.constraints})
    yield from _of_terms("override-changed", dict(old.overrides), dict(new.overrides))
    yield from _of_terms("find-links-changed", dict(old.find_links), dict(new.find_links))
    yield from _of_terms("accept-changed", dict(old.accept), dict(new.accept))


def _of_terms(code: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[_OfTargets]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield TermChanged(code, (), name, old.get(name), new.get(name))


def _of_requirements(
    kind: str, old: tuple[str, ...], new: tuple[str, ...], name_of: Callable[[str], str]
) -> Iterator[_OfTargets]:
    added, removed = _difference(old, new)
    added_by_name, removed_by_name = _by_name(added, name_of), _by_name(removed, name_of)
    for name in sorted({*added_by_name, *removed_by_name}):
        gone, come = removed_by_name.get(name, []), added_by_name.get(name, [])
        if len(gone) == len(come) == 1:
            yield RequirementChanged("requirement-changed", (), kind, gone[0], come[0])
            continue
        yield from (RequirementCameOrWent("requirement-removed", (), kind, text) for text in gone)
        yield from (RequirementCameOrWent("requirement-added", (), kind, text) for text in come)


def _by_name(requirements: Iterable[str], name_of: Callable[[str], str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for text in requirements:
        found.setdefault(name_of(text), []).append(text)
    return found


def _difference(old: Iterable[str], new: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what was added and what was removed, each sorted."""
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
