"""Dockerfile and .dockerignore, for BuildKit, buildah and podman. The build context is the spec's folder.

Layers only add to each other: Debian's packages and the user; Python; CUDA's libraries, which are large and rarely
move; torch; everything else; the carried files. So a version that moves makes its own layer new and those above it, and
targets with the same requirements have the same layers.

Each RUN that reads a file of the context names its digest and checks it. That proves what is installed from, and it
makes the text of the RUN change with the file, by which builders that don't look into bind mounts know what to build
again. What is carried is copied, where all builders look, so that a change of the smoke check changes no Dockerfile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from envspec.recipes.building import build_settings
from envspec.recipes.dockerfile_project import CONTEXT, OWN, VERSION, project_stage
from envspec.recipes.dockerfile_steps import (
    BYTECODE,
    COMPILED,
    MIRROR,
    SECRET,
    at,
    bind,
    bytecode,
    checked,
    index_arguments,
    install,
    installs,
    python,
    run,
    uv_cache,
    uv_env,
    uv_mount,
)
from envspec.recipes.heading import MARK, hash_heading
from envspec.recipes.metadata import ENTRYPOINT, HEALTH_CHECK, image_variables, labels
from envspec.recipes.plan import (
    CARRIED,
    CARRIED_FOLDER,
    ENVIRONMENT,
    GROUP,
    REQUIREMENTS,
    SLICE,
    SUMS,
    UID,
    WORKSPACE,
    Compiling,
    PipStep,
    Plan,
)
from envspec.recipes.quote import dockerfile, shell

FILE = "Dockerfile"
IGNORE = ".dockerignore"

CHANNEL_HOST = "CONDA_CHANNEL_HOST"
"""The build argument that conda packages need."""

_LOW = ("nvidia", "torch")
"""The groups below what is compiled, which is compiled with them."""
_NETRC = "/run/secrets/netrc"
_CONDA_SECRETS = (
    # where micromamba looks by itself; then where its settings (`ssl_verify`) can point to
    "--mount=type=secret,id=condarc,target=/etc/conda/condarc",
    "--mount=type=secret,id=ca,target=/run/secrets/ca.pem",
    f"--mount=type=secret,id=netrc,target={_NETRC}",
)


def render(plan: Plan) -> dict[str, str]:
    """Render the target's Dockerfile, and the `.dockerignore` that limits every target's context."""
    parts = [_head(plan), _arguments(plan), *_stages(plan), _final(plan)]
    kept = "".join(f"!{path}\n" for path in (CARRIED_FOLDER, REQUIREMENTS, f"*/{SLICE}"))
    return {
        f"{plan.target}/{FILE}": "\n\n".join(part for part in parts if part) + "\n",
        IGNORE: f"# {MARK}\n*\n{kept}",
    }


def _head(plan: Plan) -> str:
    options = ["--build-arg SOURCE_DATE_EPOCH=" + str(plan.epoch), f"--platform {plan.oci_platform}"]
    if plan.project:
        options.append(f"--build-context {CONTEXT}={shell(plan.project.folder or 'FOLDER')}")
    if plan.explicit:
        options.append(f"--build-arg {CHANNEL_HOST}=host.of.your.channels")
    usage = [
        f"In the folder above this one, recipes/{plan.spec}:",
        f"  docker buildx build {' '.join(options)} -f {plan.target}/{FILE} -t {plan.image} .",
        f"  docker run --rm -it{' --gpus all' if plan.is_cuda else ''} {plan.image}",
        "",
        "Other indexes, mirrors and logins: in a uv.toml, by --secret id=uv,src=uv.toml. It stays out of the image.",
    ]
    if plan.torch_backend:
        usage.append(f"A mirror of the PyTorch index {plan.torch_backend}: --build-arg {MIRROR}=URL")
    if plan.explicit:
        usage.append("Channels with a login or a certificate of their own: --secret id=netrc, id=condarc and id=ca.")
    if plan.project:
        usage.append(f"{plan.project.name} comes from its folder, as far as a {IGNORE} there lets it.")
        if plan.project.versioned:
            usage.append(f"Its version, where git would tell it: --build-arg {VERSION}=1.2.3")
    # Debian keeps one version of a package, so none can be pinned; a stage before the last may end as root.
    lint = "# hadolint global ignore=DL3002,DL3008"
    # No `# syntax=` line: BuildKit reads all of this by itself, and would ask a registry for another reader.
    return "\n".join([*hash_heading(plan, usage), lint])


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
    if plan.explicit:
        yield _conda_stage(plan)
    if plan.compiling:
        yield _compile_stage(plan)
    if plan.project:
        yield f"# What --build-context {CONTEXT}=FOLDER stands in for.\nFROM ${{UV_IMAGE}} AS {CONTEXT}"
        yield project_stage(plan, plan.project)


def _conda_stage(plan: Plan) -> str:
    assert plan.explicit is not None
    return "\n".join(
        [
            "# The conda half, from the files that the lock names.",
            "FROM ${MICROMAMBA_IMAGE} AS conda",
            "USER 0",
            "# The host of your channels: a lock names none.",
            f"ARG {CHANNEL_HOST}",
            f"ARG SOURCE_DATE_EPOCH={plan.epoch}",
            run(
                [
                    bind(plan.explicit),
                    bind(BYTECODE),
                    "--mount=type=cache,target=/opt/conda/pkgs,sharing=locked",
                    *_CONDA_SECRETS,
                ],
                [
                    f': "${{{CHANNEL_HOST}:?give the host of your channels with --build-arg {CHANNEL_HOST}=}}"',
                    *checked(plan, [plan.explicit, BYTECODE]),
                    f"if [ -s {_NETRC} ]; then export NETRC={_NETRC}; fi",
                    f'sed "s|[$]{{CONDA_CHANNEL_HOST}}|$CONDA_CHANNEL_HOST|" {at(plan.explicit)} > /tmp/explicit.txt',
                    "MAMBA_ALWAYS_COPY=true micromamba create --yes --quiet --root-prefix /opt/conda"
                    f" --prefix {ENVIRONMENT} --file /tmp/explicit.txt",
                    # conda's own bytecode holds the time of each file
                    f"find {ENVIRONMENT} -name '*.pyc' -delete",
                    *bytecode(),
                    "rm /tmp/explicit.txt",
                    # the file by which conda tools know an environment; what stands in it are times
                    f": > {ENVIRONMENT}/conda-meta/history",
                ],
            ),
        ]
    )


def _compile_stage(plan: Plan) -> str:
    compiling = plan.compiling
    assert compiling is not None
    image = "${BASE_IMAGE}" if compiling.image == plan.base else "${COMPILER_IMAGE}"
    sources = [step for step in plan.pip if step.source]
    wheels = [*(step for step in plan.pip if step.group in _LOW), *compiling.wheels]
    lines = [
        f"# Compiles {_compiled(plan, compiling)}.",
        f"FROM {image} AS compile",
        "USER 0",
        f"ARG SOURCE_DATE_EPOCH={plan.epoch}",
        run(_apt_mounts("compile"), [*_apt(compiling.apt), *_more_apt(plan)]),
    ]
    if plan.explicit:
        lines.append(f"COPY --from=conda {ENVIRONMENT} {ENVIRONMENT}")
    lines += index_arguments([*wheels, *sources])
    # At the environment's own path, for scripts name the Python that installs them.
    commands = [*([] if plan.explicit else python(plan)), *installs(wheels)]
    if commands:
        mounts = [uv_mount(), uv_cache(), SECRET, *(bind(step.file) for step in wheels)]
        lines.append(run(mounts, [*checked(plan, [step.file for step in wheels]), uv_env(), *commands]))
    lines += [f"ENV {name}={dockerfile(value)}" for name, value in compiling.env.items()]
    files = [*(step.file for step in sources), BYTECODE]
    if sources:
        commands = [
            *checked(plan, files),
            *build_settings(plan),
            *(install(step, f" --prefix {COMPILED}") for step in sources),
            *bytecode(f"{COMPILED}/lib"),
        ]
        lines.append(run([uv_mount(), SECRET, *map(bind, files)], commands))
    return "\n".join(lines)


def _compiled(plan: Plan, compiling: Compiling) -> str:
    if compiling.packages:
        return f"what the lock has as source only: {', '.join(compiling.packages)}"
    return plan.project.name if plan.project else "nothing"


def _final(plan: Plan) -> str:
    lines = ["FROM ${BASE_IMAGE}", "USER 0", f"ARG SOURCE_DATE_EPOCH={plan.epoch}"]
    lines.append(run(_apt_mounts("final"), [*_apt(plan.apt), *_user(plan)]))
    lines += [f"COPY --from={one.name} {source} {target}" for one in plan.borrowed for source, target in one.copies]
    if plan.explicit:
        lines.append(f"COPY --from=conda {ENVIRONMENT} {ENVIRONMENT}")
    else:
        lines.append(run([uv_mount(), uv_cache(), SECRET], [uv_env(), *python(plan)]))
    said: set[str] = set()
    for group in (*_LOW, "source", "rest"):
        if group == "source" and plan.has_sources:
            lines.append(f"COPY --from=compile {COMPILED} {ENVIRONMENT}")
        elif steps := [step for step in plan.pip if step.group == group]:
            # Not before: a layer that another target has, too, sees the same arguments there.
            arguments = [line for line in index_arguments(steps) if line not in said]
            said.update(arguments)
            lines += [*arguments, _layer(plan, steps)]
    if plan.project:
        lines.append(f"COPY --from=own {OWN} {ENVIRONMENT}")
    # One mode for all, as a checkout's depends on its owner's umask.
    lines.append(f"COPY --chmod=0755 {CARRIED_FOLDER} {plan.slice} {CARRIED}/")
    lines.append(run([], [f"env --chdir={CARRIED} sha256sum --check --quiet {SUMS}"]))
    lines += _settings(plan)
    return "\n".join(lines)


def _apt_mounts(stage: str) -> list[str]:
    # A name for each stage: with one cache for both, buildah 1.28 waits for its own lock.
    return [
        f"--mount=type=cache,id=envspec-{stage}-{name},target={target},sharing=locked"
        for name, target in (("archives", "/var/cache/apt"), ("lists", "/var/lib/apt/lists"))
    ]


def _apt(packages: Iterable[str]) -> list[str]:
    return [
        "export DEBIAN_FRONTEND=noninteractive",
        # The base's own rule against keeping packages would empty the cache that is mounted.
        "rm -f /etc/apt/apt.conf.d/docker-clean",
        "apt-get update -qq",
        f"apt-get install -y -qq --no-install-recommends {' '.join(map(shell, packages))}",
        # What differs from build to build, and host keys that Debian's package makes.
        "find /var/log -type f -delete",
        "rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_*",
    ]


def _more_apt(plan: Plan) -> Iterator[str]:
    """Install the other packages of a stage that compiles: the spec's, and the headers of Debian's own Python."""
    assert plan.compiling is not None
    install = "apt-get install -y -qq --no-install-recommends"
    if plan.compiling.spec_apt:
        # this image may be of another distribution than the base, with other names
        names = " ".join(map(shell, plan.compiling.spec_apt))
        yield f'for name in {names}; do ! apt-cache show "$name" >/dev/null 2>&1 || {install} "$name" || exit 1; done'
    if not plan.explicit:
        python = shell(plan.python)
        yield f"if [ -x /usr/bin/python{python} ]; then {install} libpython{python}-dev; fi"


def _user(plan: Plan) -> list[str]:
    user = shell(plan.user)
    return [
        # Some bases have a user of this number.
        f'if old=$(id -nu {UID} 2>/dev/null); then userdel "$old"; fi',
        f"if ! getent group {UID} >/dev/null; then groupadd --gid {UID} {GROUP}; fi",
        f"useradd --uid {UID} --gid {UID} --create-home --shell /bin/bash {user}",
        f"install -d -o {UID} -g {UID} {WORKSPACE}",
        # A login shell's profile sets PATH anew.
        f'echo "PATH={ENVIRONMENT}/bin:\\$PATH" > /etc/profile.d/envspec.sh',
        "rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-",
    ]


def _layer(plan: Plan, steps: list[PipStep]) -> str:
    files = [*(step.file for step in steps), BYTECODE]
    mounts = [uv_mount(), uv_cache(), SECRET, *map(bind, files)]
    return run(mounts, [*checked(plan, files), uv_env(), *installs(steps), *bytecode()])


def _settings(plan: Plan) -> Iterator[str]:
    """Render an image's metadata. It adds no layer, so a change of it rebuilds nothing."""
    check = HEALTH_CHECK
    yield _many("ENV", image_variables(plan))
    yield _many("LABEL", labels(plan))
    if plan.services:
        yield f"EXPOSE {' '.join(str(service.port) for service in plan.services)}"
    yield f"WORKDIR {WORKSPACE}"
    yield f"USER {UID}:{UID}"
    times = f"--interval={check.interval}s --timeout={check.timeout}s --start-period={check.start_period}s"
    yield f"HEALTHCHECK {times} CMD {json.dumps(list(check.command))}"
    yield f"ENTRYPOINT {json.dumps(list(ENTRYPOINT))}"


def _many(instruction: str, values: dict[str, str]) -> str:
    return f"{instruction} " + " \\\n    ".join(f"{name}={dockerfile(value)}" for name, value in values.items())
