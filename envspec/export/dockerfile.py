"""Dockerfile and .dockerignore, for BuildKit, buildah and podman. The build context is the spec's folder,
or a repository's `recipes/` (`Plan.shares`). What a RUN does stands in `carried/build.sh`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from envspec.export import apt_mirrors, nvcc, on_base, template
from envspec.export.carried import build_digest
from envspec.export.dockerfile_steps import (
    CONTEXT,
    LAYERS,
    MIRROR,
    MIRRORS_SECRET,
    NETRC_SECRET,
    SECRET,
    UV_MOUNTS,
    VERSION,
    WHEELS,
    debian_words,
    fetch,
    further_names,
    in_layers,
    index_arguments,
    install,
    python_words,
    run_step,
    uv_mounts,
)
from envspec.export.pip_steps import LAYERS as ALL_LAYERS
from envspec.export.plan import (
    BUILD_SCRIPT,
    ENTRYPOINT,
    EPOCH,
    FETCH_VARIANTS,
    HEALTH_CHECK,
    MARK,
    REQUIREMENTS,
    SLICE,
    WORKSPACE,
    Compiling,
    PipStep,
    Plan,
    heading,
    image_variables,
    recipe_labels,
)
from envspec.export.quote import fill, shell
from envspec.export.template import Command

FILE = "Dockerfile"
IGNORE = ".dockerignore"
CHANNEL_HOST = "CONDA_CHANNEL_HOST"
"""The build argument that conda packages need."""
_BELOW_SOURCES = ("nvidia", "torch")
"""The layers below what is compiled, which is compiled with them."""
_STAGES = {"stack": _BELOW_SOURCES, "rest": ("rest",)}
"""The stages that install wheels, each with its layers: a torch and the CUDA libraries of its release move together."""
_MADE_BY = {**dict.fromkeys(_BELOW_SOURCES, "stack"), "source": "compile", "project": "own"}
"""Layers of stages with another name."""
_TOOLS = "/run/build"
"""The mount point of the script in the image's own RUNs."""
_CONDA_MOUNTS = (
    "--mount=type=cache,target=/opt/conda/pkgs,sharing=locked",
    "--mount=type=secret,id=condarc,target=/etc/conda/condarc",
    "--mount=type=secret,id=ca,target=/run/secrets/ca.pem",
    NETRC_SECRET,
)

_Run = tuple[Sequence[str], Sequence[Command]]
"""The mounts of a RUN, and its commands."""


def render(plan: Plan) -> dict[str, str]:
    """Render the target's Dockerfile, and the `.dockerignore` that limits every target's context."""
    if plan.runtime.on_base is None:
        text = template.render("dockerfile.j2", **_values(plan))
    else:
        text = on_base.dockerfile(plan)
    below = "*/" if plan.shares else ""
    exceptions = "".join(f"!{path}\n" for path in (plan.carried_folder, f"{below}{REQUIREMENTS}", f"{below}*/{SLICE}"))
    return {
        f"{plan.target}/{FILE}": template.fold(text),
        f"../{IGNORE}" if plan.shares else IGNORE: f"# {MARK}\n*\n{exceptions}",
    }


def _heading(plan: Plan) -> list[str]:
    mark, what = heading(plan)
    return [mark, f"{what} {plan.above}", *_usage(plan)]


def _usage(plan: Plan) -> Iterator[str]:
    contexts = [f"{index.context}={shell(index.folder or 'FOLDER')}" for index in plan.sources.local_indexes]
    if plan.sources.project:
        contexts.insert(0, f"{CONTEXT}={shell(plan.sources.project.folder or 'FOLDER')}")
    words = ["docker buildx build", f"--build-arg SOURCE_DATE_EPOCH={EPOCH}", f"--platform {plan.runtime.oci_platform}"]
    words += [f"--build-context {line}" for line in contexts]
    if plan.sources.explicit:
        words.append(f"--build-arg {CHANNEL_HOST}=host.of.your.channels")
    yield from _broken([*words, f"-f {plan.own}{plan.target}/{FILE} -t {plan.image_name} ."])
    gpus = ["--gpus all"] if plan.runtime.is_cuda else []
    ports = [f"-p {service.mapping}" for service in plan.image.services]
    run = [
        "docker run --rm -it",
        *gpus,
        f"--shm-size {plan.image.shm}",
        *ports,
        f'-v "$PWD:{WORKSPACE}" {plan.image_name}',
    ]
    yield from _broken(run)
    if plan.runtime.is_cuda:
        train, instance = "torchrun --standalone --nproc-per-node gpu train.py", "--gpus '\"device=MIG-...\"'"
        yield f"  on all GPUs: {train}; on one MIG instance: {instance}"
    secrets = ["--secret id=uv,src=FILE", f"id={apt_mirrors.FILE}", *["id=netrc"] * plan.sources.takes_netrc]
    mirror = [f"--build-arg {MIRROR}=URL"] if plan.sources.torch_backend else []
    yield f"Mirrors and logins stay outside: {', '.join([*secrets, *mirror])}"
    if plan.sources.has_variants:
        yield f"Wheels of variants come from a bundle instead by --build-context {WHEELS}=BUNDLE/wheels."
    if plan.sources.explicit:
        yield "Channels with a login or a certificate of their own: --secret id=netrc, id=condarc and id=ca."
    if plan.sources.project and plan.sources.project.versioned:
        yield f"The version of {plan.sources.project.name}, where git would tell it: --build-arg {VERSION}=1.2.3"


def _broken(words: Iterable[str]) -> Iterator[str]:
    """Break a command into the lines of a comment."""
    return iter(" \\\n    ".join(fill(words, 112)).replace("docker", "  docker", 1).split("\n"))


def _values(plan: Plan) -> dict[str, Any]:
    check = HEALTH_CHECK
    project = plan.sources.project
    return {
        "plan": plan,
        "heading": _heading(plan),
        "images": dict(_images(plan)),
        "programs": [plan.carried_file(BUILD_SCRIPT), plan.carried_file("bytecode.py")],
        "conda": plan.sources.explicit
        and (_CONDA_MOUNTS, [run_step("conda", "conda", in_layers(plan.sources.explicit))]),
        "python": (UV_MOUNTS, [python_words(plan, "python")]),
        "fetched": _fetch_stage(plan),
        "stages": [(name, own) for name, groups in _STAGES.items() if (own := list(_groups(plan, groups)))],
        "compiling": plan.sources.compiling and _compiling(plan, plan.sources.compiling),
        "requirements": f"{plan.own}{REQUIREMENTS}",
        "carried": ((), [run_step("carried", "carried", "/opt/env/bin/python", *further_names(plan))]),
        "project": project
        and {
            **_install_step(project.wheels, "-"),
            "build": ((), [run_step("project", "project", project.name, *["compiled"] * project.compiled)]),
        },
        **_system(plan),
        "layers": [(layer, _MADE_BY.get(layer, layer)) for layer in ALL_LAYERS if _has(plan, layer)],
        "variables": image_variables(plan),
        "labels": recipe_labels(plan),
        "ports": [str(service.port) for service in plan.image.services],
        "times": [
            f"--interval={check.interval}s",
            f"--timeout={check.timeout}s",
            f"--start-period={check.start_period}s",
        ],
        "check": check,
        "entrypoint": ENTRYPOINT,
    }


def _images(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "BASE_IMAGE", plan.image.base.pinned
    yield "UV_IMAGE", plan.image.uv.pinned
    if plan.image.micromamba:
        yield "MICROMAMBA_IMAGE", plan.image.micromamba.pinned
    if plan.sources.compiling and plan.sources.compiling.image != plan.image.base:
        yield "COMPILER_IMAGE", plan.sources.compiling.image.pinned
    for source in plan.image.borrowed:
        yield f"{source.name.upper().replace('-', '_')}_IMAGE", source.image.pinned


def _has(plan: Plan, layer: str) -> bool:
    present = {
        "python": not plan.sources.explicit,
        "conda": bool(plan.sources.explicit),
        "project": bool(plan.sources.project),
        "carried": True,
    }
    return present[layer] if layer in present else any(step.group == layer for step in plan.sources.pip)


def _install_step(steps: Iterable[PipStep], layer: str) -> dict[str, Any]:
    steps = tuple(steps)
    return {
        "name": layer,
        "arguments": index_arguments(steps),
        "files": [file for step in steps for file in step.files],
        "run": ([*UV_MOUNTS, *uv_mounts(steps)], [install(step, layer) for step in steps]),
    }


def _groups(plan: Plan, groups: Iterable[str]) -> Iterator[dict[str, Any]]:
    for group in groups:
        if own := [step for step in plan.sources.pip if step.group == group]:
            yield _install_step(own, group)


def _fetch_stage(plan: Plan) -> dict[str, Any] | None:
    """Make the stage that fetches the wheels of variants."""
    steps = [step for step in plan.sources.pip if step.variants]
    return (
        {
            "apt": ([MIRRORS_SECRET], [run_step("apt", "ca-certificates")]),
            "arguments": index_arguments(steps),
            "files": [plan.carried_file(FETCH_VARIANTS)],
            "run": ([SECRET, NETRC_SECRET], [fetch(step) for step in steps]),
        }
        if steps
        else None
    )


def _compiling(plan: Plan, compiling: Compiling) -> dict[str, Any]:
    own = compiling.image == plan.image.base
    sources = [step for step in plan.sources.pip if step.source]
    packages = f"what the lock has as source only: {', '.join(compiling.packages)}"
    what = packages if compiling.packages else plan.sources.project.name if plan.sources.project else "nothing"
    commands = [install(step, "source", compiles=compiling.sees) for step in sources]
    built = {**_install_step(sources, "source"), "run": ([SECRET, *uv_mounts(sources)], commands)}
    wheels = _install_step(compiling.wheels, "-")
    seen = dict(wheels["arguments"])
    built["arguments"] = [pair for pair in built["arguments"] if pair[0] not in seen]
    return {
        "own": own,
        "what": f"{'Compiles' if compiling.sees else 'Builds'} {what}",
        "apt": ([MIRRORS_SECRET], [debian_words(plan, compiling.apt, headers=True, dated=own)]),
        "python": (UV_MOUNTS, [python_words(plan, "-")]),
        "below": [layer for layer in _BELOW_SOURCES if compiling.sees and _has(plan, layer)],
        "stages": [wheels, built],
        "env": compiling.env,
    }


def _system(plan: Plan) -> dict[str, _Run]:
    """Make the image's own RUNs: Debian's packages that every image of the kind has, then the spec's and the user."""
    at, see = _TOOLS, f"--mount=from=python,source={LAYERS},target={_TOOLS}"
    cuda = [word for folder in nvcc.folders(plan) for word in ("--cuda", folder)]
    packages = debian_words(plan, plan.image.spec_apt, headers=False)[3:] if plan.image.spec_apt else ()
    digest = f"build={build_digest()}"
    own = (digest, *run_step("own", plan.image.user, *cuda, *packages, at=at))
    return {
        "tools": (
            [see, MIRRORS_SECRET],
            [(digest, *debian_words(plan, plan.image.apt, headers=bool(plan.runtime.torch), at=at))],
        ),
        "own": ([see, *([MIRRORS_SECRET] if plan.image.spec_apt else [])], [own]),
    }
