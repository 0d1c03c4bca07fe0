"""`envspec bundle`: all files of a target in one tar, for a machine without internet."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from envspec.app import inputs
from envspec.app.cache_size import prune_to_limit
from envspec.app.carried_facts import facts_text
from envspec.app.collecting import collect_conda_too
from envspec.app.image.base import open_base
from envspec.app.malicious import refuse_malicious
from envspec.app.observer import note, observer, report, warn
from envspec.app.outputs import open_output
from envspec.app.own_project import build_project, built_sources, refuse_newer_glibc
from envspec.app.policy import refuse_target
from envspec.base.errors import InputError, Place
from envspec.base.scratch import scratch_folder
from envspec.configuration.settings import load_settings
from envspec.export import slurm
from envspec.export.make import make_plan, make_spec_plan
from envspec.export.plan import BUILD_SCRIPT, CARRIED_FOLDER, CHECK_ARCHIVE, encode
from envspec.image.build import copy_into_bundle
from envspec.install.build import BuildRules
from envspec.install.bundle import (
    DATES,
    DEFINITION,
    INSTALLER,
    LIMITS,
    LOOK,
    ON_BASE,
    PROJECT,
    SUMS,
    build_files,
    earlier_files,
    explicit_list,
    later_files,
    place_of,
    with_wheels,
    write_bundle,
)
from envspec.install.collect import refuse_git
from envspec.install.interpreter import fetch_build
from envspec.install.on_base import any_base
from envspec.lock.model import LockedPython, LockedTarget, SoundLock
from envspec.rules.secret_variables import refuse_secret_variables
from envspec.spec.model import Spec


class BundleRequest(Struct, frozen=True):
    """A bundle to make.

    since         an earlier bundle, its SHA256SUMS or its lock: what it holds is left out
    build_wheels  build wheels of sources here
    with_base     bring the image's base; `base` is where that is, None: the spec's, as locked
    """

    path: str
    target: str | None
    output: Path
    since: Path | None
    build_wheels: bool
    with_base: bool
    base: str | None
    locks_dir: Path | None


class MadeBundle(Struct, frozen=True):
    """A bundle that was written: `files` packages are in it, `needed` more in the earlier one; `title` is the plan's,
    where it brings a base."""

    target: str
    size: int
    files: int
    needed: int
    digest: str
    built: tuple[str, ...]
    is_partial: bool
    base: str | None
    title: str | None

    @property
    def build(self) -> str | None:
        """The command that builds an image of its base; None without one."""
        return f"apptainer build --notest {self.title}.sif {DEFINITION}" if self.title else None


def make_bundle(request: BundleRequest) -> MadeBundle:
    """Write a bundle, every file checked against its hash. Raises EnvspecError."""
    spec, lock = inputs.read_lock(request.path, request.locks_dir, on_base=True)
    if request.with_base:
        inputs.refuse_base(spec, "--with-base")
    chosen = inputs.pick_target(lock, request.target)
    if not chosen.inputs.platform.startswith("linux-"):
        message = f"a bundle is for Linux, and the target {chosen.name} is for {chosen.inputs.platform}"
        hint = "choose another target with --target, or use `envspec install` on the machine itself"
        raise InputError(message, hint=hint, place=Place(request.path))
    inputs.tell_lacking_compat(spec, (chosen,), "the bundle")
    refuse_target(spec, lock, chosen, request.path, offline=False)
    report(refuse_malicious(spec, (chosen,), request.path, offline=False))
    refuse_git(chosen.pins, "a bundle")
    if request.base is not None and not request.with_base:
        raise InputError("--base says which base a bundle brings, and this one brings none", hint="add --with-base")
    if request.since is not None and request.with_base:
        raise InputError("an image is made from a whole bundle, and --since leaves files out", hint="give one of both")
    rules = BuildRules.of(spec, chosen)
    sources = [pin.name for pin in chosen.pins if pin.kind == "pip" and not pin.is_wheel and not rules.concerns(pin)]
    compiled = [pin.name for pin in chosen.pins if rules.concerns(pin)]
    if (sources or compiled) and request.with_base and not request.build_wheels:
        message = f"the base has no compilers for {', '.join(compiled + sources)}, which the lock has as source"
        raise InputError(message, hint="add --build-wheels, which builds their wheels here")
    if request.build_wheels:
        sources = compiled = []
    if compiled:
        warn(f"installing compiles {', '.join(compiled)} against the bundle's own packages, and needs the compilers")
    if sources:
        warn(f"installing builds these sources, with the wheels that the lock has for that: {', '.join(sources)}")
    known = earlier_files(request.since, chosen.name) if request.since else frozenset()
    with scratch_folder(load_settings(os.environ).scratch()) as scratch:
        built = _build_wheels(spec, lock, chosen, scratch) if request.build_wheels else {}
        held, files = with_wheels(chosen, built)
        whole = held.fetched
        pins = [pin for pin in whole if pin.artifact and (pin.artifact.sha256, place_of(pin)) not in known]
        fetched = [pin for pin in pins if pin.name not in built or pin.kind != "pip"]
        files = {**files, **collect_conda_too(spec, chosen, fetched)}
        carried = _carried_files(spec, lock, chosen, held, rules)
        carried |= later_files(lock, held, files)
        carried |= _project(spec, chosen)
        if facts := facts_text(chosen):
            carried[DATES] = facts
        brought = None
        if request.with_base:
            plan = make_plan(spec, lock, chosen)
            if plan.image.borrowed:
                names = ", ".join(f"{package.name} from {package.image.name}" for package in plan.image.borrowed)
                hint = "leave it out of the spec's [image] and targets, or carry the image of `envspec image` over"
                raise InputError(f"the image of {chosen.name} takes {names}, which a bundle doesn't bring", hint=hint)
            with (
                observer().progress() as progress,
                open_base(plan, request.base, progress.came, offline=False) as source,
            ):
                brought = copy_into_bundle(source, plan, lock, chosen, spec.path, scratch, progress)
        python = brought.python if brought else _python(lock, chosen)
        if brought:
            carried |= brought.definition([*carried, *map(place_of, pins), INSTALLER, LOOK, LIMITS, SUMS])
        of_base = brought.files if brought else {}
        with observer().progress() as progress, open_output(request.output, "-o", [request.path]) as file:
            progress.phase(f"writing {request.output}")
            digest = write_bundle(file, held, carried, files, known, python, of_base, progress.came)
            size = file.tell()
    prune_to_limit()
    return MadeBundle(
        target=chosen.name,
        size=size,
        files=len(pins),
        needed=len(whole) - len(pins),
        digest=digest,
        built=tuple(sorted(built)),
        is_partial=bool(known),
        base=brought.digest if brought else None,
        title=brought.plan.title if brought else None,
    )


def _build_wheels(spec: Spec, lock: SoundLock, target: LockedTarget, scratch: Path) -> dict[str, Path]:
    """Build the wheels of what the lock has as source, by package."""
    folder = scratch / "built"
    folder.mkdir()
    made = built_sources(spec, lock, target, folder, "a bundle")
    wheels = {name: wheel for name, (wheel, _) in made.items()}
    refuse_newer_glibc(target, wheels)
    return wheels


def _python(lock: SoundLock, target: LockedTarget) -> tuple[LockedPython, Path] | None:
    """Fetch the build of Python that the lock names; None where it names none, or the user lets none be fetched."""
    build = lock.python(target)
    if build is None:
        return None
    settings = load_settings(os.environ)
    if not settings.fetches_python:
        message = f"UV_PYTHON_DOWNLOADS lets none be fetched, so the machine must have Python {target.inputs.python}"
        note(f"the bundle has no Python: {message}")
        return None
    return build, fetch_build(build, settings, os.environ)


def _carried_files(
    spec: Spec, lock: SoundLock, target: LockedTarget, held: LockedTarget, rules: BuildRules
) -> dict[str, str | bytes]:
    """Give the carried files, as in an image, the jobs, and the lists of pip's and conda's packages as the bundle holds
    them."""
    refuse_secret_variables(spec, [target.name])
    plan = make_plan(spec, lock, target)
    carried = {f"{CARRIED_FOLDER}/{name}": text for name, text in plan.image.carried.items()}
    # exports write these into the folder of an unpacked bundle
    written = {
        path: encode(plan.sources.files[path]) for path in map(plan.carried_file, (BUILD_SCRIPT, CHECK_ARCHIVE, SUMS))
    }
    pip = build_files(lock, held, rules) if plan.sources.pip else {}
    if base := any_base(lock, target):
        return {**carried, **written, **pip, ON_BASE: base.for_installer}
    return {**carried, **written, **slurm.render(make_spec_plan(spec, lock)), **pip, **explicit_list(target)}


def _project(spec: Spec, target: LockedTarget) -> dict[str, bytes]:
    """Build the wheel of the spec's own project, by its path in the bundle."""
    with scratch_folder(load_settings(os.environ).scratch()) as scratch:
        wheel = build_project(spec, target, scratch)
        return {f"{PROJECT}/{wheel.name}": wheel.read_bytes()} if wheel else {}
