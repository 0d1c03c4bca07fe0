"""The lock as text. The same lock gives the same bytes, whatever order its values came in.

The measure of the format is a pull request. A package stands once, for any number of targets; a value that differs
between targets names its targets in place; every list that may grow has one item a line. So a new version is one hunk.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import asdict

from envspec.base.errors import InternalError
from envspec.lock.listed import Shared, metadata_table, same_metadata, shared_items, write_lists
from envspec.lock.model import (
    LOCK_VERSION,
    Artifact,
    BaseInputs,
    BuildPin,
    GitSource,
    Lock,
    LockedBase,
    LockedCorrection,
    LockedPython,
    LockedTarget,
    Pin,
    Publisher,
)
from envspec.lock.toml_text import inline_strings, key, string, value as inline
from envspec.packages.stated import StatedMetadata
from envspec.packages.version_numbers import code_order

HEADER = "# Locked from the spec by `envspec lock`. Not for editing: change the spec, then lock again.\n"

READ_BY = "# Read by envspec 0.1.0 and newer.\n"
"""The line by which an older envspec names the release that reads the schema."""

Value = TypeVar("Value")
Row = BuildPin | GitSource | LockedBase | LockedCorrection | LockedPython | Publisher
"""Values that are written as tables of their fields."""


def dumps(lock: Lock) -> str:
    """Return the text of `envspec.lock`. Raises InternalError for a lock that no file can hold."""
    targets = sorted(lock.targets, key=lambda target: target.name)
    names = [target.name for target in targets]
    if not names or len(set(names)) != len(names):
        raise InternalError(f"the lock of {lock.name} needs targets, each with its own name: {names}")
    out: list[str] = []
    every = [target.inputs for target in targets]
    shared, same = shared_items(every), same_metadata(every)
    _write_env(out, lock, shared, every[0].metadata if same else ())
    _write_base(out, lock.inputs.base)
    _write_images(out, lock)
    _write_rows(out, "inventory", lock.bases)
    for target in targets:
        _write_target(out, target, shared, () if same else target.inputs.metadata)
    _write_rows(out, "python", lock.pythons)
    _write_rows(out, "corrections", lock.corrections)
    for pins in _merge_pins(targets):
        _write_package(out, pins, len(names))
    text = f"{HEADER}{READ_BY}lock-version = {LOCK_VERSION}\n" + "".join(out)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InternalError(f"the lock of {lock.name} holds text that is not Unicode: {error.object[:80]!r}") from None
    return text


def digest(lock: Lock) -> str:
    """Return `sha256:` and the digest of the lock's text, as `sha256sum envspec.lock` prints it."""
    return digest_of(dumps(lock).encode())


def digest_of(content: bytes) -> str:
    """Give `sha256:` and the digest of a content."""
    import hashlib  # brings OpenSSL, and reading a lock takes no digest

    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _write_rows(out: list[str], header: str, rows: Iterable[Row]) -> None:
    """Write a table for each row."""
    for row in in_order(rows):
        out.append(f"\n[[{header}]]\n")
        out.extend(f"{name} = {inline(value)}\n" for name, value in known_fields(row).items())


def _write_values(out: list[str], values: Mapping[str, object]) -> None:
    """Write keys with their values, except unknown and empty ones."""
    out.extend(f"{name} = {inline(value)}\n" for name, value in values.items() if value not in (None, (), []))


def _write_lines(out: list[str], key: str, lines: Collection[str], *, empty: bool = False) -> None:
    """Write an array of ready TOML values, one a line. Without values write nothing, or `[]` if `empty` is set."""
    if empty and not lines:
        out.append(f"{key} = []\n")
    if lines:
        out.append(f"{key} = [\n")
        out.extend(f"  {line},\n" for line in lines)
        out.append("]\n")


def _write_metadata(out: list[str], metadata: Iterable[StatedMetadata]) -> None:
    _write_lines(out, "metadata", [inline(metadata_table(stated)) for stated in metadata])


def _write_env(out: list[str], lock: Lock, shared: Shared, metadata: Iterable[StatedMetadata]) -> None:
    inputs = lock.inputs
    out.append("\n[env]\n")
    _write_values(out, env_head(lock))
    _write_metadata(out, metadata)
    _write_values(out, {"without-corrections": inputs.without_corrections, "channels": inputs.channels})
    write_lists(partial(_write_lines, out), lambda listed: shared[listed.key])
    if inputs.sources:
        out.append("\n[env.sources]\n")
        out.extend(f"{key(name)} = {string(index)}\n" for name, index in sorted(inputs.sources.items()))


def _write_base(out: list[str], base: BaseInputs | None) -> None:
    if base is not None:
        out.append(f"\n[base]\n{base.kind} = {string(base.place)}\n")
        if base.replace:
            out.append(f"replace = {inline(dict(base.replace))}\n")


def _write_images(out: list[str], lock: Lock) -> None:
    images = sorted(lock.images, key=lambda image: image.name)
    if len({image.name for image in images}) != len(images):
        raise InternalError(f"the lock of {lock.name} has an image twice: {[image.name for image in images]}")
    if images:
        out.append("\n[images]\n")
        out.extend(f"{key(image.name)} = {string(image.digest)}\n" for image in images)


def _write_target(out: list[str], target: LockedTarget, shared: Shared, metadata: Iterable[StatedMetadata]) -> None:
    inputs = target.inputs
    out.append(f"\n[targets.{key(target.name)}]\n")
    _write_values(out, target_head(target))
    _write_metadata(out, metadata)
    if not inputs.inspect:
        out.append("inspect = false\n")
    write_lists(partial(_write_lines, out), lambda listed: set(listed.of(inputs)) - shared[listed.key])


_Pins = Mapping[str, Pin]
"""The pins that make one package of the file, by target."""


def _merge_pins(targets: Sequence[LockedTarget]) -> list[_Pins]:
    """Return the pins of all targets, grouped by package, in the file's order."""
    packages: dict[tuple[object, ...], dict[str, Pin]] = {}
    for target in targets:
        seen: set[tuple[str, str]] = set()
        for pin in target.pins:
            if (pin.kind, pin.name) in seen or pin.kind not in ("conda", "pip"):
                raise InternalError(f"{target.name} pins the {pin.kind} package {pin.name} more than once, or oddly")
            seen.add((pin.kind, pin.name))
            identity = (
                pin.kind,
                pin.name,
                pin.version,
                pin.index,
                pin.build,
                pin.url,
                pin.git,
                pin.licence,
                pin.requires_python,
                pin.provides,
                pin.publisher,
                pin.built_with is None,
            )
            packages.setdefault(identity, {})[target.name] = pin
    # `repr` orders values of different types, such as None and a text.
    return [packages[identity] for identity in sorted(packages, key=lambda i: (*i[:4], repr(i[4:])))]


def _write_package(out: list[str], pins: _Pins, target_count: int) -> None:
    first = next(iter(pins.values()))
    out.append(f"\n[[{first.kind}]]\n")
    _write_values(out, package_head(first))
    direct = [name for name, pin in pins.items() if pin.direct]
    if direct:
        out.append("direct = true\n" if len(direct) == len(pins) else f"direct = {inline_strings(direct)}\n")
    _write_values(out, {"targets": list(pins) if len(pins) < target_count else [], "provides": first.provides})
    _write_lines(out, "dependencies", _text_lines(pins, "requires", lambda pin: pin.dependencies))
    _write_lines(out, "overwrites", _text_lines(pins, "package", lambda pin: pin.overwrites))
    code = _text_lines(pins, "holds", lambda pin: pin.code, code_order)
    if all(pin.code == first.code for pin in pins.values()):
        out.extend(f"code = [{', '.join(code)}]\n" for _ in code[:1])
    else:
        _write_lines(out, "code", code)
    if first.built_with is not None:
        # a build that needs nothing is another thing than one of which nothing is known
        _write_lines(out, "built-with", _build_pin_lines(pins), empty=True)
    _write_lines(out, "artifacts", _artifact_lines(pins))


def _by_value(pins: _Pins, values: Iterable[tuple[str, Iterable[Value]]]) -> dict[Value, list[str] | None]:
    """Return each value with the targets that have it; None where all of the package's targets do."""
    holders: dict[Value, list[str]] = {}
    for target, of_target in values:
        for value in of_target:
            holders.setdefault(value, []).append(target)
    return {value: None if len(names) == len(pins) else names for value, names in holders.items()}


def _text_lines(
    pins: _Pins, key: str, texts_of: Callable[[Pin], tuple[str, ...]], order: Callable[[str], Any] | None = None
) -> list[str]:
    """Write texts, each with the targets that have it and under a key where not all do."""
    first = texts_of(next(iter(pins.values())))
    if all(texts_of(pin) == first for pin in pins.values()):
        return [string(text) for text in sorted(set(first), key=order)]
    holders = _by_value(pins, ((target, set(texts_of(pin))) for target, pin in pins.items()))
    return [
        string(text) if names is None else f"{{ {key} = {string(text)}, targets = {inline_strings(names)} }}"
        for text, names in ((text, holders[text]) for text in sorted(holders, key=order))
    ]


def _artifact_lines(pins: _Pins) -> list[str]:
    first = next(iter(pins.values())).artifact
    # targets that agree share the value
    if all(pin.artifact is first or pin.artifact == first for pin in pins.values()):
        return [] if first is None else [_artifact(first, None)]
    holders = _by_value(pins, ((name, [pin.artifact] if pin.artifact else []) for name, pin in pins.items()))
    ordered = sorted(holders.items(), key=lambda pair: (pair[0].file, pair[0].sha256, repr(pair[0])))
    return [_artifact(artifact, names) for artifact, names in ordered]


def _build_pin_lines(pins: _Pins) -> list[str]:
    holders = _by_value(pins, ((target, pin.built_with or ()) for target, pin in pins.items()))
    return [_row(known_fields(wheel), holders[wheel]) for wheel in in_order(holders)]


def _artifact(artifact: Artifact, targets: Sequence[str] | None) -> str:
    return _row(artifact_table(artifact), targets)


def _row(table: Mapping[str, object], targets: Sequence[str] | None) -> str:
    return inline({**table, **({} if targets is None else {"targets": targets})})


def env_head(lock: Lock) -> dict[str, object]:
    """Return the first values of `[env]`; one that isn't known is None."""
    inputs = lock.inputs
    return {
        "name": lock.name,
        "exclude-newer": inputs.exclude_newer,
        "image-python": inputs.image_python,
        "allow-source": list(inputs.allow_source),
    }


def target_head(target: LockedTarget) -> dict[str, object]:
    """Return the first values of a target's table; one that isn't known is None."""
    own = target.inputs
    architectures, lower_bound = target.as_locked or (target.architectures, target.driver_floor)
    return {
        "platform": own.platform,
        "python": own.python,
        "python-range": own.python_range,
        "glibc": own.glibc,
        "cuda": own.cuda,
        "gpus": list(own.gpus),
        "architectures": list(architectures),
        "driver": own.driver,
        "cpu": own.cpu,
        "driver-floor": lower_bound,
    }


def package_head(pin: Pin) -> dict[str, object]:
    """Return the first values of a package's table, which all of its targets share; one that isn't known is None."""
    return {
        "name": pin.name,
        "version": pin.version,
        "build": pin.build,
        "index": pin.index,
        "url": pin.url,
        "git": pin.git and known_fields(pin.git),
        "licence": pin.licence,
        "requires-python": pin.requires_python,
        "publisher": pin.publisher and known_fields(pin.publisher),
    }


def artifact_table(artifact: Artifact) -> dict[str, object]:
    """Return an artifact as values of an inline table."""
    variant = artifact.variant
    known = {
        "file": artifact.file,
        "sha256": artifact.sha256,
        "md5": artifact.md5,
        "size": artifact.size,
        "variant": variant and variant.label,
        "properties": list(variant.properties) or None if variant else None,
        "priorities": list(variant.priorities) or None if variant else None,
        "inert": artifact.inert or None,
    }
    return {name: value for name, value in known.items() if value is not None}


def known_fields(row: Row) -> dict[str, object]:
    """Return the fields of a row that are known, by name, in their order."""
    return {name: value for name, value in asdict(row).items() if value is not None}


RowOf = TypeVar("RowOf", bound=Row)


def in_order(rows: Iterable[RowOf]) -> list[RowOf]:
    """Return each row once, sorted by its fields."""
    return sorted(set(rows), key=lambda row: [str(value) for value in known_fields(row).values()])
