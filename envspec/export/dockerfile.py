"""Dockerfile and .dockerignore, for BuildKit, buildah and podman. The build context is the spec's folder,
or a repository's `recipes/` (`Plan.shares`). What a RUN does stands in the scripts of `carried/build`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from envspec.export import apt_mirrors, on_base, template
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
    carried_copies,
    index_arguments,
    index_words,
    install,
    uv_mounts,
)
from envspec.export.pip_steps import LAYERS as ALL_LAYERS
from envspec.export.plan import (
    BUILD_SCRIPTS,
    CARRIED,
    ENTRYPOINT,
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
_MADE_BY = {"source": "compile", "project": "own"}
"""Layers of stages with another name."""
_TOOLS = "/run/python"
"""Where the image's own RUNs see the stage that has the scripts."""


def render(plan: Plan) -> dict[str, str]:
    """Render the target's Dockerfile, and the `.dockerignore` that limits every target's context."""
    if plan.on_base is None:
        text = template.render("dockerfile.j2", **_values(plan))
    else:
        text = on_base.dockerfile(plan)
    below = "*/" if plan.shares else ""
    kept = "".join(f"!{path}\n" for path in (plan.carried_folder, f"{below}{REQUIREMENTS}", f"{below}*/{SLICE}"))
    return {
        f"{plan.target}/{FILE}": template.fold(text),
        f"../{IGNORE}" if plan.shares else IGNORE: f"# {MARK}\n*\n{kept}",
    }


def _usage(plan: Plan) -> Iterator[str]:
    yield plan.above
    contexts = [f"{one.context}={shell(one.folder or 'FOLDER')}" for one in plan.local_indexes]
    if plan.project:
        contexts.insert(0, f"{CONTEXT}={shell(plan.project.folder or 'FOLDER')}")
    words = ["docker buildx build", f"--build-arg SOURCE_DATE_EPOCH={plan.epoch}", f"--platform {plan.oci_platform}"]
    words += [f"--build-context {one}" for one in contexts]
    if plan.explicit:
        words.append(f"--build-arg {CHANNEL_HOST}=host.of.your.channels")
    yield from _broken([*words, f"-f {plan.own}{plan.target}/{FILE} -t {plan.image} ."])
    gpus = ["--gpus all"] if plan.is_cuda else []
    shared, mounted = f"--shm-size {plan.shm}", f'-v "$PWD:{WORKSPACE}" {plan.image}'
    ports = [f"-p {one.mapping}" for one in plan.services]
    yield from _broken(["docker run --rm -it", *gpus, shared, *ports, mounted])
    if plan.is_cuda and plan.torch:
        program = "torchrun --standalone --nproc-per-node gpu train.py"
        yield from _broken(["docker run --rm", *gpus, shared, mounted, program])
    if plan.is_cuda:
        yield """  (a MIG instance alone: --gpus '"device=MIG-..."', by its name of nvidia-smi -L)"""
    yield "Other indexes, mirrors and logins: in a uv.toml, by --secret id=uv,src=uv.toml. It stays out of the image."
    yield f"Mirrors of apt's archives: words like debian=URL in a file, by --secret id={apt_mirrors.FILE},src=FILE."
    if plan.torch_backend:
        yield f"A mirror of the PyTorch index {plan.torch_backend}: --build-arg {MIRROR}=URL"
    if plan.takes_netrc:
        yield "Logins of the spec's own indexes, and of those with variants, may be in --secret id=netrc, too."
    if plan.has_variants:
        yield f"They come from a bundle instead by --build-context {WHEELS}=BUNDLE/wheels."
    if plan.explicit:
        yield "Channels with a login or a certificate of their own: --secret id=netrc, id=condarc and id=ca."
    yield from (f"The files of the index {one.name} come from its folder." for one in plan.local_indexes)
    if plan.project:
        yield f"{plan.project.name} comes from its folder, as far as a {IGNORE} there lets it."
        if plan.project.versioned:
            yield f"Its version, where git would tell it: --build-arg {VERSION}=1.2.3"


def _broken(words: Iterable[str]) -> Iterator[str]:
    """Break a command into the lines of a comment."""
    return iter(" \\\n    ".join(fill(words, 106)).replace("docker", "  docker", 1).split("\n"))


def _values(plan: Plan) -> dict[str, Any]:
    check = HEALTH_CHECK
    project = plan.project
    return {
        "plan": plan,
        "heading": heading(plan, _usage(plan)),
        "images": dict(_images(plan)),
        "programs": [plan.carried_file(BUILD_SCRIPTS), plan.carried_file("bytecode.py")],
        "python": _at(plan.build_table) if plan.build_table else plan.python_request,
        "fetched": _fetch_stage(plan),
        "groups": [_group(plan, one) for one in (*_BELOW_SOURCES, "rest") if _has(plan, one)],
        "compiling": plan.compiling and _compiling(plan, plan.compiling),
        "carried": list(carried_copies(plan, f"{LAYERS}/carried{CARRIED}")),
        "project": project and {**_install_step(project.wheels, "-"), "compiled": project.compiled},
        **_system(plan),
        "layers": [(layer, _MADE_BY.get(layer, layer)) for layer in ALL_LAYERS if _has(plan, layer)],
        "variables": image_variables(plan),
        "labels": recipe_labels(plan),
        "ports": [str(one.port) for one in plan.services],
        "times": [
            f"--interval={check.interval}s",
            f"--timeout={check.timeout}s",
            f"--start-period={check.start_period}s",
        ],
        "check": check,
        "entrypoint": ENTRYPOINT,
    }


def _images(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "BASE_IMAGE", plan.base.pinned
    yield "UV_IMAGE", plan.uv.pinned
    if plan.micromamba:
        yield "MICROMAMBA_IMAGE", plan.micromamba.pinned
    if plan.compiling and plan.compiling.image != plan.base:
        yield "COMPILER_IMAGE", plan.compiling.image.pinned
    for one in plan.borrowed:
        yield f"{one.name.upper().replace('-', '_')}_IMAGE", one.image.pinned


def _has(plan: Plan, layer: str) -> bool:
    there = {"python": not plan.explicit, "conda": bool(plan.explicit), "project": bool(plan.project), "carried": True}
    return there[layer] if layer in there else any(step.group == layer for step in plan.pip)


def _at(file: str) -> str:
    return f"{LAYERS}/{file.rpartition('/')[2]}"


def _install_step(steps: Iterable[PipStep], layer: str) -> dict[str, Any]:
    steps = tuple(steps)
    return {
        "name": layer,
        "arguments": index_arguments(steps),
        "files": [file for step in steps for file in step.files],
        "mounts": [*UV_MOUNTS, *uv_mounts(steps)],
        "commands": [install(step, layer) for step in steps],
    }


def _group(plan: Plan, group: str) -> dict[str, Any]:
    return _install_step((step for step in plan.pip if step.group == group), group)


def _fetch_stage(plan: Plan) -> dict[str, Any] | None:
    """Make the stage that fetches the wheels of variants."""
    steps = [step for step in plan.pip if step.variants]
    return (
        {
            "arguments": index_arguments(steps),
            "files": [plan.carried_file(FETCH_VARIANTS)],
            "mounts": [SECRET, NETRC_SECRET],
            "commands": [("sh", f"{LAYERS}/fetch.sh", *index_words(step), "--", *_variants(step)) for step in steps],
        }
        if steps
        else None
    )


def _variants(step: PipStep) -> Iterator[str]:
    for one in step.variants:
        yield from (one.file, one.sha256, str(one.size or 0))


def _compiling(plan: Plan, compiling: Compiling) -> dict[str, Any]:
    own = compiling.image == plan.base
    sources = [step for step in plan.pip if step.source]
    packages = f"what the lock has as source only: {', '.join(compiling.packages)}"
    what = packages if compiling.packages else plan.project.name if plan.project else "nothing"
    built = {**_install_step(sources, "source"), "mounts": [SECRET, *uv_mounts(sources)]}
    if compiling.sees:
        built["commands"] = [("sh", f"{LAYERS}/compile.sh", *words[3:]) for words in built["commands"]]
    return {
        "own": own,
        "what": f"{'Compiles' if compiling.sees else 'Builds'} {what}",
        "apt": _apt(plan, compiling.apt, headers=True, snapshot=own),
        "below": [one for one in _BELOW_SOURCES if compiling.sees and _has(plan, one)],
        "arguments": index_arguments([*compiling.wheels, *sources]),
        "stages": [_install_step(compiling.wheels, "-"), built],
        "env": compiling.env,
    }


def _apt(plan: Plan, packages: Sequence[str], *, headers: bool, snapshot: bool = True, at: str = LAYERS) -> Command:
    words = ["sh", f"{at}/apt.sh"]
    if snapshot and plan.snapshot:
        words += ["--as-of", apt_mirrors.day_of(plan.snapshot)]
    if headers and not plan.brings_headers:
        words += ["--headers", plan.python]
    return (*words, *packages)


def _system(plan: Plan) -> dict[str, Any]:
    """Make the image's own RUNs: Debian's packages that every image of the kind has, then the spec's and the user."""
    scripts, see = f"{_TOOLS}{LAYERS}", f"--mount=type=bind,from=python,target={_TOOLS}"
    more = [_apt(plan, plan.spec_apt, headers=False, at=scripts)] if plan.spec_apt else []
    links = [(name, target) for one in plan.toolkit for name, target in one.links]
    for folder in sorted({name.rpartition("/")[0] for name, _ in links}):
        own = [(name.rpartition("/")[2], target) for name, target in links if name.startswith(f"{folder}/")]
        more.append(("sh", f"{scripts}/links.sh", folder, *(word for pair in own for word in pair)))
    digest = f"build={build_digest()}"
    first, *others = [*more, ("sh", f"{scripts}/user.sh", plan.user)]
    return {
        "tools": {
            "mounts": [see, MIRRORS_SECRET],
            "commands": [(digest, *_apt(plan, plan.apt, headers=bool(plan.torch), at=scripts))],
        },
        "own": {
            "mounts": [see, *([MIRRORS_SECRET] if plan.spec_apt else [])],
            "commands": [(digest, *first), *others],
        },
    }
