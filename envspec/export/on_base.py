"""Recipes of a target on a base, a vendor's image or a SIF: the base by its digest, and in a layer what the lock adds.

The base's own Python gets the packages, where `pip install` would put them: the programs of the base, such as torchrun,
see them too. Its entry point, its user and its variables stay. Only what the lock adds is written, every file by its
hash and without dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.export import apptainer_scripts as scripts, template
from envspec.export.building import unpack_check
from envspec.export.dockerfile_steps import UV_MOUNTS, carried_copies, index_arguments, install, uv_mounts
from envspec.export.plan import (
    BASE_LABELS,
    BUILD_SCRIPTS,
    CARRIED,
    REQUIREMENTS,
    OnBase,
    Plan,
    hash_heading,
    heading,
    recipe_labels,
)
from envspec.export.quote import shell

_TOOLS = "/run/uv"
"""Where uv's stage is mounted."""
_UV = "/opt/uv"
"""uv, while a SIF is built."""
SIF = "base.sif"


def refuse_unknown(plan: Plan) -> OnBase:
    """Give the base of a target that has one. Raises InputError for what recipes on a base don't know yet."""
    for found, what in ((plan.project, "the spec's own project"), (plan.has_variants, "variants of wheels")):
        if found:
            raise InputError(
                f"{plan.target}: recipes on a base don't know {what} yet", hint="install the environment on a prefix"
            )
    assert plan.on_base is not None, "asked of targets that have one"
    return plan.on_base


def dockerfile(plan: Plan) -> str:
    """Render the target's Dockerfile. Raises InputError for a base that is no image."""
    base = refuse_unknown(plan)
    if base.kind != "image":
        hint = "export its Apptainer definition: --format apptainer"
        raise InputError(f"{plan.target} comes on top of a {base.kind}, and a Dockerfile's base is an image", hint=hint)
    options = f"--build-arg SOURCE_DATE_EPOCH={plan.epoch} --platform {plan.oci_platform}"
    contexts = "".join(f" --build-context {one.context}={shell(one.folder or 'FOLDER')}" for one in plan.local_indexes)
    usage = [
        plan.above,
        f"  docker buildx build {options}{contexts} \\",
        f"    -f {plan.own}{plan.target}/Dockerfile -t {plan.image} .",
        f"  docker run --rm -it{' --gpus all' if plan.is_cuda else ''} --shm-size {plan.shm} {plan.image}",
        "",
        "Its entry point, user and variables are the base's. Other indexes, mirrors and logins: in a uv.toml, by",
        "--secret id=uv,src=uv.toml. It stays out of the image.",
    ]
    place = f"{CARRIED}/{REQUIREMENTS}"
    at_base = replace(plan, parts=())
    python = f"PYTHON={base.python}"
    return template.render(
        "dockerfile_on_base.j2",
        plan=plan,
        heading=heading(plan, usage),
        scripts=plan.carried_file(BUILD_SCRIPTS),
        arguments=index_arguments(plan.pip),
        place=place,
        mounts=[*UV_MOUNTS, *uv_mounts(plan.pip)],
        commands=[
            (f"UV={_TOOLS}/uv", python, *install(step, "-", "/run/build", place), "--break-system-packages")
            for step in plan.pip
        ],
        copies=list(carried_copies(at_base, CARRIED)),
        sums=["set -eu", *unpack_check(CARRIED, base.python)],
        variables=dict(plan.env),
        labels=recipe_labels(plan),
    )


def apptainer(plan: Plan) -> str:
    """Render the target's Apptainer definition."""
    base = refuse_unknown(plan)
    nv = " --nv" if plan.is_cuda else ""
    beside = f"{plan.own}{plan.target}/"
    usage = [plan.above]
    if base.kind == "sif":
        usage.append(f"  {beside}{SIF} is {scripts.safe_text(plan.base.name)}, or a link to it")
    usage += [
        f"  apptainer build --notest {plan.title}.sif {beside}apptainer.def     # or singularity build",
        f"  apptainer test{nv} {plan.title}.sif     # the smoke check{', on a machine with the GPU' if nv else ''}",
        "",
        f"What is your own comes from a folder, by --bind FOLDER:{scripts.SETTINGS}, and stays out of the image:",
        "  uv.toml, cache/, netrc, and index-NAME/ of an index that is a folder",
    ]
    return scripts.definition(_definition(plan, base, usage, f"{beside}{SIF}"))


def environment_lines(plan: Plan) -> Iterator[str]:
    """Give the lines that set the variables of a SIF on a base, or of what lies over one: a caller's for another Python
    stay outside, but for PYTHONPATH, which the base may need."""
    yield scripts.EMPTY_PYTHONS.replace(" PATH ", " ")
    yield from scripts.export_variables(plan.env)


def _definition(plan: Plan, base: OnBase, usage: list[str], sif: str) -> Iterator[str]:
    yield from hash_heading(plan, usage)
    yield ""
    yield from scripts.stage_header(plan.uv, "uv")
    if base.kind == "sif":
        yield from ("Bootstrap: localimage", f"From: {sif}", "Stage: final", "")
    else:
        yield from scripts.stage_header(plan.base, "final")
    yield from scripts.section("files from uv", [f"/uv {_UV}"])
    yield from scripts.section("files", scripts.carried_lines(plan))
    yield from scripts.section("post", scripts.post_on_base(plan, base.python, _UV))
    yield from scripts.section("environment", environment_lines(plan))
    found = [(name, value) for name, value in recipe_labels(plan).items() if not name.startswith(BASE_LABELS)]
    yield from scripts.section("labels", [f"{name} {scripts.safe_text(value)}" for name, value in found])
    words = f"{base.python} -I {CARRIED}/check --config {CARRIED}/target.json --quick"
    yield from ("%test", f"    exec {words}")
