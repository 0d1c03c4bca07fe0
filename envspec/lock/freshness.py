"""The reasons why a lock is stale: findings, each cause with a code of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from msgspec.structs import replace

from envspec.base.finding import Finding, merge_targets
from envspec.lock.inputs import SpecCase
from envspec.lock.model import Lock, TargetInputs
from envspec.packages.names import conda_name, requirement_name
from envspec.spec.model import Spec


def reason(code: str, message: str, package: str | None = None, file: str | None = None, **evidence: object) -> Finding:
    """Make the finding of a cause. `evidence` are its details in JSON."""
    return Finding("error", code, message, package=package, file=file, evidence=tuple(evidence.items()))


def _change(code: str, what: str, old: str | None, new: str | None, package: str | None = None) -> Finding:
    """Make the finding of a changed value. None is a value that isn't set."""
    if old is None:
        message = f"{what} was set to {new}"
    elif new is None:
        message = f"{what} was {old} and is not set any more"
    else:
        message = f"{what} changed from {old} to {new}"
    return reason(code, message, package, old=old, new=new)


def _compare(code: str, what: str, old: str | None, new: str | None, package: str | None = None) -> Iterator[Finding]:
    """Make the finding of a value where it changed."""
    if old != new:
        yield _change(code, what, old, new, package)


def reasons(case: SpecCase, lock: Lock) -> tuple[Finding, ...]:
    """Return the reasons why a lock is stale for a spec; empty when it is current. A reason that holds for every common
    target names no target."""
    case = case.beside(lock)
    pairs = {name: (locked.inputs, new) for name, new in case.targets.items() if (locked := lock.target(name))}
    added = [name for name in case.targets if name not in pairs]
    removed = [target.name for target in lock if target.name not in pairs]
    changes = (replace(change, targets=(name,)) for name, pair in pairs.items() for change in _of_target(*pair))
    return (
        *_of_spec(case, lock),
        *(reason("target-added", f"target {name} is not locked yet", target=name) for name in added),
        *(reason("target-removed", f"target {name} is no longer in the spec", target=name) for name in removed),
        *merge_targets(changes, every=list(pairs)),
    )


def concerns_environment(change: Finding, target: str | None) -> bool:
    """Return whether a reason from `reasons` may change the environment of a target, or of any target for None."""
    if change.targets and target is not None and target not in change.targets:
        return False
    evidence = dict(change.evidence or ())
    if change.code == "target-added":
        return target in (None, evidence["target"])
    is_reworded = change.code in ("override-changed", "accept-changed") and None not in (
        evidence["old"],
        evidence["new"],
    )
    return change.code not in ("image-python-changed", "index-address-changed") and not is_reworded


def image_reasons(spec: Spec, lock: Lock, used: Collection[str]) -> tuple[Finding, ...]:
    """Return the finding that the lock has the digest of a base image that the spec no longer names; empty without one.
    `used` are the images of the spec's recipes.

    A missing digest doesn't make a lock stale: the registry may not have answered, and then the tag stands alone.
    """
    base = spec.image.base
    left = sorted({image.name for image in lock.images} - set(used))
    if "@" in base or lock.image(base) or not left:
        return ()
    return (_change("image-changed", "the base image", ", ".join(left), base),)


def rendered_reasons(expected: Mapping[str, str], actual: Mapping[str, str]) -> tuple[Finding, ...]:
    """Return the differences of the rendered files on disk (`actual`, text by path) from those that the lock gives
    (`expected`)."""
    out: list[Finding] = []
    for path in sorted({*expected, *actual}):
        if path not in actual:
            out.append(reason("rendered-missing", f"{path} is missing", file=path))
        elif path not in expected:
            out.append(reason("rendered-extra", f"{path} belongs to no target of the lock", file=path))
        elif expected[path] != actual[path]:
            message = f"{path} differs from what the lock gives"
            out.append(differing("rendered-edited", path, message, expected[path], actual[path]))
    return tuple(out)


def differing(code: str, path: str, message: str, expected: str, actual: str) -> Finding:
    """Make the finding of a file whose text isn't the expected one, with its first differing line, counted from 1."""
    lines, expected_lines = actual.splitlines(), expected.splitlines()
    # a file that only goes on, or ends too early, differs where the shorter one ends
    common = min(len(lines), len(expected_lines))
    number = next((at for at in range(common) if lines[at] != expected_lines[at]), common)
    line = lines[number].strip() if number < len(lines) else ""
    where = f'at line {number + 1}: "{line[:100]}"' if line else f"at line {number + 1}"
    return reason(code, f"{message}, first {where}", file=path, line=number + 1)


def _of_spec(case: SpecCase, lock: Lock) -> Iterator[Finding]:
    old, new = lock.inputs, case.shared
    yield from _compare("name-changed", "the name", lock.name, case.spec.name)
    yield from _compare("exclude-newer-changed", "exclude-newer", old.exclude_newer, new.exclude_newer)
    # what differs may read alike
    if old.image_python != new.image_python:
        pythons = (inputs.image_python or "locked" for inputs in (old, new))
        yield _change("image-python-changed", "the Python of images", *pythons)
    if old.base != new.base:
        yield _change("base-changed", "the base", *(str(inputs.base) if inputs.base else None for inputs in (old, new)))
    added, removed = _difference(old.allow_source, new.allow_source)
    if added or removed:
        changes = [*(f"{name} was added" for name in added), *(f"{name} was removed" for name in removed)]
        yield reason("allow-source-changed", f"allow-source: {', '.join(changes)}", added=added, removed=removed)
    if old.without_corrections != new.without_corrections:
        message = " -> ".join(", ".join(inputs.without_corrections) or "none" for inputs in (old, new))
        yield reason(
            "corrections-changed",
            f"without-corrections: {message}",
            old=old.without_corrections,
            new=new.without_corrections,
        )
    for package in sorted({*old.sources, *new.sources}):
        old_index, new_index = old.sources.get(package), new.sources.get(package)
        yield from _compare("source-changed", f"the index of {package}", old_index, new_index, package)
    if old.channels != new.channels:
        listed = (", ".join(inputs.channels) or None for inputs in (old, new))
        channels = _change("channels-changed", "the list of conda channels", *listed)
        yield replace(channels, evidence=(("old", old.channels), ("new", new.channels)))


def _of_metadata(old: TargetInputs, new: TargetInputs) -> Iterator[Finding]:
    before, after = (
        {stated.title: ", ".join(stated.dependencies) or "nothing" for stated in side.metadata} for side in (old, new)
    )
    for title in sorted({*before, *after}):
        yield from _compare("metadata-changed", f"the metadata of {title}", before.get(title), after.get(title), title)
    for name in sorted({stated.name for stated in new.metadata}):
        # of one package, the first entry that covers a version counts
        old_titles, new_titles = (
            [stated.title for stated in side.metadata if stated.name == name] for side in (old, new)
        )
        if old_titles != new_titles and set(old_titles) == set(new_titles):
            yield _change(
                "metadata-changed", f"the metadata of {name}", ", ".join(old_titles), ", ".join(new_titles), name
            )


def _of_target(old: TargetInputs, new: TargetInputs) -> Iterator[Finding]:
    yield from _compare("platform-changed", "the platform", old.platform, new.platform)
    if (old.python, old.python_range) != (new.python, new.python_range):
        yield _change("python-changed", "Python", *(inputs.python_range or inputs.python for inputs in (old, new)))
    # A platform without glibc says so by its name.
    glibc = old.glibc if old.platform == new.platform else new.glibc
    yield from _compare("glibc-changed", "glibc", glibc, new.glibc)
    yield from _compare("cuda-changed", "CUDA", old.cuda, new.cuda)
    old_gpus, new_gpus = (", ".join(inputs.gpus) or None for inputs in (old, new))
    yield from _compare("gpus-changed", "the list of GPUs", old_gpus, new_gpus)
    yield from _compare("driver-changed", "the driver", old.driver, new.driver)
    yield from _compare("cpu-changed", "the oldest kind of processor", old.cpu, new.cpu)
    yield from _compare("inspect-changed", "inspect", str(old.inspect).lower(), str(new.inspect).lower())
    yield from _of_requirements("pip", old.requirements, new.requirements, requirement_name)
    yield from _of_requirements("conda", old.conda_requirements, new.conda_requirements, conda_name)
    yield from _of_metadata(old, new)
    before, after = ({constraint: constraint for constraint in side.constraints} for side in (old, new))
    yield from _of_terms("constraint-changed", "the constraint", before, after)
    yield from _of_terms("override-changed", "the override", dict(old.overrides), dict(new.overrides), ": its reason")
    yield from _of_terms("find-links-changed", "the page of", dict(old.find_links), dict(new.find_links))
    yield from _of_terms("index-address-changed", "the address of", dict(old.addresses), dict(new.addresses))
    yield from _of_terms("accept-changed", "the accepted finding", dict(old.accept), dict(new.accept), ": its reason")


def _of_terms(
    code: str, what: str, old: Mapping[str, str], new: Mapping[str, str], changes: str = ""
) -> Iterator[Finding]:
    """Compare constraints, overrides, pages of flat indexes or accepted findings, by name: their texts, pages or
    reasons. The message puts `changes` behind the name: the part that changed."""
    for name in sorted({*old, *new}):
        old_value, new_value = old.get(name), new.get(name)
        if old_value == new_value:
            continue
        if old_value is not None and new_value is not None:
            message = f"{what} {name}{changes} changed from {old_value} to {new_value}"
        else:
            message = f"{what} {name} was {'added' if old_value is None else 'removed'}"
        yield reason(code, message, name=name, old=old_value, new=new_value)


def _of_requirements(
    kind: str, old: tuple[str, ...], new: tuple[str, ...], name_of: Callable[[str], str]
) -> Iterator[Finding]:
    owner = "conda's " if kind == "conda" else ""
    added, removed = _difference(old, new)
    added_by_name, removed_by_name = _by_name(added, name_of), _by_name(removed, name_of)
    for name in sorted({*added_by_name, *removed_by_name}):
        removed_texts, added_texts = removed_by_name.get(name, []), added_by_name.get(name, [])
        if len(removed_texts) == len(added_texts) == 1:
            message = f"{owner}{removed_texts[0]} became {added_texts[0]}"
            yield reason("requirement-changed", message, kind=kind, old=removed_texts[0], new=added_texts[0])
            continue
        for text in removed_texts:
            yield reason("requirement-removed", f"{owner}{text} was removed", kind=kind, requirement=text)
        for text in added_texts:
            yield reason("requirement-added", f"{owner}{text} was added", kind=kind, requirement=text)


def _by_name(requirements: Iterable[str], name_of: Callable[[str], str]) -> dict[str, list[str]]:
    by_name: dict[str, list[str]] = {}
    for text in requirements:
        by_name.setdefault(name_of(text), []).append(text)
    return by_name


def _difference(old: Iterable[str], new: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what was added and what was removed, each sorted."""
    before, after = set(old), set(new)
    return tuple(sorted(after - before)), tuple(sorted(before - after))
