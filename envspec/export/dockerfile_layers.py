"""The stages of a Dockerfile that make the layers of an image's environment, each by itself.

A stage writes below a folder of its own, with fixed times, and the image copies that. So a layer is the same, bit for
bit, whatever lies below it: a tool more from Debian rebuilds no environment, and targets with equal requirements have
equal layers.

Each stage copies the files of the context that it reads, and names them alone: builders know by their content what to
make again. So a package that moves, or a change of the smoke check, changes no Dockerfile.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from envspec.export.building import build_settings, unpack_check
from envspec.export.dockerfile_steps import (
    BYTECODE,
    LAYERS,
    MIRRORS_SECRET,
    NETRC_SECRET,
    SCRATCH,
    SECRET,
    USE_NETRC,
    UV,
    WHEELS,
    apt,
    at,
    bytecode,
    copy,
    copy_files,
    finish,
    index_arguments,
    install,
    prefix,
    python_headers,
    run,
    set_times,
    tools,
    uv_mounts,
    with_index,
)
from envspec.export.pip_steps import fetch_words
from envspec.export.plan import (
    CARRIED,
    CHECK,
    CHECK_ARCHIVE,
    ENVIRONMENT,
    FETCH_VARIANTS,
    PYTHON,
    REQUIREMENTS,
    SUMS,
    Compiling,
    Plan,
)
from envspec.export.quote import dockerfile, shell

_FETCHED = "fetched"


def variant_stages(plan: Plan) -> Iterator[str]:
    """Render the stage that fetches, and the one that has nothing but the wheels."""
    steps = [step for step in plan.pip if step.variants]
    if not steps:
        return
    python, program = f"{ENVIRONMENT}/bin/python", plan.carried_file(FETCH_VARIANTS)
    fetches = [
        with_index(step, fetch_words(step, python, at(program), f"{LAYERS}/{WHEELS}", UV, shell)) for step in steps
    ]
    yield "\n".join(
        [
            f"FROM python AS {_FETCHED}",
            run([MIRRORS_SECRET], apt(("ca-certificates",))),
            *index_arguments(steps),
            copy_files(program),
            run([SECRET, NETRC_SECRET], [USE_NETRC, *fetches]),
        ]
    )
    yield "\n".join(
        [
            f"# What --build-context {WHEELS}=FOLDER stands in for.",
            f"FROM scratch AS {WHEELS}",
            f"COPY --from={_FETCHED} {LAYERS}/{WHEELS} /",
        ]
    )


CHANNEL_HOST = "CONDA_CHANNEL_HOST"
"""The build argument that conda packages need."""
BELOW_SOURCES = ("nvidia", "torch")
"""The layers below what is compiled, which is compiled with them."""
_CONDA_SECRETS = (
    # where micromamba looks by itself; then where its settings (`ssl_verify`) can point to
    "--mount=type=secret,id=condarc,target=/etc/conda/condarc",
    "--mount=type=secret,id=ca,target=/run/secrets/ca.pem",
    NETRC_SECRET,
)


def conda_stage(plan: Plan) -> str:
    """Render the stage that makes the conda half."""
    assert plan.explicit is not None
    return "\n".join(
        [
            "# The conda half, from the files that the lock names.",
            "FROM ${MICROMAMBA_IMAGE} AS conda",
            "USER 0",
            "# The host of your channels: a lock names none.",
            f"ARG {CHANNEL_HOST}",
            f"ARG SOURCE_DATE_EPOCH={plan.epoch}",
            copy_files(plan.explicit, bytecode(plan)),
            run(
                [
                    "--mount=type=cache,target=/opt/conda/pkgs,sharing=locked",
                    *_CONDA_SECRETS,
                ],
                [
                    f': "${{{CHANNEL_HOST}:?give the host of your channels with --build-arg {CHANNEL_HOST}=}}"',
                    USE_NETRC,
                    f'sed "s|  # .*||; s|[$]{{CONDA_CHANNEL_HOST}}|$CONDA_CHANNEL_HOST|" {at(plan.explicit)}'
                    " > /tmp/explicit.txt",
                    "MAMBA_ALWAYS_COPY=true micromamba create --yes --quiet --root-prefix /opt/conda"
                    f" --prefix {ENVIRONMENT} --file /tmp/explicit.txt",
                    # conda's own bytecode holds the time of each file
                    f"find {ENVIRONMENT} -name '*.pyc' -delete",
                    f"{ENVIRONMENT}/bin/python -ISB {BYTECODE} {ENVIRONMENT}/lib",
                    # the file by which conda tools know an environment; what stands in it are times
                    f": > {ENVIRONMENT}/conda-meta/history",
                    f"mkdir -p {LAYERS}/conda/opt",
                    f"mv {ENVIRONMENT} {LAYERS}/conda/opt",
                    set_times("conda"),
                ],
            ),
        ]
    )


def layer_stages(plan: Plan) -> Iterator[str]:
    """Render the stages of Python, variants, every group of wheels, what is compiled, and the carried files."""
    yield _python_stage(plan)
    yield from variant_stages(plan)
    for group in (*BELOW_SOURCES, "rest"):
        if any(step.group == group for step in plan.pip):
            yield _group_stage(plan, group)
    if plan.compiling:
        yield _compile_stage(plan, plan.compiling)
    place = f"{LAYERS}/carried{CARRIED}"
    # One mode for all, as a checkout's depends on its owner's umask.
    yield "\n".join(
        [
            "FROM python AS carried",
            *copy_carried_files(plan, place),
            run([], [*unpack_check(place, f"{ENVIRONMENT}/bin/python"), set_times("carried")]),
        ]
    )


def copy_carried_files(plan: Plan, place: str) -> Iterator[str]:
    """Copy what an image carries, by name: the smoke check as one file."""
    by_folder: dict[str, list[str]] = {"": [plan.carried_file(SUMS), plan.carried_file(CHECK_ARCHIVE)]}
    for name in plan.carries:
        if not name.startswith(f"{CHECK}/"):
            by_folder.setdefault(posixpath.dirname(name), []).append(plan.carried_file(name))
    by_folder[""].append(plan.slice)
    if plan.parts:
        by_folder[REQUIREMENTS] = list(plan.parts)
    for folder, names in by_folder.items():
        yield f"COPY --chmod=0755 {' '.join(names)} {posixpath.join(place, folder)}/".replace("//", "/")


def _python_stage(plan: Plan) -> str:
    place = f"{LAYERS}/python/opt"
    # the base's own Python stays where it is
    kept = [f"mkdir -p {place}", f"for one in {ENVIRONMENT} {PYTHON}; do [ ! -d $one ] || cp -a $one {place}; done"]
    return "\n".join(
        ["FROM ${BASE_IMAGE} AS python", "USER 0", *tools(plan, [] if plan.explicit else [*kept, set_times("python")])]
    )


def _group_stage(plan: Plan, group: str) -> str:
    steps = [step for step in plan.pip if step.group == group]
    commands = (install(step, f" --prefix {prefix(group)}") for step in steps)
    return "\n".join(
        [
            f"FROM python AS {group}",
            *index_arguments(steps),
            copy_files(*(file for step in steps for file in step.files)),
            run(uv_mounts(steps), [*commands, *finish(group)]),
        ]
    )


def _compile_stage(plan: Plan, compiling: Compiling) -> str:
    sources = [step for step in plan.pip if step.source]
    own = compiling.image == plan.base
    below = BELOW_SOURCES if compiling.sees else ()
    lines = [
        f"# {'Compiles' if compiling.sees else 'Builds'} {_compiled_names(plan, compiling)}.",
        f"FROM {'python' if own else '${COMPILER_IMAGE}'} AS compile",
        *([] if own else ["USER 0"]),
        f"ARG SOURCE_DATE_EPOCH={plan.epoch}",
        run([MIRRORS_SECRET], apt(compiling.apt, python_headers(plan), plan.snapshot if own else None)),
        *([] if own else tools(plan)),
        *(copy(group) for group in below if any(step.group == group for step in plan.pip)),
        *index_arguments([*compiling.wheels, *sources]),
    ]
    if compiling.wheels:
        lines.append(copy_files(*(file for step in compiling.wheels for file in step.files)))
        lines.append(run(uv_mounts(compiling.wheels), map(install, compiling.wheels)))
    if compiling.env:
        lines.append(" ".join(["ENV", *(f"{name}={dockerfile(value)}" for name, value in compiling.env.items())]))
    if sources:
        lines.append(copy_files(*(file for step in sources for file in step.files)))
        commands = [
            *build_settings(plan, SCRATCH),
            *(install(step, f" --prefix {prefix('source')}") for step in sources),
            *finish("source"),
        ]
        lines.append(run([SECRET], commands))
    return "\n".join(lines)


def _compiled_names(plan: Plan, compiling: Compiling) -> str:
    if compiling.packages:
        return f"what the lock has as source only: {', '.join(compiling.packages)}"
    return plan.project.name if plan.project else "nothing"
