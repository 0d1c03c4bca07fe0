"""The texts that `envspec export` writes: a lock in another tool's format, and recipes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from envspec.app.export.file_urls import file_urls, index_addresses
from envspec.app.inputs import refuse_base
from envspec.app.observer import observer
from envspec.app.policy import permit_addresses
from envspec.base.errors import InputError
from envspec.base.redact import without_credentials
from envspec.base.texts import printable
from envspec.export import folder as recipes
from envspec.export.make import PLATFORMS, make_plan, make_spec_plan
from envspec.export.plan import SpecPlan
from envspec.lock.formats import conda_environment, conda_explicit, conda_lock
from envspec.lock.formats.intent import Addresses, ProjectFile, named_indexes
from envspec.lock.formats.pixi_toml import pixi_toml
from envspec.lock.formats.pylock import pylock_toml
from envspec.lock.formats.requirements import requirements_txt
from envspec.lock.formats.sbom import sbom
from envspec.lock.formats.uv_project import uv_project
from envspec.lock.model import Lock, LockedTarget, Pin, SoundLock
from envspec.rules.secret_variables import refuse_secret_variables
from envspec.spec.model import ON_MACHINES, Spec

# The formats of a lock, and projects of other tools, that `envspec export` writes; `envspec.export.folder` has the
# recipes.


SBOM = "sbom.cdx.json"
"""The file of a bill of materials."""

Urls = Mapping[tuple[str, str], str]
"""(index name, file name) → URL."""


class Format(Struct, frozen=True):
    """A format that a locked target can be written in.

    file        the name of its file
    render      its text, made from the lock and the URLs of the files that it needs
    wants_url   whether the format needs the file's URL of a package from an index
    needs_conda the format exists only for targets with conda packages
    """

    file: Callable[[LockedTarget], str]
    render: Callable[[Lock, LockedTarget, Urls], str]
    wants_url: Callable[[Pin], bool] = lambda pin: False
    needs_conda: bool = False


def _conda_lock(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    lacking = conda_lock.without_md5(target)
    if lacking:
        raise InputError(
            f"conda-lock.yml needs MD5 digests, and the channel has none for {', '.join(pin.name for pin in lacking)}",
            hint="use --format conda-explicit: it works with SHA-256",
        )
    return conda_lock.conda_lock(lock, target, urls)


FORMATS = {
    "requirements": Format(
        lambda target: "requirements.txt", lambda lock, target, urls: requirements_txt(lock, target)
    ),
    "pylock": Format(lambda target: "pylock.toml", pylock_toml, lambda pin: pin.kind == "pip"),
    "conda-lock": Format(lambda target: conda_lock.FILE_NAME, _conda_lock, lambda pin: True, needs_conda=True),
    "conda-explicit": Format(
        lambda target: conda_explicit.file_name(target.inputs.platform),
        conda_explicit.explicit,
        lambda pin: True,
        needs_conda=True,
    ),
    "conda-env": Format(
        lambda target: conda_environment.FILE_NAME,
        conda_environment.conda_environment,
        conda_environment.wants_url,
        needs_conda=True,
    ),
    "sbom": Format(lambda target: SBOM, lambda lock, target, urls: sbom(lock, target)),
}


class ProjectFormat(Struct, frozen=True):
    """A project of another tool, for all targets of a spec.

    file    its name
    render  the project, made from spec, lock, targets and the addresses of the indexes besides PyPI
    """

    file: str
    render: Callable[[Spec, Lock, Sequence[LockedTarget], Addresses], ProjectFile]


PROJECTS = {"uv-project": ProjectFormat("pyproject.toml", uv_project), "pixi": ProjectFormat("pixi.toml", pixi_toml)}


ALL = "all"
"""The value of --format for every recipe that a target admits, of those that are `listed`. It leaves out the lock's own
formats: they need URLs, or stand beside the lock already, or take long (the SBOM). It leaves out other tools' projects
too.
"""

ON_BASE = {"requirements": True, "slurm": True, "dockerfile": False, "apptainer": False, "edf": False}
"""The formats that hold what comes on top of a base as such, and whether they do on one of this machine."""

CHOICES = (*FORMATS, *PROJECTS, *recipes.RECIPES, ALL)
"""The values of --format."""


def render_files(
    spec: Spec,
    lock: SoundLock,
    targets: Sequence[LockedTarget],
    names: Sequence[str],
    place: str,
    on_left_out: Callable[[str], None] = lambda line: None,
) -> tuple[dict[str, str], SpecPlan | None]:
    """Render all texts before the first is written, by path relative to the spec's folder. Also gives the plan of the
    recipes, if there are any. Calls `on_left_out` with what other tools' projects can't hold.
    """
    for name in names:
        if name not in ON_BASE or not (ON_BASE[name] or (spec.base and spec.base.kind not in ON_MACHINES)):
            refuse_base(spec, f"--format {name}")
    everything = ALL in names
    own = {name: FORMATS[name] for name in FORMATS if name in names}
    formats = [name for name in recipes.RECIPES if name in names or (everything and name in recipes.OF_ALL)]
    _refuse_without_conda(targets, own)
    if formats or PROJECTS.keys() & {*names}:
        refuse_secret_variables(spec, [target.name for target in targets])
    made = _render(spec, lock, targets, tuple(own.values()))
    for name in (name for name in PROJECTS if name in names):
        made |= _project(spec, lock, targets, name, on_left_out)
    if not formats:
        return made, None

    plan = make_spec_plan(spec, lock, place)
    plans = {of_target.target: of_target for of_target in plan.targets}
    explicit = {name for name in names if name in recipes.RECIPES}
    for target in targets:
        if everything and target.inputs.platform not in PLATFORMS:
            continue
        # one that has no recipe is refused with its reason
        of = plans.get(target.name) or make_plan(spec, lock, target, place)
        for name in (name for name in formats if name in recipes.OF_A_TARGET):
            made |= recipes.render(of, name) if name in explicit else recipes.render_all(of, [name]).get(name, {})
    for name in (name for name in formats if name in recipes.OF_A_SPEC):
        made |= (
            recipes.render_spec(plan, name)
            if name in explicit
            else recipes.render_all_of_spec(plan, [name]).get(name, {})
        )
    return made, plan


def _project(
    spec: Spec, lock: SoundLock, targets: Sequence[LockedTarget], name: str, on_left_out: Callable[[str], None]
) -> dict[str, str]:
    addresses = index_addresses(named_indexes(lock, targets), spec, os.environ)
    project_format = PROJECTS[name]
    project = project_format.render(spec, lock, targets, addresses)
    for line in project.left_out:
        on_left_out(f"{project_format.file}: left out: {printable(line)}")
    return {project_format.file: project.text}


def _refuse_without_conda(targets: Sequence[LockedTarget], formats: Mapping[str, Format]) -> None:
    without = [target.name for target in targets if all(pin.kind != "conda" for pin in target.pins)]
    names = [name for name, lock_format in formats.items() if lock_format.needs_conda]
    if without and names:
        message = f"{', '.join(names)} needs conda packages, and the target {', '.join(without)} has none"
        raise InputError(message, hint="choose targets with --target, or use --format requirements or --format pylock")


def _render(spec: Spec, lock: SoundLock, targets: Sequence[LockedTarget], formats: Sequence[Format]) -> dict[str, str]:
    """Render all texts before the first is written, by path relative to the output folder."""
    pins = [
        pin for target in targets for pin in target.pins if any(lock_format.wants_url(pin) for lock_format in formats)
    ]
    urls: Mapping[tuple[str, str], str] = {}
    if pins:
        permit_addresses(spec)
        with observer().progress("asking the indexes") as progress:
            urls = file_urls(pins, spec, os.environ, progress.count)
        # whoever installs from a file that is passed on has a login of their own
        urls = {key: without_credentials(url) for key, url in urls.items()}
    return {
        f"{t.name}/{lock_format.file(t)}": lock_format.render(lock, t, urls) for t in targets for lock_format in formats
    }
