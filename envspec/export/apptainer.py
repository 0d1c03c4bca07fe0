"""Apptainer and SingularityCE definitions: one that fetches, and one that installs a bundle without a network.

Their `%files` are below the folder in which `apptainer build` is run, not the definition's own: the build context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envspec.export import compat, on_base
from envspec.export.apptainer_scripts import (
    EMPTY_PYTHONS,
    INIT,
    PROJECT,
    SCRATCH,
    SETTINGS,
    SIF_VARIABLES,
    at,
    build_files,
    bundled_post,
    carried_files,
    carried_lines,
    compile_post,
    definition,
    export_variables,
    final_post,
    installation_files,
    offline_final_post,
    offline_post,
    safe_text,
    section,
    stage_header,
)
from envspec.export.plan import (
    BASE_LABELS,
    CARRIED,
    CARRIED_FOLDER,
    ENVIRONMENT,
    PYTHON,
    SLICE,
    WORKSPACE,
    ImageReference,
    Plan,
    hash_heading,
    recipe_labels,
)

FILE = "apptainer.def"
OFFLINE_FILE = "apptainer-offline.def"
BUNDLE = "bundle.tar"
BASE = "base.sif"
COMPILER = "build.sif"


def render(plan: Plan) -> dict[str, str]:
    """Render `apptainer.def`, and `apptainer-offline.def` for a base image and a bundle beside it."""
    if plan.on_base:
        return {f"{plan.target}/{FILE}": on_base.apptainer(plan)}
    made = {FILE: _online(plan), OFFLINE_FILE: _offline(plan)}
    return {f"{plan.target}/{name}": definition(lines) for name, lines in made.items()}


def _online(plan: Plan) -> Iterator[str]:
    nv = " --nv" if plan.is_cuda else ""
    own = plan.project
    bound = f' --bind "{own.folder or "FOLDER"}:{PROJECT}:ro"' if own else ""
    usage = [
        plan.above,
        f"  apptainer build{bound} --notest {plan.title}.sif {plan.own}{plan.target}/{FILE}     # or singularity build",
        f"  apptainer test{nv} {plan.title}.sif     # the smoke check{', on a machine with the GPU' if nv else ''}",
        f'  apptainer run{nv} --bind "$PWD:{WORKSPACE}" {plan.title}.sif python train.py',
        "",
        f"What is your own comes from a folder, by --bind FOLDER:{SETTINGS}, and stays out of the image:",
        "  uv.toml         other indexes, mirrors and logins",
        "  apt-mirrors     mirrors of apt's archives: words like debian=URL",
        "  cache/          kept from build to build; without it, none",
    ]
    if plan.torch_backend:
        usage.append(f"  pytorch-index   the URL of a mirror of the PyTorch index {plan.torch_backend}")
    if plan.takes_netrc:
        usage.append("  netrc           logins of the spec's own indexes, and of those that have variants")
    if plan.has_variants:
        usage.append("  wheels/         a bundle's wheels: variants come from there instead of an index")
    for index in plan.local_indexes:
        place = index.folder or index.path
        usage.append(f"  index-{index.name}/   the folder of the index {index.name}, {place}; it must be there")
    if plan.explicit:
        usage.append("  conda-channel-host   the host of your conda channels; it must be there")
        usage.append("  condarc, netrc       settings and logins for channels that want them")
    if own and own.versioned:
        usage.append(f"  project-version   the version of {own.name}, where git would tell it")
    yield from hash_heading(plan, usage)
    yield ""
    yield from stage_header(plan.uv, "uv")
    for image, stage in _tools(plan):
        yield from stage_header(image, stage)
    if plan.compiling:
        yield from stage_header(plan.compiling.image, "compile")
        yield from section("files from uv", ["/uv /usr/local/bin/uv"])
        yield from _micromamba_files(plan)
        yield from section("files", [*carried_files(plan), *build_files(plan), *_requirements(plan)])
        yield from section("post", compile_post(plan))
    yield from stage_header(plan.base, "final")
    if plan.compiling:
        yield from section("files from compile", [f"{ENVIRONMENT} {ENVIRONMENT}", f"{PYTHON} {PYTHON}"])
    else:
        yield from section("files from uv", ["/uv /usr/local/bin/uv"])
        yield from _micromamba_files(plan)
    for one in plan.borrowed:
        yield from section(f"files from {one.name}", [f"{there} {here}" for there, here in one.copies])
    files = [*carried_lines(plan), *build_files(plan), *([] if plan.compiling else _requirements(plan))]
    yield from section("files", dict.fromkeys(files))
    yield from section("post", final_post(plan))
    yield from _at_run_time(plan)


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
    return definition(_bundle_definition(plan, usage, parts, base))


def _bundle_definition(plan: Plan, usage: Iterable[str], parts: Iterable[str], base: str) -> Iterator[str]:
    yield from hash_heading(plan, usage)
    yield ""
    yield from ("Bootstrap: oci", f"From: {base}", "Stage: compile", "")
    files = [f"{part} {SCRATCH}/bundle/{part}" for part in parts]
    yield from section("files", [*files, f"{CARRIED_FOLDER} {CARRIED}"])
    yield from section("post", bundled_post(plan))
    yield from ("Bootstrap: oci", f"From: {base}", "Stage: final", "")
    yield from section("files from compile", [f"{ENVIRONMENT} {ENVIRONMENT}"])
    yield from section("files", [f"{CARRIED_FOLDER} {CARRIED}"])
    yield from section("post", offline_final_post(plan))
    yield from _at_run_time(plan)


def _offline(plan: Plan) -> Iterator[str]:
    needs = [name for name in plan.debian if name not in (INIT, "ca-certificates")]
    needs += [path for one in plan.borrowed for _, path in one.copies]
    python = "micromamba" if plan.explicit else "" if plan.build else f"Python {plan.python} with its module venv"
    has = ", ".join(filter(None, [python, *needs]))
    beside = f"{plan.own}{plan.target}/"
    usage = [
        "For machines without internet. Beside this file lie:",
        f"  {BASE}        an image{f' with {has}' if has else ''}",
        f"  {BUNDLE}      envspec bundle SPEC --target {plan.target} -o {beside}{BUNDLE}",
    ]
    files = [f"{beside}{BUNDLE} {SCRATCH}/{BUNDLE}", *carried_files(plan)]
    built = plan.compiling if plan.compiling and plan.compiling.packages else None
    if built:
        tools = [name for name in built.apt if name != "ca-certificates"]
        tools += ["CUDA's compiler in /usr/local/cuda"] if "CUDA_HOME" in built.env else []
        usage.append(f"  {COMPILER}     {f'{python}, as in {BASE}, and ' if python else ''}{', '.join(tools)}")
    usage += [plan.above, f"  apptainer build --notest {plan.title}.sif {beside}{OFFLINE_FILE}"]
    yield from hash_heading(plan, usage)
    yield ""
    yield from ("Bootstrap: localimage", f"From: {beside}{COMPILER if built else BASE}", "Stage: compile", "")
    yield from section("files", files)
    yield from section("post", offline_post(plan, BUNDLE))
    yield from ("Bootstrap: localimage", f"From: {beside}{BASE}", "Stage: final", "")
    yield from section("files from compile", [f"{ENVIRONMENT} {ENVIRONMENT}"])
    yield from section("files", carried_lines(plan))
    yield from section("post", offline_final_post(plan))
    yield from _at_run_time(plan)


def _requirements(plan: Plan) -> list[str]:
    return [f"{file} {at(plan, file)}" for file in installation_files(plan)]


def _tools(plan: Plan) -> Iterator[tuple[ImageReference, str]]:
    if plan.micromamba:
        yield plan.micromamba, "micromamba"
    for one in plan.borrowed:
        yield one.image, one.name


def _micromamba_files(plan: Plan) -> Iterator[str]:
    if plan.micromamba:
        yield from section("files from micromamba", ["/bin/micromamba /usr/local/bin/micromamba"])


def _at_run_time(plan: Plan) -> Iterator[str]:
    entrypoint = f"sh {CARRIED}/entrypoint.sh"
    yield from section("environment", environment_lines(plan))
    # which base it is, Apptainer records itself
    found = [(name, value) for name, value in recipe_labels(plan).items() if not name.startswith(BASE_LABELS)]
    yield from section("labels", [f"{name} {safe_text(value)}" for name, value in found])
    yield from section("help", _help(plan))
    yield from ("%runscript", f'    exec {entrypoint} "$@"')
    yield from ("%test", f"    exec {entrypoint} smoke --quick")
    for app in _apps(plan):
        yield from (f"%apprun {app}", f'    exec {entrypoint} {app} "$@"')


def _apps(plan: Plan) -> tuple[str, ...]:
    return ("smoke", *(service.name for service in plan.services))


def environment_lines(plan: Plan) -> Iterator[str]:
    """Give the lines of a definition's `%environment`."""
    own, other = ("CONDA_PREFIX", "VIRTUAL_ENV") if plan.explicit else ("VIRTUAL_ENV", "CONDA_PREFIX")
    # the network is the host's, where a user has no such port
    of_root = [("SSH_PORT", str(one.port)) for one in plan.services if one.published]
    compilers = " CC=gcc CXX=g++" if "g++" in plan.debian else ""
    # Apptainer hands on what the caller has, but for what is set here; an unset isn't heeded
    yield f'export PATH="{ENVIRONMENT}/bin:$PATH" {own}={ENVIRONMENT} {other}= LD_PRELOAD={compilers}'
    yield EMPTY_PYTHONS
    yield from export_variables(one for one in plan.env if one not in of_root)
    if any(one.name == compat.NAME for one in plan.toolkit):
        yield from compat.choice(plan.driver_floor)


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
    nv = " --nv" if plan.is_cuda else ""
    cuda = f", CUDA {plan.cuda}" if plan.cuda else ""
    yield safe_text(plan.description or plan.title)
    yield f"{plan.title}: Python {plan.python}{cuda}, on {plan.platform}."
    yield f'  apptainer run{nv} --bind "$PWD:{WORKSPACE}" IMAGE python train.py'
    yield f"  apptainer test{nv} IMAGE                  # the smoke check, short"
    yield f"  apptainer run{nv} --app smoke IMAGE       # the smoke check"
    for service in plan.services:
        yield f"  apptainer run{nv} --app {service.name} IMAGE     # on port {service.published or service.port}"
    yield "run looks at the driver first and activates conda's packages; exec does neither."
    yield "APPTAINERENV_NAME=VALUE sets a variable otherwise than the image."
    yield f"The target's slice of the lock is {CARRIED}/{SLICE}. ENVSPEC_SKIP_PREFLIGHT=1 skips the look at the driver."
