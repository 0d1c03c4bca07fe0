"""A lock as `git diff` shows it: one short line per package, so that a new version is one line out and one in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from envspec.base.texts import printable
from envspec.lock.model import Lock, LockedTarget, Pin, TargetInputs
from envspec.packages.stated import StatedMetadata

HASH_DIGITS = 16
"""Digits of a hash to show: enough that a different file gives a different line."""


def readable(lock: Lock) -> str:
    """Render a lock for `git diff`: its inputs, its targets, then its packages, each list sorted.

    A package has one line for each of its files that a target installs. Targets are named where not all of them have
    the file. Requirements are left out: `envspec diff` shows those.
    """
    shared = lock.inputs
    out = [f"{lock.name}\n"]
    if shared.exclude_newer:
        out.append(f"exclude-newer {shared.exclude_newer}\n")
    if shared.image_python:
        out.append(f"image-python {shared.image_python}\n")
    out.extend(f"channel {channel}\n" for channel in shared.channels)
    out.extend(f"allow-source {name}\n" for name in sorted(shared.allow_source))
    out.extend(f"without-correction {name}\n" for name in sorted(shared.without_corrections))
    out.extend(f"source {package} {index}\n" for package, index in sorted(shared.sources.items()))
    out.extend(
        f"correction {correction.package} {correction.version} {correction.constraint}\n"
        for correction in lock.corrections
    )
    out.extend(f"image {image.name}  {image.digest[: len('sha256:') + HASH_DIGITS]}\n" for image in lock.images)
    out.extend(
        f"python {python.platform} {python.version}  {python.file}  {python.sha256[:HASH_DIGITS]}\n"
        for python in lock.pythons
    )
    out.append("\n")
    out.extend(f"target {_target(target)}\n" for target in lock)
    out.append("\n")
    out.extend(_requirements(lock, "requires", lambda inputs: inputs.requirements))
    out.extend(_requirements(lock, "requires-conda", lambda inputs: inputs.conda_requirements))
    out.extend(_requirements(lock, "constraint", lambda inputs: inputs.constraints))
    out.extend(_requirements(lock, "override", lambda inputs: list(map(_with_reason, inputs.overrides))))
    out.extend(_requirements(lock, "find-links", lambda inputs: [" ".join(link) for link in inputs.find_links]))
    out.extend(_requirements(lock, "address", lambda inputs: [" ".join(pair) for pair in inputs.addresses]))
    out.extend(_requirements(lock, "metadata", lambda inputs: list(map(_metadata_line, inputs.metadata))))
    out.extend(_requirements(lock, "accept", lambda inputs: list(map(_with_reason, inputs.accept))))
    out.append("\n")
    out.extend(_packages(lock))
    # names, URLs and licences are whatever their makers wrote, and git hands them on to a terminal
    return "".join(f"{printable(line[:-1])}\n" for line in out)


def _target(target: LockedTarget) -> str:
    inputs = target.inputs
    parts = [inputs.platform, f"Python {inputs.python}"]
    parts += [f"glibc {inputs.glibc}"] if inputs.glibc else []
    parts += [f"CUDA {inputs.cuda}"] if inputs.cuda else []
    parts += [" ".join(inputs.gpus)] if inputs.gpus else []
    parts += [" ".join(target.architectures)] if target.architectures else []
    parts += [f"driver {inputs.driver}"] if inputs.driver else []
    parts += [] if inputs.inspect else ["inspect = false"]
    parts += [f"driver floor {target.driver_floor}"] if target.driver_floor else []
    return f"{target.name}: {', '.join(parts)}"


def _requirements(lock: Lock, word: str, of: Callable[[TargetInputs], Sequence[str]]) -> list[str]:
    holders: dict[str, list[str]] = {}
    for target in lock:
        for text in of(target.inputs):
            holders.setdefault(text, []).append(target.name)
    return [f"{word} {text}{_where(lock, names)}\n" for text, names in sorted(holders.items())]


def _metadata_line(metadata: StatedMetadata) -> str:
    return f"{metadata.title} requires {', '.join(metadata.dependencies)}"


def _with_reason(pair: tuple[str, str]) -> str:
    return f"{pair[0]}  because {pair[1]}"


def _packages(lock: Lock) -> list[str]:
    holders: dict[tuple[str, str, str], list[str]] = {}
    for target in lock:
        for pin in target.pins:
            holders.setdefault((pin.kind, pin.name, _pin(pin)), []).append(target.name)
    return [f"{kind} {text}{_where(lock, names)}\n" for (kind, _, text), names in sorted(holders.items())]


def _pin(pin: Pin) -> str:
    parts = [f"{pin.name} {pin.version}"]
    parts += [pin.build] if pin.build else []
    if pin.git:
        folder = f" {pin.git.subdirectory}" if pin.git.subdirectory else ""
        parts.append(f"{pin.git.url} {pin.git.commit[:HASH_DIGITS]}{folder}")
    else:
        parts.append(pin.url or pin.index)
    if pin.artifact:
        parts += ["sdist"] if pin.kind == "pip" and not pin.is_wheel else []
        parts.append(f"sha256:{pin.artifact.sha256[:HASH_DIGITS]}")
    parts += [pin.licence] if pin.licence else []
    parts += ["direct"] if pin.direct else []
    return "  ".join(parts)


def _where(lock: Lock, names: Sequence[str]) -> str:
    return "" if len(names) == len(lock.targets) else f"  [{', '.join(names)}]"
