"""What `envspec export` says of builds and jobs at this site, on stderr alone: no exported file names a host."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.cli.console import say
from envspec.recipes import apt_mirrors
from envspec.redact import has_credentials

if TYPE_CHECKING:
    from envspec.recipes.plan import Plan, SpecPlan
    from envspec.settings import Settings


def tell_site(output: str, folder: str, plan: SpecPlan, made: Mapping[str, str]) -> None:
    """Say how this site builds and submits what was written, if its settings have any part in that. `folder` is the
    spec's, below `output`.
    """
    from envspec.settings import load_settings

    settings = load_settings()
    lines = list(_lines(plan, made, settings))
    if lines:
        say(f"at this site, in {os.path.normpath(Path(output, folder))}:")
        for line in lines:
            say(f"  {line}")


def _lines(plan: SpecPlan, made: Mapping[str, str], settings: Settings) -> Iterator[str]:
    from envspec.recipes import apptainer, dockerfile, slurm

    # one of them as an example, as in the jobs' own heads: what differs between targets is in their recipes' heads
    sample = sorted(plan.targets, key=lambda of: not of.is_cuda)
    for render, file in ((_docker, dockerfile.FILE), (_apptainer, apptainer.FILE)):
        written = [(of, name) for of in sample if (name := f"{of.target}/{file}") in made]
        for of, name in written[:1]:
            yield from render(of, name, made[name], settings)
    if slurm.APPTAINER_JOB in made:
        for of in plan.targets:
            yield from _sbatch(plan, of, settings)


def _docker(of: Plan, name: str, text: str, settings: Settings) -> Iterator[str]:
    """Give the build's command; none where at most an index is another, which the recipe's own head speaks of."""
    from envspec.recipes.site_build import UV_SETTINGS, build_arguments, build_files

    own = build_arguments(text, settings)
    files, proxies = build_files(text, settings), settings.site.variables({})
    apt = files.get(apt_mirrors.FILE, "").strip()
    uv = files[UV_SETTINGS].strip() if settings.mirrors.get("python") else ""
    if not (apt or uv or proxies or set(own) - {"PYTORCH_INDEX"}):
        return
    given = {"APT_MIRRORS": (apt_mirrors.FILE, apt), "UV_SETTINGS": ("uv", uv)}
    words = [f"{variable}={shlex.quote(value)}" for variable, (_, value) in given.items() if value]
    words += ["docker buildx build"]
    words += [f"--build-arg {shlex.quote(f'{argument}={value}')}" for argument, value in own.items()]
    # by name alone, a builder takes the value from its own environment
    secret = has_credentials(settings.site.proxy or "")
    words += [f"--build-arg {one if secret else shlex.quote(f'{one}={value}')}" for one, value in proxies.items()]
    words += [f"--secret id={name_of},env={variable}" for variable, (name_of, value) in given.items() if value]
    yield " ".join([*words, f"-f {name} -t {of.image} ."])


def _apptainer(of: Plan, name: str, text: str, settings: Settings) -> Iterator[str]:
    from envspec.recipes import apptainer
    from envspec.recipes.site_build import build_files, image_here, images_of

    files = build_files(text, settings)
    moved = {image: here for image in images_of(text) if (here := image_here(image, settings.mirrors)) != image}
    if not (moved or apt_mirrors.FILE in files or settings.mirrors.get("python")):
        return
    steps = [f"printf '%s\\n' {shlex.join(text.splitlines())} >FOLDER/{file}" for file, text in files.items()]
    if moved:
        # Apptainer has no setting for mirrors; it looks for a definition's files where it is run
        edits = " ".join(f"-e 's,^From: {image}$,From: {here},'" for image, here in moved.items())
        steps.append(f"sed {edits} {name} >FOLDER/{apptainer.FILE}")
    built = f"FOLDER/{apptainer.FILE}" if moved else name
    yield " && ".join([*steps, f"apptainer build --bind FOLDER:/mnt --notest {of.title}.sif {built}"])


def _sbatch(plan: SpecPlan, of: Plan, settings: Settings) -> Iterator[str]:
    from envspec.recipes.site_jobs import unnamed, variables

    site = settings.site.slurm
    given = variables(site, plan.slurm, of.architectures, of.driver_floor)
    for missing in unnamed(site, of.architectures, of.driver_floor):
        yield f"{of.target}: [site.slurm] {missing}: the job doesn't ask for it"
    if given:
        words = [f"{name}={shlex.quote(value)}" for name, value in given.items()]
        which = [f"ENVSPEC_TARGET={of.target}"] if len(plan.targets) > 1 else []
        yield " ".join([*which, *words, "sbatch", "job.sbatch"])
