"""Apptainer and SingularityCE definitions: one that fetches, and one that installs a bundle without a network.

Their `%files` are below the folder in which `apptainer build` is run, not the definition's own: the build context. What
a build works with lies in /layers, below its own root: /tmp is the machine's, where it fills memory, and others may
have put a file of any name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from envspec.export import nvcc, on_base, sif, template
from envspec.export.dockerfile_steps import (
    LAYERS,
    debian_words,
    fetch,
    further_names,
    install,
    python_words,
    run_step,
)
from envspec.export.plan import (
    BUILD_SCRIPT,
    CARRIED,
    CARRIED_FOLDER,
    ENVIRONMENT,
    REQUIREMENTS,
    SLICE,
    WORKSPACE,
    OwnProject,
    PipStep,
    Plan,
    heading,
)
from envspec.export.quote import definition_text, fill
from envspec.export.sif import BASE, SETTINGS, SIF_VARIABLES, environment_lines
from envspec.export.template import Command
from envspec.packages.version_numbers import numbers_in

FILE = "apptainer.def"
OFFLINE_FILE = "apptainer-offline.def"
BUNDLE = "bundle.tar"
COMPILER = "build.sif"
PROJECT = "/srv"
"""The bind point of the folder of the spec's project, which every base has."""
INIT = "tini"
"""The package of an OCI image's process 1; under Apptainer the host's own init reaps processes."""
_PYTHON = f"{ENVIRONMENT}/bin/python"

_Pairs = Sequence[tuple[str, str]]


def render(plan: Plan) -> dict[str, str]:
    """Render `apptainer.def`, and `apptainer-offline.def` for a base image and a bundle beside it."""
    if plan.runtime.on_base:
        return {f"{plan.target}/{FILE}": on_base.apptainer(plan)}
    return {f"{plan.target}/{FILE}": _online(plan), f"{plan.target}/{OFFLINE_FILE}": _offline(plan)}


def _usage(plan: Plan) -> Iterator[str]:
    nv = " --nv" if plan.runtime.is_cuda else ""
    own = plan.sources.project
    bound = f' --bind "{own.folder or "FOLDER"}:{PROJECT}:ro"' if own else ""
    yield plan.above
    definition = f"{plan.own}{plan.target}/{FILE}"
    build = f"  apptainer build{bound} --notest {plan.title}.sif {definition}"
    yield f"{build}   # or singularity build" if len(build) < 90 else build
    yield f"  apptainer test{nv} {plan.title}.sif     # the smoke check{', on a machine with the GPU' if nv else ''}"
    yield f'  apptainer run{nv} --bind "$PWD:{WORKSPACE}" {plan.title}.sif python train.py'
    yield f"What is your own comes from a folder, by --bind FOLDER:{SETTINGS}, and stays out of the image:"
    yield "  uv.toml         other indexes, mirrors and logins"
    yield "  apt-mirrors     mirrors of apt's archives: words like debian=URL"
    yield "  cache/          kept from build to build; without it, none"
    if plan.sources.torch_backend:
        yield f"  pytorch-index   the URL of a mirror of the PyTorch index {plan.sources.torch_backend}"
    if plan.sources.takes_netrc:
        yield "  netrc           logins of the spec's own indexes, and of those that have variants"
    if plan.sources.has_variants:
        yield "  wheels/         a bundle's wheels: variants come from there instead of an index"
    for index in plan.sources.local_indexes:
        place = index.folder or index.path
        yield f"  index-{index.name}/   the folder of the index {index.name}, {place}; it must be there"
    if plan.sources.explicit:
        yield "  conda-channel-host   the host of your conda channels; it must be there"
        yield "  condarc, netrc       settings and logins for channels that want them"
    if own and own.versioned:
        yield f"  project-version   the version of {own.name}, where git would tell it"


def _online(plan: Plan) -> str:
    tools = [("uv", plan.image.uv), *([("micromamba", plan.image.micromamba)] if plan.image.micromamba else [])]
    stages = [*tools, *((source.name, source.image) for source in plan.image.borrowed)]
    return template.render(
        "apptainer.j2",
        plan=plan,
        heading=heading(plan, _usage(plan)),
        stages=[(name, image.pinned) for name, image in stages],
        sources=[*_sources(plan), *_build_files(plan)],
        settings=sif.settings(plan),
        indexes=sif.index_places(plan),
        environment=_environment(plan),
        debian=_debian(plan),
        **_at_end(plan),
    )


def _sources(plan: Plan) -> _Pairs:
    """List the carried files, the requirements and the target's own file, as builds read them."""
    requirements = f"{plan.own}{REQUIREMENTS}"
    return [
        (plan.carried_folder, LAYERS),
        (requirements, f"{LAYERS}/{REQUIREMENTS}"),
        (plan.slice, f"{LAYERS}/{SLICE}"),
    ]


def _build_files(plan: Plan) -> _Pairs:
    """List the files of the requirements that no image keeps, and that each target has by the same name."""
    own = [step.built_with for step in plan.sources.pip if step.built_with]
    return [(file, f"{LAYERS}/") for file in (*filter(None, [plan.runtime.build_table]), *own)]


def _environment(plan: Plan) -> dict[str, list[Command]]:
    """List the steps that make the whole environment, each file by its hash."""
    compiling = plan.sources.compiling
    own = compiling is None or compiling.image == plan.image.base
    if plan.sources.explicit:
        made = [run_step("conda", "-", f"{LAYERS}/{REQUIREMENTS}/{plan.sources.explicit.rpartition('/')[2]}")]
    elif own:
        made = [python_words(plan, "-", "" if plan.runtime.base_python else "managed")]
    else:
        # a Python of this stage would be missing in the image
        made = [python_words(plan, "-", "only-managed")]
    built = [
        install(step, "-", compiles=bool(compiling and compiling.sees)) for step in plan.sources.pip if step.source
    ]
    return {
        "debian": [debian_words(plan, compiling.apt, headers=own, dated=own)] if compiling else _debian(plan),
        "made": [*made, _copy_step(plan)],
        "installed": [words for step in plan.sources.pip if not step.source for words in install_words(step)],
        "built": [*built, *([_project(plan.sources.project, plan)] if plan.sources.project else [])],
    }


def install_words(step: PipStep) -> Iterator[Command]:
    """List the steps of a run of uv: the wheels of variants are fetched before."""
    if step.variants:
        yield fetch(step)
    yield install(step, "-")


def _copy_step(plan: Plan) -> Command:
    """List the words of the step that copies what the image carries."""
    return run_step("carried", "-", _PYTHON, *further_names(plan))


def _debian(plan: Plan) -> list[Command]:
    names = [name for name in plan.image.debian if name != INIT]
    own = plan.sources.compiling is None or plan.sources.compiling.image == plan.image.base
    return [debian_words(plan, names, headers=bool(plan.runtime.torch) and own)] if names else []


def _project(project: OwnProject, plan: Plan) -> Command:
    """List the words that build and install the spec's project. Backends write into its folder, so it is copied;
    without what lies there of images and environments."""
    recipes = posixpath.relpath(plan.place, project.path) if project.folder else ".."
    left = ["./.venv", *([] if recipes.startswith("..") else [f"./{recipes}"])]
    compiled = ["compiled"] if project.compiled else []
    return run_step("project", "-", project.name, *compiled, *(f"--exclude={path}" for path in left))


def render_in_bundle(plan: Plan, parts: Iterable[str], base: str, digest: str) -> str:
    """Render the definition that lies in a bundle with its base: nothing else is needed, and no network.

    parts   what else is in the bundle's folder
    base    the folder of the OCI layout in it, and digest what that holds
    """
    usage = [
        "In the folder of the unpacked bundle, without a network:",
        "  sha256sum -c SHA256SUMS BASE",
        f"  apptainer build --notest {plan.title}.sif {FILE}     # singularity: the same",
        f"The base is {digest}.",
    ]
    files = [(CARRIED_FOLDER, LAYERS), *((part, f"{LAYERS}/bundle/{part}") for part in parts)]
    return template.render(
        "apptainer_offline.j2",
        plan=plan,
        heading=heading(plan, usage),
        bootstrap="oci",
        compiler=base,
        base=base,
        unpacked=True,
        sources=files,
        settings=sif.OFFLINE_SETTINGS,
        env=(),
        carried=[(CARRIED_FOLDER, CARRIED), (f"{CARRIED_FOLDER}/{BUILD_SCRIPT}", f"{LAYERS}/{BUILD_SCRIPT}")],
        sealed=[run_step("sealed", CARRIED, _PYTHON)],
        **_at_end(plan),
    )


def _offline(plan: Plan) -> str:
    needs = [name for name in plan.image.debian if name not in (INIT, "ca-certificates")]
    needs += [path for source in plan.image.borrowed for _, path in source.copies]
    python = "" if plan.runtime.build else f"Python {plan.runtime.python} with its module venv"
    if plan.sources.explicit:
        python = "micromamba"
    has = ", ".join(filter(None, [python, *needs]))
    beside = f"{plan.own}{plan.target}/"
    usage = [
        "For machines without internet. Beside this file lie:",
        *_wrap(BASE, f"an image{f' with {has}' if has else ''}"),
        f"  {BUNDLE:<16}envspec bundle SPEC --target {plan.target} -o {beside}{BUNDLE}",
    ]
    built = plan.sources.compiling if plan.sources.compiling and plan.sources.compiling.packages else None
    if built:
        tools = [name for name in built.apt if name != "ca-certificates"]
        tools += ["CUDA's compiler in /usr/local/cuda"] if "CUDA_HOME" in built.env else []
        usage += _wrap(COMPILER, f"{f'{python}, as in {BASE}, and ' if python else ''}{', '.join(tools)}")
    usage += [plan.above, f"  apptainer build --notest {plan.title}.sif {beside}{OFFLINE_FILE}"]
    return template.render(
        "apptainer_offline.j2",
        plan=plan,
        heading=heading(plan, usage),
        bootstrap="localimage",
        compiler=f"{beside}{COMPILER if built else BASE}",
        base=f"{beside}{BASE}",
        unpacked=False,
        sources=[(plan.carried_folder, LAYERS), (f"{beside}{BUNDLE}", f"{LAYERS}/{BUNDLE}")],
        settings=sif.OFFLINE_SETTINGS,
        env=list(built.env.items()) if built else (),
        carried=_sources(plan),
        sealed=[_copy_step(plan)],
        **_at_end(plan),
    )


def _wrap(file: str, text: str) -> Iterator[str]:
    """Make the lines of the usage that say what a file is."""
    first, *more = fill(text.split(), 98)
    yield f"  {file:<16}{first}"
    yield from (f"{'':<18}{line}" for line in more)


def _at_end(plan: Plan) -> dict[str, Any]:
    """Give the values of what every definition ends with."""
    return {
        "links": [run_step("cuda", folder) for folder in nvcc.folders(plan)],
        "libcuda": plan.runtime.is_cuda and plan.runtime.torch and numbers_in(plan.runtime.torch) < (2, 2),
        "variables": list(environment_lines(plan)),
        "labels": sif.labels(plan),
        "help": list(_help(plan)),
        "apps": _apps(plan),
    }


def _apps(plan: Plan) -> tuple[str, ...]:
    return ("smoke", *(service.name for service in plan.image.services))


def files_of_a_sif(plan: Plan) -> dict[str, str]:
    """Give the scripts, by path, that an OCI image brings along for the SIF that Apptainer makes of it: its variables,
    its help, its test and its apps are those of the definition. What the image starts Apptainer writes itself, and this
    has it hand on arguments as they are, instead of having a shell read them.

    Source: Apptainer's SIF layout, its "SCIF" apps, and the run script of an OCI image (`--no-eval` sets the variable).
    """
    entrypoint = f"#!/bin/sh\nexec sh {CARRIED}/entrypoint.sh"
    environment = "\n".join([*environment_lines(plan), "export SINGULARITY_NO_EVAL=1 TINI_SUBREAPER=1"])
    return {
        SIF_VARIABLES: f"{environment}\n",
        ".singularity.d/runscript.help": "\n".join(_help(plan)) + "\n",
        ".singularity.d/test": f"{entrypoint} smoke --quick\n",
        **{f"scif/apps/{app}/scif/runscript": f'{entrypoint} {app} "$@"\n' for app in _apps(plan)},
    }


def _help(plan: Plan) -> Iterator[str]:
    nv = " --nv" if plan.runtime.is_cuda else ""
    cuda = f", CUDA {plan.runtime.cuda}" if plan.runtime.cuda else ""
    yield from map(definition_text, fill((plan.description or plan.title).split()))
    yield f"{plan.title}: Python {plan.runtime.python}{cuda}, on {plan.runtime.platform}."
    yield f'  apptainer run{nv} --bind "$PWD:{WORKSPACE}" IMAGE python train.py'
    yield f"  apptainer test{nv} IMAGE                  # the smoke check, short"
    yield f"  apptainer run{nv} --app smoke IMAGE       # the smoke check"
    for service in plan.image.services:
        yield f"  apptainer run{nv} --app {service.name} IMAGE     # on port {service.published or service.port}"
    yield "run looks at the driver first and activates conda's packages; exec does neither."
    yield "APPTAINERENV_NAME=VALUE sets a variable otherwise than the image."
    yield f"The target's slice of the lock is {CARRIED}/{SLICE}. ENVSPEC_SKIP_PREFLIGHT=1 skips the look at the driver."
