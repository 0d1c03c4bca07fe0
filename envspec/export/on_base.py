"""Recipes of a target on a base, a vendor's image or a SIF: the base by its digest, and in a layer what the lock adds.

The base's own Python gets the packages, where `pip install` would put them: the programs of the base, such as torchrun,
see them too. Its entry point, its user and its variables stay. Only what the lock adds is written, every file by its
hash and without dependencies.
"""

from __future__ import annotations

from envspec.base.errors import InputError
from envspec.export import sif, template
from envspec.export.dockerfile_steps import (
    LAYERS,
    UV_MOUNTS,
    index_arguments,
    install,
    run_step,
    uv_mounts,
)
from envspec.export.plan import (
    BUILD_SCRIPT,
    CARRIED,
    CHECK,
    CHECK_ARCHIVE,
    EPOCH,
    REQUIREMENTS,
    SLICE,
    SUMS,
    OnBase,
    Plan,
    heading,
    recipe_labels,
)
from envspec.export.quote import definition_text, shell
from envspec.export.sif import BASE, SETTINGS, environment_lines_on_base

_TOOLS = "/run/uv"
"""Where uv's stage is mounted."""


def refuse_unknown(plan: Plan) -> OnBase:
    """Give the base of a target that has one. Raises InputError for what recipes on a base don't know yet."""
    for present, what in (
        (plan.sources.project, "the spec's own project"),
        (plan.sources.has_variants, "variants of wheels"),
    ):
        if present:
            raise InputError(
                f"{plan.target}: recipes on a base don't know {what} yet", hint="install the environment on a prefix"
            )
    assert plan.runtime.on_base is not None, "asked of targets that have one"
    return plan.runtime.on_base


def dockerfile(plan: Plan) -> str:
    """Render the target's Dockerfile. Raises InputError for a base that is no image."""
    base = refuse_unknown(plan)
    if base.kind != "image":
        hint = "export its Apptainer definition: --format apptainer"
        raise InputError(f"{plan.target} comes on top of a {base.kind}, and a Dockerfile's base is an image", hint=hint)
    options = f"--build-arg SOURCE_DATE_EPOCH={EPOCH} --platform {plan.runtime.oci_platform}"
    contexts = "".join(
        f" --build-context {index.context}={shell(index.folder or 'FOLDER')}" for index in plan.sources.local_indexes
    )
    gpus = " --gpus all" if plan.runtime.is_cuda else ""
    usage = [
        plan.above,
        f"  docker buildx build {options}{contexts} \\",
        f"    -f {plan.own}{plan.target}/Dockerfile -t {plan.image_name} .",
        f"  docker run --rm -it{gpus} --shm-size {plan.image.shm} {plan.image_name}",
        "Its entry point, user and variables are the base's. Mirrors and logins stay out: --secret id=uv,src=FILE",
    ]
    place, script = f"{CARRIED}/{REQUIREMENTS}", "--mount=type=bind,from=build,target=/run/build"
    settings = (f"UV={_TOOLS}/uv", f"PYTHON={base.python}", f"REQUIREMENTS={place}")
    mounts = [*UV_MOUNTS, *uv_mounts(plan.sources.pip), f"--mount=type=bind,from=uv,target={_TOOLS}", script]
    commands = [
        (*settings, *install(step, "-", at="/run/build"), "--break-system-packages") for step in plan.sources.pip
    ]
    carried = [plan.carried_file(name) for name in _carried_names(plan)]
    return template.render(
        "dockerfile_on_base.j2",
        plan=plan,
        heading=heading(plan, usage),
        script=plan.carried_file(BUILD_SCRIPT),
        arguments=index_arguments(plan.sources.pip),
        requirements=place,
        installed=(mounts, commands),
        carried=[*carried, plan.slice],
        sealed=([script], [run_step("sealed", CARRIED, base.python, at="/run/build")]),
        variables=dict(plan.runtime.env),
        labels=recipe_labels(plan),
    )


def apptainer(plan: Plan) -> str:
    """Render the target's Apptainer definition."""
    base = refuse_unknown(plan)
    nv = " --nv" if plan.runtime.is_cuda else ""
    beside = f"{plan.own}{plan.target}/"
    usage = [plan.above]
    if base.kind == "sif":
        usage.append(f"  {beside}{BASE} is {definition_text(plan.image.base.name)}, or a link to it")
    usage += [
        f"  apptainer build --notest {plan.title}.sif {beside}apptainer.def     # or singularity build",
        f"  apptainer test{nv} {plan.title}.sif     # the smoke check{', on a machine with the GPU' if nv else ''}",
        f"What is your own comes from a folder, by --bind FOLDER:{SETTINGS}, and stays out of the image:",
        "  uv.toml, cache/, netrc, and index-NAME/ of an index that is a folder",
    ]
    of_sif = base.kind == "sif"
    carried = [(plan.carried_file(name), f"{CARRIED}/{name}") for name in _carried_names(plan)]
    parts = [(file, f"{CARRIED}/{REQUIREMENTS}/") for file in plan.sources.parts]
    script = (plan.carried_file(BUILD_SCRIPT), f"{LAYERS}/{BUILD_SCRIPT}")
    commands = [(*install(step, "-"), "--break-system-packages") for step in plan.sources.pip]
    return template.render(
        "apptainer_on_base.j2",
        plan=plan,
        heading=heading(plan, usage),
        bootstrap="localimage" if of_sif else "docker",
        base=f"{beside}{BASE}" if of_sif else plan.image.base.pinned,
        sources=[*carried, (plan.slice, f"{CARRIED}/{SLICE}"), *parts, script],
        settings=[*sif.settings(plan), ("PYTHON", base.python)],
        indexes=sif.index_places(plan),
        installed=[run_step("sealed", CARRIED, base.python), *commands],
        variables=list(environment_lines_on_base(plan)),
        labels=sif.labels(plan),
        python=base.python,
    )


def _carried_names(plan: Plan) -> list[str]:
    """Name the carried files, the smoke check as one file."""
    return [SUMS, CHECK_ARCHIVE, *(name for name in plan.image.carries if not name.startswith(f"{CHECK}/"))]
