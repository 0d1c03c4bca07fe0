"""Dockerfile and .dockerignore, for BuildKit, buildah and podman. The build context is the spec's folder,
or a repository's `recipes/` (`Plan.shares`).

Layers, from the bottom: Debian's packages that every image of the kind has; the spec's own, and the user; then the
environment's, in the order of `envspec.export.pip_steps`, each copied from the stage that makes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from envspec.export import apt_mirrors, nvcc, on_base
from envspec.export.dockerfile_layers import CHANNEL_HOST, conda_stage, layer_stages
from envspec.export.dockerfile_steps import (
    CONTEXT,
    MIRROR,
    MIRRORS_SECRET,
    VERSION,
    WHEELS,
    apt,
    copy,
    many,
    project_stage,
    python_headers,
    run,
    user,
    with_times,
)
from envspec.export.pip_steps import LAYERS
from envspec.export.plan import (
    ENTRYPOINT,
    HEALTH_CHECK,
    MARK,
    REQUIREMENTS,
    SLICE,
    UID,
    WORKSPACE,
    Plan,
    hash_heading,
    image_variables,
    recipe_labels,
)
from envspec.export.quote import dockerfile, shell

FILE = "Dockerfile"
IGNORE = ".dockerignore"
_ONE_INSTANCE = """  (a MIG instance alone: --gpus '"device=MIG-..."', by its name of nvidia-smi -L)"""
_MADE_BY = {"source": "compile", "project": "own"}
"""Layers of stages with another name."""


def render(plan: Plan) -> dict[str, str]:
    """Render the target's Dockerfile, and the `.dockerignore` that limits every target's context."""
    parts = (
        [_head(plan), _arguments(plan), *_stages(plan), _final(plan)]
        if plan.on_base is None
        else [on_base.dockerfile(plan).rstrip()]
    )
    below = "*/" if plan.shares else ""
    kept = "".join(f"!{path}\n" for path in (plan.carried_folder, f"{below}{REQUIREMENTS}", f"{below}*/{SLICE}"))
    return {
        f"{plan.target}/{FILE}": "\n\n".join(part for part in parts if part) + "\n",
        f"../{IGNORE}" if plan.shares else IGNORE: f"# {MARK}\n*\n{kept}",
    }


def _head(plan: Plan) -> str:
    options = ["--build-arg SOURCE_DATE_EPOCH=" + str(plan.epoch), f"--platform {plan.oci_platform}"]
    if plan.project:
        options.append(f"--build-context {CONTEXT}={shell(plan.project.folder or 'FOLDER')}")
    options += [f"--build-context {one.context}={shell(one.folder or 'FOLDER')}" for one in plan.local_indexes]
    if plan.explicit:
        options.append(f"--build-arg {CHANNEL_HOST}=host.of.your.channels")
    usage = [
        plan.above,
        f"  docker buildx build {' '.join(options)} -f {plan.own}{plan.target}/{FILE} -t {plan.image} .",
        f"  {_run(plan)}",
        *([f"  {_train(plan)}"] if plan.is_cuda and plan.torch else []),
        *([_ONE_INSTANCE] if plan.is_cuda else []),
        "",
        "Other indexes, mirrors and logins: in a uv.toml, by --secret id=uv,src=uv.toml. It stays out of the image.",
        f"Mirrors of apt's archives: words like debian=URL in a file, by --secret id={apt_mirrors.FILE},src=FILE.",
    ]
    if plan.torch_backend:
        usage.append(f"A mirror of the PyTorch index {plan.torch_backend}: --build-arg {MIRROR}=URL")
    if plan.takes_netrc:
        usage.append("Logins of the spec's own indexes, and of those with variants, may be in --secret id=netrc, too.")
    if plan.has_variants:
        usage.append(f"They come from a bundle instead by --build-context {WHEELS}=BUNDLE/wheels.")
    if plan.explicit:
        usage.append("Channels with a login or a certificate of their own: --secret id=netrc, id=condarc and id=ca.")
    usage += [f"The files of the index {one.name} come from its folder." for one in plan.local_indexes]
    if plan.project:
        usage.append(f"{plan.project.name} comes from its folder, as far as a {IGNORE} there lets it.")
        if plan.project.versioned:
            usage.append(f"Its version, where git would tell it: --build-arg {VERSION}=1.2.3")
    # Debian keeps one version of a package, so none can be pinned; a stage before the last may end as root, and
    # layers that move apart are apart.
    lint = "# hadolint global ignore=DL3002,DL3008,DL3059"
    # No `# syntax=` line: BuildKit reads all of this by itself, and would ask a registry for another reader.
    return "\n".join([*hash_heading(plan, usage), lint])


def _run(plan: Plan) -> str:
    """The command that starts an image as compose.yaml does."""
    words = ["docker run --rm -it", *(["--gpus all"] if plan.is_cuda else []), f"--shm-size {plan.shm}"]
    words += [f"-p {one.mapping}" for one in plan.services]
    return " ".join([*words, f'-v "$PWD:{WORKSPACE}"', plan.image])


def _train(plan: Plan) -> str:
    """The command that trains on all GPUs of a machine."""
    shared = f'--gpus all --shm-size {plan.shm} -v "$PWD:{WORKSPACE}"'
    return f"docker run --rm {shared} {plan.image} torchrun --standalone --nproc-per-node gpu train.py"


def _arguments(plan: Plan) -> str:
    lines = [f"ARG BASE_IMAGE={dockerfile(plan.base.pinned)}", f"ARG UV_IMAGE={dockerfile(plan.uv.pinned)}"]
    if plan.micromamba:
        lines.append(f"ARG MICROMAMBA_IMAGE={dockerfile(plan.micromamba.pinned)}")
    if plan.compiling and plan.compiling.image != plan.base:
        lines.append(f"ARG COMPILER_IMAGE={dockerfile(plan.compiling.image.pinned)}")
    lines += [f"ARG {_image_argument(one.name)}={dockerfile(one.image.pinned)}" for one in plan.borrowed]
    return "\n".join(lines)


def _image_argument(service: str) -> str:
    return f"{service.upper().replace('-', '_')}_IMAGE"


def _stages(plan: Plan) -> Iterator[str]:
    yield "FROM ${UV_IMAGE} AS uv"
    for one in plan.borrowed:
        yield f"FROM ${{{_image_argument(one.name)}}} AS {one.name}"
    for index in plan.local_indexes:
        yield f"# What --build-context {index.context}=FOLDER stands in for.\nFROM ${{UV_IMAGE}} AS {index.context}"
    if plan.explicit:
        yield conda_stage(plan)
    yield from layer_stages(plan)
    if plan.project:
        yield f"# What --build-context {CONTEXT}=FOLDER stands in for.\nFROM ${{UV_IMAGE}} AS {CONTEXT}"
        yield project_stage(plan, plan.project)


def _final(plan: Plan) -> str:
    headers = python_headers(plan) if plan.torch else ()
    more = apt(plan.spec_apt, snapshot=plan.snapshot) if plan.spec_apt else []
    lines = [
        "FROM ${BASE_IMAGE}",
        "USER 0",
        f"ARG SOURCE_DATE_EPOCH={plan.epoch}",
        run([MIRRORS_SECRET], with_times(apt(plan.apt, headers, plan.snapshot))),
        run([MIRRORS_SECRET] if more else [], with_times([*more, *user(plan.user), *nvcc.links(plan)])),
    ]
    lines += [f"COPY --from={one.name} {source} {target}" for one in plan.borrowed for source, target in one.copies]
    lines += [copy(layer, _MADE_BY.get(layer)) for layer in LAYERS if _has(plan, layer)]
    return "\n".join([*lines, *_settings(plan)])


def _has(plan: Plan, layer: str) -> bool:
    there = {"python": not plan.explicit, "conda": bool(plan.explicit), "project": bool(plan.project), "carried": True}
    return there[layer] if layer in there else any(step.group == layer for step in plan.pip)


def _settings(plan: Plan) -> Iterator[str]:
    """Render an image's metadata. It adds no layer, so a change of it rebuilds nothing."""
    check = HEALTH_CHECK
    yield many("ENV", image_variables(plan))
    yield many("LABEL", recipe_labels(plan))
    if plan.services:
        yield f"EXPOSE {' '.join(str(service.port) for service in plan.services)}"
    yield f"WORKDIR {WORKSPACE}"
    yield f"USER {UID}:{UID}"
    times = f"--interval={check.interval}s --timeout={check.timeout}s --start-period={check.start_period}s"
    yield f"HEALTHCHECK {times} CMD {json.dumps(list(check.command))}"
    yield f"ENTRYPOINT {json.dumps(list(ENTRYPOINT))}"
