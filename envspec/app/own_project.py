"""Wheels that are built here for another place than this machine, a bundle or an image: those of a spec's own project
and of what its lock has as source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from envspec.app.collecting import collect_conda_too
from envspec.app.observer import say
from envspec.base.errors import InputError
from envspec.base.progress import Progress
from envspec.configuration.settings import load_settings
from envspec.export.environment import project_of
from envspec.install.build import BuildRules, BuiltWheels, WheelBuilder
from envspec.install.collect import refuse_git
from envspec.install.host import refuse_unfit, this_host
from envspec.install.project import build_for_bundle
from envspec.lock.conda_files import file_key
from envspec.lock.model import LockedTarget, Pin, SoundLock
from envspec.packages.version_numbers import numbers_in
from envspec.prove.link.store import MACHINES, read_wheel
from envspec.resolve.uv.program import find_uv
from envspec.spec.model import Spec


def wheel_builder(spec: Spec, target: LockedTarget, scratch: Path) -> WheelBuilder:
    """Make the builder of a target's wheels; `scratch` is an empty folder of its own."""
    return WheelBuilder(
        rules=BuildRules.of(spec, target),
        uv=find_uv(os.environ),
        prefix=scratch / "env",
        host=this_host(),
        collect=lambda pins: collect_conda_too(spec, target, pins),
        cache=load_settings(os.environ).cache(),
        scratch=scratch,
        progress=Progress(),
    )


def build_project(spec: Spec, target: LockedTarget, scratch: Path) -> Path | None:
    """Build the wheel of the spec's own project in an empty folder; None without one. Raises InputError, IndexFailure,
    ToolError, StorageError."""
    project = project_of(spec, target)
    if project is None:
        return None
    say(f"building {project.name}")
    return build_for_bundle(spec, project, wheel_builder(spec, target, scratch))


def built_sources(
    spec: Spec, lock: SoundLock, target: LockedTarget, scratch: Path, use: str, *, building: bool = True
) -> dict[str, tuple[Path, str]]:
    """Give the wheels of what a target's lock has as source, by package, each with the key of all that shaped it: those
    that were built here for this very lock; with `building` the others are built now, as an installation does.
    `use` is what they are for, with its article.

    Raises InputError for a wheel that isn't there, where the machine doesn't fit the target, and for a build that
    nothing says the needs of; IndexFailure, ToolError, StorageError.
    """
    sources = [pin for pin in target.pins if pin.kind == "pip" and not pin.is_wheel]
    if not sources:
        return {}
    refuse_git(sources, use)
    builder = wheel_builder(spec, target, scratch)
    rules, stored = builder.rules, BuiltWheels(builder.cache)
    known = [pin for pin in sources if rules.concerns(pin) or pin.built_with is not None]
    keys = {pin.name: rules.key(pin, builder.host) for pin in known}
    built = {name: (wheel, key) for name, key in keys.items() if (wheel := stored.find(key))}
    lacking = [pin for pin in sources if pin.name not in built]
    if not lacking:
        return built
    if not building:
        names = ", ".join(pin.name for pin in lacking)
        raise InputError(
            f"{use} is made of wheels, the lock of {target.name} has {names} as source, and no wheel of that was"
            " built here for this lock",
            hint="`--build-sources` builds it on this machine; or publish wheels of it on an index of your own",
        )
    refuse_unfit(builder.host, lock, target)
    unknown = [pin.name for pin in lacking if pin.name not in keys]
    if unknown:
        hint = f'add to [pip], then lock again: build-dependencies = {{ {unknown[0]} = ["setuptools"] }}'
        raise InputError(f"the spec doesn't say what the builds of {', '.join(unknown)} need", hint=hint)
    _make_whole(builder, lacking, use)
    files = builder.collect(lacking)
    for pin in rules.in_order(lacking):
        say(f"building {pin.name} {pin.version}")
        built[pin.name] = (builder.wheel(pin, files[file_key(pin)]), keys[pin.name])
    return built


def _make_whole(builder: WheelBuilder, sources: list[Pin], use: str) -> None:
    """Make the environment for builds that have none of their own."""
    whole = [pin for pin in sources if pin.built_with is None and pin.name in builder.rules.whole]
    if not whole:
        return
    if any(pin.kind == "conda" for pin in builder.rules.target.pins):
        raise InputError(
            f"{whole[0].name} is built against conda's packages, which aren't there while {use} is made",
            hint="publish a wheel of it on an index of your own, or let the machine that installs it build it",
        )
    builder.environment(whole[0].name, builder.rules.visible_pins(whole[0]), builder.prefix)


def refuse_newer_glibc(target: LockedTarget, built: Mapping[str, Path]) -> None:
    """Raise InputError for wheels that were compiled on a newer system than the target's: its glibc is in them.
    `built` are wheels by package."""
    inputs = target.inputs
    if not inputs.glibc or inputs.platform not in MACHINES:
        return
    for name, wheel in built.items():
        files = read_wheel(wheel, MACHINES[inputs.platform]).files
        versions = {version for file in files for needed in file.facts.versions for version in needed.versions}
        glibcs = [version.removeprefix("GLIBC_") for version in versions if version.startswith("GLIBC_2")]
        newest = max(glibcs, key=numbers_in, default=inputs.glibc)
        if numbers_in(newest) > numbers_in(inputs.glibc):
            raise InputError(
                f"{name} was compiled here for glibc {newest}, and {target.name} is for {inputs.glibc}",
                hint=f'build on a system with glibc {inputs.glibc}, or set glibc = "{newest}" for the target',
            )
