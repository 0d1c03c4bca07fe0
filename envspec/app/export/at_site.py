"""The notes of `envspec export` on builds and jobs at this site, on stderr alone: no exported file names a host."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from envspec.app.observer import say
from envspec.app.site_policy import fabric_variables
from envspec.base.places import LIBRARIES
from envspec.base.redact import has_credentials
from envspec.configuration.settings import Settings, load_settings
from envspec.export import apptainer, apt_mirrors, compose, devcontainer, dockerfile, slurm
from envspec.export.apt_mirrors import SECRETS
from envspec.export.plan import Plan, SpecPlan
from envspec.export.site_build import (
    UV_SETTINGS,
    build_arguments,
    build_files,
    image_here,
    images_of,
    missing_features,
    variables,
    words_here,
)


def tell_site(output: str, folder: str, plan: SpecPlan, made: Mapping[str, str]) -> None:
    """Give this site's commands for building and submitting the files, if its settings change any. `folder` is the
    spec's, below `output`.
    """
    settings = load_settings()
    lines = list(_lines(plan, made, settings))
    if lines:
        say(f"at this site, in {os.path.normpath(Path(output, folder))}:")
        for line in lines:
            say(f"  {line}")


def _lines(plan: SpecPlan, made: Mapping[str, str], settings: Settings) -> Iterator[str]:
    # one of them as an example, as in the jobs' own heads: what differs between targets is in their recipes' heads
    sample = sorted(plan.targets, key=lambda of: not of.runtime.is_cuda)
    for render, file in ((_docker, dockerfile.FILE), (_apptainer, apptainer.FILE)):
        written = [(of, name) for of in sample if (name := f"{of.target}/{file}") in made]
        for of, name in written[:1]:
            yield from render(of, name, made[name], settings)
    yield from _starters(sample[0], made, settings)
    if slurm.APPTAINER_JOB in made:
        for of in plan.targets:
            yield from _sbatch(plan, of, made, settings)


class _Build(Struct, frozen=True):
    """This site's part in the build of a Dockerfile: arguments, the texts of secrets by name, proxies. `hidden`: a
    proxy has a password, and its variables stand in no command."""

    arguments: Mapping[str, str]
    secrets: Mapping[str, str]
    proxies: Mapping[str, str]
    hidden: bool

    @staticmethod
    def of(text: str, settings: Settings) -> _Build:
        files = build_files(text, settings)
        uv = files[UV_SETTINGS] if _of_python(settings) else ""
        texts = {apt_mirrors.FILE: files.get(apt_mirrors.FILE, ""), "uv": uv}
        secrets = {name: secret_text.strip() for name, secret_text in texts.items() if secret_text}
        hidden = has_credentials(settings.site.proxy or "")
        return _Build(build_arguments(text, settings), secrets, settings.site.variables({}), hidden)

    def __bool__(self) -> bool:
        """Return whether it is more than another index, which the recipe's own head names."""
        return bool(self.secrets or self.proxies or set(self.arguments) - {"PYTORCH_INDEX"})

    @property
    def variables(self) -> tuple[str, ...]:
        """The words before a command that takes all of it from the environment."""
        proxies = {} if self.hidden else self.proxies
        values = {**{SECRETS[name]: text for name, text in self.secrets.items()}, **self.arguments, **proxies}
        return tuple(f"{name}={shlex.quote(value)}" for name, value in values.items())


def _of_python(settings: Settings) -> bool:
    return bool(settings.mirrors.get("python")) or not settings.fetches_python


def _docker(of: Plan, name: str, text: str, settings: Settings) -> Iterator[str]:
    build = _Build.of(text, settings)
    if not build:
        return
    words = [f"{SECRETS[secret]}={shlex.quote(value)}" for secret, value in build.secrets.items()]
    words += ["docker buildx build"]
    words += [f"--build-arg {shlex.quote(f'{argument}={value}')}" for argument, value in build.arguments.items()]
    # by name alone, a builder takes the value from its own environment
    words += [
        f"--build-arg {variable if build.hidden else shlex.quote(f'{variable}={value}')}"
        for variable, value in build.proxies.items()
    ]
    words += [f"--secret id={secret},env={SECRETS[secret]}" for secret in build.secrets]
    yield " ".join([*words, f"-f {name} -t {of.image_name} {'..' if of.shares else '.'}"])


def _starters(of: Plan, made: Mapping[str, str], settings: Settings) -> Iterator[str]:
    """Give the commands that start compose and editors, whose files take this site's values from the environment."""
    commands = []
    if compose.FILE in made:
        commands.append(f"docker compose build {of.target}")
    if (name := devcontainer.path_of(of)) in made:
        commands.append(f"devcontainer up --workspace-folder {posixpath.relpath('.', of.place)} --config {name}")
    build = _Build.of(dockerfile.render(of)[f"{of.target}/{dockerfile.FILE}"], settings) if commands else None
    if build:
        yield from (" ".join([*build.variables, command]) for command in commands)


def _apptainer(of: Plan, name: str, text: str, settings: Settings) -> Iterator[str]:
    files = build_files(text, settings)
    moved = {image: here for image in images_of(text) if (here := image_here(image, settings.mirrors)) != image}
    places = words_here(
        [(step.index, step.url, step.flat) for step in of.sources.pip if step.index and step.url], settings
    )
    if not (moved or places or apt_mirrors.FILE in files or _of_python(settings)):
        return
    steps = [f"printf '%s\\n' {shlex.join(text.splitlines())} >FOLDER/{file}" for file, text in files.items()]
    if moved or places:
        # Apptainer has no setting for mirrors; it looks for a definition's files where it is run
        edits = [f"-e 's,^From: {image}$,From: {here},'" for image, here in moved.items()]
        edits += [f"-e {shlex.quote(f's,{_literal(word)}$,{_plain(here)},')}" for word, here in places.items()]
        steps.append(f"sed {' '.join(edits)} {name} >FOLDER/{apptainer.FILE}")
    built = f"FOLDER/{apptainer.FILE}" if moved or places else f"{of.own}{name}"
    steps += ["cd .."] if of.shares else []
    yield " && ".join([*steps, f"apptainer build --bind FOLDER:/mnt --notest {of.title}.sif {built}"])


def _literal(text: str) -> str:
    """Quote a text for the pattern of sed's s command with commas."""
    return re.sub(r"([][\\.*^$,])", r"\\\1", text)


def _plain(text: str) -> str:
    return re.sub(r"([\\&,])", r"\\\1", text)


def _sbatch(plan: SpecPlan, of: Plan, made: Mapping[str, str], settings: Settings) -> Iterator[str]:
    site, fabric = settings.site.slurm, settings.site.fabric
    given = variables(site, plan.slurm, of.runtime.architectures, of.runtime.driver_floor)
    for missing in missing_features(site, of.runtime.architectures, of.runtime.driver_floor):
        yield f"{of.target}: [site.slurm] {missing}: the job doesn't ask for it"
    on_nodes = fabric_variables(fabric, {"SLURM_JOB_NUM_NODES": "several"}) if of.runtime.is_cuda else {}
    libraries = on_nodes.pop(LIBRARIES, "")
    paths = fabric.paths if of.runtime.is_cuda else ()
    inside = {"APPTAINER_BIND": ",".join(paths), "APPTAINERENV_LD_LIBRARY_PATH": libraries}
    if slurm.is_on_machine(of):
        inside = {"LD_LIBRARY_PATH": libraries}
    by_pyxis = {slurm.MOUNTS: ",".join(f"{path}:{path}" for path in paths), LIBRARIES: libraries}
    if "NCCL_NET" in on_nodes:
        yield f"{of.target}: on one node, without NCCL_NET"
    for job, of_job in ((slurm.APPTAINER_JOB, inside), (slurm.PYXIS_JOB, by_pyxis)):
        own = {name: value for name, value in {**on_nodes, **of_job}.items() if value}
        if job in made and (own or (given and job == slurm.APPTAINER_JOB)):
            words = [f"{name}={shlex.quote(value)}" for name, value in {**given, **own}.items()]
            which = [f"ENVSPEC_TARGET={of.target}"] if len(plan.targets) > 1 else []
            yield " ".join([*which, *words, "sbatch", job])
