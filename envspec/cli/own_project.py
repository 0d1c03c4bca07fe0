"""Wheels that are built here for another place than this machine, a bundle or an image: those of a spec's own project
and of what its lock has as source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.cli.collecting import collect_conda_too
from envspec.cli.console import say
from envspec.errors import InputError

if TYPE_CHECKING:
    from envspec.install.build import WheelBuilder
    from envspec.lock.judge import SoundLock
    from envspec.lock.model import LockedTarget, Pin
    from envspec.spec.model import Spec


def wheel_builder(spec: Spec, target: LockedTarget, scratch: Path, *, quiet: bool) -> WheelBuilder:
    """Make the builder of a target's wheels; `scratch` is an empty folder of its own."""
    from envspec.install.build import BuildRules, WheelBuilder
    from envspec.install.host import this_host
    from envspec.install.model import SilentInstall
    from envspec.settings import load_settings
    from envspec.uv.program import find_uv

    return WheelBuilder(
        rules=BuildRules.of(spec, target),
        uv=find_uv(os.environ),
        prefix=scratch / "env",
        host=this_host(),
        collect=lambda pins: collect_conda_too(spec, target, pins, quiet=quiet),
        cache=load_settings(os.environ).cache(),
        scratch=scratch,
        progress=SilentInstall(),
    )


def built_project(spec: Spec, target: LockedTarget, scratch: Path, *, quiet: bool) -> Path | None:
    """Build the wheel of the spec's own project in an empty folder; None without one. Raises InputError, IndexFailure,
    ToolError, StorageError."""
    from envspec.install.project import bundled_project
    from envspec.recipes.project import project_of

    project = project_of(spec, target)
    if project is None:
        return None
    say(f"building {project.name}")
    return bundled_project(spec, project, wheel_builder(spec, target, scratch, quiet=quiet))


def built_sources(
    spec: Spec, lock: SoundLock, target: LockedTarget, scratch: Path, use: str, *, quiet: bool
) -> dict[str, tuple[Path, str]]:
    """Build the wheels of what a target's lock has as source, as an installation does, on a machine that the target
    fits. Gives by package the wheel and the key of all that shaped it. `use` is what they are for, with its article.

    Raises InputError where the machine doesn't fit, for a build that nothing says the needs of, and for a wheel that
    needs a newer glibc than the target has; IndexFailure, ToolError, StorageError.
    """
    from envspec.install.collect import refuse_git
    from envspec.install.host import refuse_unfit
    from envspec.lock.conda_files import artifact_of

    sources = [pin for pin in target.pins if pin.kind == "pip" and not pin.is_wheel]
    if not sources:
        return {}
    refuse_git(sources, use)
    builder = wheel_builder(spec, target, scratch, quiet=quiet)
    rules = builder.rules
    refuse_unfit(builder.host, lock, target)
    unknown = [pin.name for pin in sources if not rules.concerns(pin) and pin.built_with is None]
    if unknown:
        raise InputError(
            f"the spec doesn't say what the builds of {', '.join(unknown)} need",
            hint=f'add to [pip], then lock again: build-dependencies = {{ {unknown[0]} = ["setuptools"] }}',
        )
    _make_whole(builder, sources, use)
    files = builder.collect(sources)
    found = {}
    for pin in rules.ordered(sources):
        say(f"building {pin.name} {pin.version}")
        wheel = builder.wheel(pin, files[pin.index, artifact_of(pin).file])
        _refuse_newer_glibc(pin, wheel, target)
        found[pin.name] = (wheel, rules.key(pin, builder.host))
    return found


def _make_whole(builder: WheelBuilder, sources: list[Pin], use: str) -> None:
    """Make the environment that builds without one of their own see."""
    whole = [pin for pin in sources if pin.built_with is None and pin.name in builder.rules.whole]
    if not whole:
        return
    if any(pin.kind == "conda" for pin in builder.rules.target.pins):
        raise InputError(
            f"{whole[0].name} is built against conda's packages, which aren't there while {use} is made",
            hint="publish a wheel of it on an index of your own, or let the machine that installs it build it",
        )
    builder.environment(whole[0].name, builder.rules.seen(whole[0]), builder.prefix)


def _refuse_newer_glibc(pin: Pin, wheel: Path, target: LockedTarget) -> None:
    """Refuse a wheel that was compiled on a newer system than the target's: this machine's glibc is in it."""
    from envspec.link.wheel import MACHINES, read_wheel
    from envspec.packages.version_numbers import numbers_in

    inputs = target.inputs
    if not inputs.glibc or inputs.platform not in MACHINES:
        return
    files = read_wheel(wheel, MACHINES[inputs.platform]).files
    versions = {one for file in files for needed in file.facts.versions for one in needed.versions}
    found = [one.removeprefix("GLIBC_") for one in versions if one.startswith("GLIBC_2")]
    newest = max(found, key=numbers_in, default=inputs.glibc)
    if numbers_in(newest) > numbers_in(inputs.glibc):
        raise InputError(
            f"the wheel of {pin.name} {pin.version} that was built here needs glibc {newest}, and {target.name} is for"
            f" {inputs.glibc}",
            hint=f'build on a system with glibc {inputs.glibc}, or set glibc = "{newest}" for the target',
        )
