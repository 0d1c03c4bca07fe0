"""`envspec bundle`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app import inputs
from envspec.app.cache_size import keep_bounded
from envspec.app.collecting import collect_conda_too
from envspec.app.observer import observer
from envspec.app.outputs import written
from envspec.base.errors import InputError, Place
from envspec.base.texts import byte_size
from envspec.cli import options
from envspec.cli.console import out, say, warn

if TYPE_CHECKING:
    from envspec.app.bundle_base import BundledBase
    from envspec.install.build import BuildRules
    from envspec.lock.judge import SoundLock
    from envspec.lock.model import LockedPython, LockedTarget
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec bundle specs/mm-v2.9.toml --target cpu -o mm-cpu.tar
  tar xf mm-cpu.tar && sh install.sh ~/envs/mm       (on the machine without internet)
  envspec bundle specs/mm-v2.9.toml --target cu128-hopper --build-wheels --with-base --base ./base -o mm.tar
  envspec bundle specs/mm-v2.9.toml --target cpu --since mm-cpu.tar -o mm-cpu-2.tar
"""


@click.command(epilog=EPILOG)
@options.spec
@click.option(
    "--target",
    "-t",
    metavar="NAME",
    shell_complete=options.complete("target_names"),
    help="The target to bundle; needed only when the lock has several.",
)
@click.option("--output", "-o", "output", type=click.Path(path_type=Path), required=True, help="The tar file to write.")
@click.option(
    "--since",
    metavar="OLD",
    type=click.Path(path_type=Path),
    help="An earlier bundle, its SHA256SUMS or its lock: leave out what it holds.",
)
@click.option(
    "--build-wheels",
    is_flag=True,
    help="Build wheels of what is locked as source here, so that the other machine compiles nothing.",
)
@click.option(
    "--with-base",
    is_flag=True,
    help="Bring the image's base too, with a definition for Apptainer that needs no network.",
)
@click.option(
    "--base",
    metavar="WHERE",
    help="That base: an OCI layout's folder, or an image's name with its digest [default: the spec's, as locked].",
)
@options.locks_dir
@options.as_json
def command(
    path: str,
    target: str | None,
    output: Path,
    since: Path | None,
    build_wheels: bool,
    with_base: bool,
    base: str | None,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """Put all files of a target into one tar, for a machine without internet

    envspec checks every file against its hash and looks through it. The tar holds the target's slice of the lock, the
    wheels (and conda packages), the lock's build of Python, the smoke check, and `install.sh`, which makes the
    environment without envspec and without a network. envspec prints the bundle's digest, which `install.sh --expect`
    takes.
    """
    from envspec.app.malicious import refuse_malicious
    from envspec.app.policy import refuse_fetched
    from envspec.base.scratch import scratch_folder
    from envspec.base.settings import load_settings
    from envspec.install.build import BuildRules
    from envspec.install.bundle import (
        DEFINITION,
        INSTALLER,
        LIMITS,
        LOOK,
        SUMS,
        held_by,
        place_of,
        with_wheels,
        write_bundle,
    )
    from envspec.install.collect import refuse_git

    spec, lock = inputs.read_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = inputs.one_target(lock, target)
    if not chosen.inputs.platform.startswith("linux-"):
        raise InputError(
            f"a bundle is for Linux, and the target {chosen.name} is for {chosen.inputs.platform}",
            hint="choose another target with --target, or use `envspec install` on the machine itself",
            place=Place(path),
        )
    inputs.tell_lacking_compat(spec, (chosen,), "the bundle")
    refuse_fetched(spec, lock, chosen, path, offline=False)
    refuse_malicious(spec, (chosen,), path, offline=False)
    refuse_git(chosen.pins, "a bundle")
    if base is not None and not with_base:
        raise InputError("--base says which base a bundle brings, and this one brings none", hint="add --with-base")
    if since is not None and with_base:
        raise InputError("an image is made from a whole bundle, and --since leaves files out", hint="give one of both")
    rules = BuildRules.of(spec, chosen)
    sources = [pin.name for pin in chosen.pins if pin.kind == "pip" and not pin.is_wheel and not rules.concerns(pin)]
    compiled = [pin.name for pin in chosen.pins if rules.concerns(pin)]
    if (sources or compiled) and with_base and not build_wheels:
        raise InputError(
            f"the base has no compilers for {', '.join(compiled + sources)}, which the lock has as source",
            hint="add --build-wheels, which builds their wheels here",
        )
    if build_wheels:
        sources = compiled = []
    if compiled:
        warn(f"installing compiles {', '.join(compiled)} against the bundle's own packages, and needs the compilers")
    if sources:
        warn(f"installing builds these sources, with the wheels that the lock has for that: {', '.join(sources)}")
    known = held_by(since, chosen.name) if since else frozenset()
    try:
        with scratch_folder(load_settings(os.environ).cache()) as scratch:
            built = _built(spec, lock, chosen, scratch) if build_wheels else {}
            held, found = with_wheels(chosen, built)
            whole = held.fetched
            pins = [pin for pin in whole if pin.artifact and (pin.artifact.sha256, place_of(pin)) not in known]
            fetched = [pin for pin in pins if pin.name not in built or pin.kind != "pip"]
            found = {**found, **collect_conda_too(spec, chosen, fetched)}
            carried: dict[str, str | bytes] = {**_carried(spec, lock, chosen, held, rules)}
            carried |= _project(spec, chosen)
            brought = _base(spec, lock, chosen, base, scratch) if with_base else None
            python = brought.python if brought else _python(lock, chosen)
            if brought:
                carried |= brought.definition([*carried, *map(place_of, pins), INSTALLER, LOOK, LIMITS, SUMS])
            of_base = brought.files if brought else {}
            with observer().progress() as progress, written(output, "-o", [path]) as file:
                progress.phase(f"writing {output}")
                digest = write_bundle(file, held, carried, found, known, python, of_base, progress.came)
                size = file.tell()
    except KeyboardInterrupt:
        say("interrupted: run the same command again to continue")
        return 130
    keep_bounded()
    if as_json:
        document = {
            "spec": path,
            "target": chosen.name,
            "file": str(output),
            "size": size,
            "files": len(pins),
            "needed": len(whole) - len(pins),
            "digest": digest,
            "built": sorted(built),
            "base": brought.digest if brought else None,
        }
        options.print_json("bundle", document)
    else:
        elsewhere = f", {len(whole) - len(pins)} more from {since}" if known else ""
        out(f"{output}: {chosen.name}, {len(pins)} packages{elsewhere}, {byte_size(size)}")
        if brought:
            out(f"base {brought.digest}")
        out(f"digest {digest}")
        old = " --with DIR" if known else ""
        say(f"hint: tar xf {output.name} && sh install.sh --expect {digest}{old} PREFIX")
        if brought:
            say(f"hint: or an image: apptainer build --notest {brought.plan.title}.sif {DEFINITION}")
    return 0


def _built(spec: Spec, lock: SoundLock, target: LockedTarget, scratch: Path) -> dict[str, Path]:
    """Build the wheels of what the lock has as source, by package."""
    from envspec.app.own_project import built_sources, refuse_newer_glibc

    folder = scratch / "built"
    folder.mkdir()
    made = built_sources(spec, lock, target, folder, "a bundle")
    wheels = {name: wheel for name, (wheel, _) in made.items()}
    refuse_newer_glibc(target, wheels)
    return wheels


def _base(spec: Spec, lock: SoundLock, target: LockedTarget, given: str | None, scratch: Path) -> BundledBase:
    from envspec.app.bundle_base import bundled_base
    from envspec.export.make import make_plan

    return bundled_base(make_plan(spec, lock, target), lock, target, given, spec.path, scratch)


def _python(lock: SoundLock, target: LockedTarget) -> tuple[LockedPython, Path] | None:
    """Fetch the build of Python that the lock names; None where it names none, or the user lets none be fetched."""
    from envspec.base.settings import load_settings
    from envspec.install.python_archive import fetched_build
    from envspec.install.python_builds import are_asked_for

    build = lock.python(target)
    if build is None:
        return None
    if not are_asked_for(os.environ):
        said = f"UV_PYTHON_DOWNLOADS lets none be fetched, so the machine must have Python {target.inputs.python}"
        say(f"note: the bundle has no Python: {said}", style="cyan")
        return None
    return build, fetched_build(build, load_settings(os.environ), os.environ)


def _carried(
    spec: Spec, lock: SoundLock, target: LockedTarget, held: LockedTarget, rules: BuildRules
) -> dict[str, str]:
    """Give the carried files, as in an image, and the lists of pip's and conda's packages as the bundle holds them."""
    from envspec.export.make import make_plan
    from envspec.export.plan import CARRIED_FOLDER
    from envspec.install.bundle import build_files, explicit_list

    plan = make_plan(spec, lock, target)
    carried = {f"{CARRIED_FOLDER}/{name}": text for name, text in plan.carried.items()}
    pip = build_files(lock, held, rules) if plan.pip else {}
    return carried | pip | explicit_list(target)


def _project(spec: Spec, target: LockedTarget) -> dict[str, bytes]:
    """Build the wheel of the spec's own project, by its path in the bundle."""
    from envspec.app.own_project import built_project
    from envspec.base.scratch import scratch_folder
    from envspec.base.settings import load_settings
    from envspec.install.bundle import PROJECT

    with scratch_folder(load_settings(os.environ).cache()) as scratch:
        wheel = built_project(spec, target, scratch)
        return {f"{PROJECT}/{wheel.name}": wheel.read_bytes()} if wheel else {}
