"""The steps of Dockerfiles' stages: RUN instructions, what they mount, and the runs of uv in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from envspec.export import apt_mirrors
from envspec.export.building import PRETENDED, project_install, project_wheel
from envspec.export.plan import ENVIRONMENT, GROUP, PYTHON, UID, WORKSPACE, OwnProject, PipStep, Plan
from envspec.export.python_build import TABLE, version_in
from envspec.export.quote import dockerfile, fill, shell

LAYERS = "/layers"
"""The folder of the layers in the stages that make them: each has a folder like an image's root. Beside them lies what
the stages work with."""
BYTECODE = f"{LAYERS}/bytecode.py"
UV = f"{LAYERS}/uv"
SCRATCH = "/tmp"
"""The folder of what stages write for a while; none of it is copied."""
SECRET = "--mount=type=secret,id=uv,target=/etc/uv/uv.toml"
UV_MOUNTS = f"--mount=type=cache,target=/var/cache/uv {SECRET}"
WHEELS = "wheels"
"""The stage with the variants' wheels under plain names, and the named build context that stands in for it."""
_WHEELS_AT = f"/run/{WHEELS}"
_INDEX_AT = "/run/index-"
NETRC = "/run/secrets/netrc"
"""The logins of a netrc, where a build is given some."""
NETRC_SECRET = f"--mount=type=secret,id=netrc,target={NETRC}"
USE_NETRC = f"if [ -s {NETRC} ]; then export NETRC={NETRC}; fi"
MIRROR = "PYTORCH_INDEX"
"""The build argument with the URL of a mirror of the PyTorch index, as uv's own setting can't name one."""
FIXED_TIME = "@315532800"
"""The time of every file of a layer, whenever it is built: the first that all archives can write."""


def bytecode(plan: Plan) -> str:
    """Give the carried program that makes bytecode."""
    return plan.carried_file("bytecode.py")


def prefix(layer: str) -> str:
    """Give the environment's folder in a layer that is being made."""
    return f"{LAYERS}/{layer}{ENVIRONMENT}"


def copy(layer: str, stage: str | None = None) -> str:
    """Copy a layer from the stage that makes it, by default the one of its name. From its root, so that the folders on
    the way have its times, too."""
    return f"COPY --from={stage or layer} {LAYERS}/{layer} /"


def tools(plan: Plan, more: Iterable[str] = ()) -> list[str]:
    """Give a stage uv, Python at the environment's own path, for scripts name the Python that installs them, and what
    makes bytecode; then run `more`."""
    lines = [
        f"COPY --from=uv /uv {UV}",
        f'ENV UV_CACHE_DIR="/var/cache/uv" UV_LINK_MODE="copy" UV_PYTHON_INSTALL_DIR="{PYTHON}"'
        f' UV_PYTHON_PREFERENCE="{plan.python_preference}"',
    ]
    if plan.explicit:
        lines.append(copy("conda"))
    lines.append(copy_files(bytecode(plan), *([plan.build_table] if plan.build_table else [])))
    commands = [*_virtual_environment(plan), *more]
    return [*lines, run([UV_MOUNTS], commands)] if commands else lines


def _virtual_environment(plan: Plan) -> list[str]:
    """Make the virtual environment, of the lock's build of Python where it names one: uv checks its hash."""
    if plan.explicit:
        return []
    if plan.build is None or plan.build_table is None:
        return [f"{UV} venv --quiet --python {shell(plan.python_request)} {ENVIRONMENT}"]
    table = at(plan.build_table)
    return [f"{TABLE}={table} {UV} venv --quiet --python {version_in(table)} {ENVIRONMENT}"]


def finish(layer: str) -> list[str]:
    """Make a layer's bytecode, and give its files their time."""
    # Without site and without writing: what Python loads by itself it would compile by itself, with a time.
    made = f"{ENVIRONMENT}/bin/python -ISB {BYTECODE} {prefix(layer)}/lib {ENVIRONMENT}/lib"
    return [made, set_times(layer)]


def set_times(layer: str) -> str:
    return f"find {LAYERS}/{layer} -exec touch -h -d {FIXED_TIME} {{}} +"


def many(instruction: str, values: Mapping[str, str]) -> str:
    """Make an instruction that sets many values."""
    words = (f"{name}={dockerfile(value)}" for name, value in values.items())
    return f"{instruction} " + " \\\n    ".join(fill(words))


def install(
    step: PipStep, options: str = "", uv: str = UV, python: str = ENVIRONMENT, requirements: str = LAYERS
) -> str:
    """Make one run of uv, which takes only the lock's files, each by its hash: for a Python, from the files of a folder
    `requirements`."""
    login = f"NETRC={NETRC} " if step.url else ""
    words = [f"{login}{uv} pip install --quiet --python {python}{options} --no-deps"]
    if step.hashed:
        words.append("--require-hashes")
    # What a build needs is never built itself.
    words.append("--only-binary :all:")
    if step.source:
        words += [f"--no-binary {shell(name)}" for name in step.packages]
        words += [f"--no-build-isolation-package {shell(name)}" for name in step.unisolated]
    if step.built_with:
        words.append(f"--build-constraints {at(step.built_with)} --require-build-hashes")
    words += [f"--requirements {requirements}/{file.rpartition('/')[2]}" for file in step.requirements]
    if step.variants:
        # of what has the lock's hash uv takes a plain wheel, too, whatever it thinks of the variants of an index
        words.append(f"--find-links {_WHEELS_AT}")
    return with_index(step, words)


def with_index(step: PipStep, words: Sequence[str]) -> str:
    """Make a shell command of these words, with uv's options for the index of a step behind them."""
    if step.index:
        words = [*words, f'{step.index_option} "${index_argument(step.index)}"']
    if step.local:
        # builders without the context mount what stands in for it
        missing = f"the files of the index {step.index}: build with --build-context index-{step.index}=FOLDER"
        there = f"if [ -x {_INDEX_AT}{step.index}/uv ]; then echo {shell(missing)} >&2; exit 2; fi"
        words = [f"{{ {there}; }} &&", *words]
    if step.torch_backend is None:
        return " ".join(words)
    own, option = f"--torch-backend {shell(step.torch_backend)}", "--index" if step.beside else "--default-index"
    choice = f'if [ -n "${MIRROR}" ]; then set -- {option} "${MIRROR}"; else set -- {own}; fi'
    return f'{{ {choice}; }} && {" ".join(words)} "$@"'


def index_arguments(steps: Iterable[PipStep]) -> list[str]:
    steps = tuple(steps)
    mirror = [f'ARG {MIRROR}=""'] if any(step.torch_backend for step in steps) else []
    urls = {step.index: step.url or _folder_of(step) for step in steps if step.index and (step.url or step.local)}
    return mirror + [f"ARG {index_argument(index)}={dockerfile(url)}" for index, url in sorted(urls.items())]


def _folder_of(step: PipStep) -> str:
    """Give uv's word for an index that is a folder, which the build context of its name has."""
    folder = f"{_INDEX_AT}{step.index}"
    return folder if step.flat else f"file://{folder}"


def index_argument(index: str) -> str:
    return "INDEX_" + "".join(char if char.isalnum() and char.isascii() else "_" for char in index).upper()


def uv_mounts(steps: Sequence[PipStep]) -> list[str]:
    """List what runs of uv see: the user's settings and cache, the wheels of variants, and indexes that are folders."""
    given = [f"--mount=type=bind,from={WHEELS},target={_WHEELS_AT}"] if any(one.variants for one in steps) else []
    local = sorted({step.index for step in steps if step.index and step.local})
    given += [f"--mount=type=bind,from=index-{index},target={_INDEX_AT}{index}" for index in local]
    given += [NETRC_SECRET] if any(step.url for step in steps) else []
    return [UV_MOUNTS, *given]


def run(mounts: Iterable[str], commands: Iterable[str]) -> str:
    first, *others = commands
    return "RUN " + " \\\n    ".join([*mounts, f"set -eu && {first}", *(f"&& {command}" for command in others)])


def copy_files(*files: str) -> str:
    """Copy files of the context beside the layers. All builders look into what is copied, and know by its content what
    to make again; some don't look into what is mounted."""
    return f"COPY {' '.join(files)} {LAYERS}/"


def at(file: str) -> str:
    return f"{LAYERS}/{file.rpartition('/')[2]}"


_MIRRORS = f"/run/{apt_mirrors.FILE}"
"""Straight in a folder that every base has: buildah leaves those that it makes for a mount."""
MIRRORS_SECRET = f"--mount=type=secret,id={apt_mirrors.FILE},target={_MIRRORS}"
_INSTALL = "apt-get install -y -qq --no-install-recommends"


def apt(packages: Iterable[str], more: Iterable[str] = (), snapshot: str | None = None) -> list[str]:
    """Install packages, of Debian as of a day where there is one, and run `more` while apt knows others. The RUN mounts
    `MIRRORS_SECRET`."""
    return [
        apt_mirrors.use_mirrors(_MIRRORS, snapshot),
        "export DEBIAN_FRONTEND=noninteractive && apt-get update -qq",
        f"{_INSTALL} {' '.join(map(shell, packages))}",
        *more,
        # Not in a cache that is mounted: buildah 1.28 keeps its lock to the end of the build, and two builds wait for
        # each other.
        f"rm -rf {apt_mirrors.COPY} /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb",
        # What differs from build to build, and host keys that Debian's package makes.
        "rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_*"
        " && find /var/log -type f -delete",
    ]


def python_headers(plan: Plan) -> Iterator[str]:
    """Install the headers of the base's own Python, with which extensions and torch.compile's kernels are compiled."""
    if not plan.brings_headers:
        python = shell(plan.python)
        yield f"if [ -x /usr/bin/python{python} ]; then {_INSTALL} libpython{python}-dev; fi"


def user(name: str) -> list[str]:
    """Make the user, and the folder where it works."""
    return [
        # Some bases have a user of this number.
        f'if old=$(id -nu {UID} 2>/dev/null); then userdel "$old"; fi',
        f"if ! getent group {UID} >/dev/null; then groupadd --gid {UID} {GROUP}; fi",
        f"useradd --uid {UID} --gid {UID} --create-home --shell /bin/bash {shell(name)}",
        f"install -d -o {UID} -g {UID} {WORKSPACE}",
        # A login shell's profile sets PATH anew.
        f'echo "PATH={ENVIRONMENT}/bin:\\$PATH" > /etc/profile.d/envspec.sh',
        "rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid-",
    ]


def with_times(commands: Iterable[str]) -> list[str]:
    """Give what commands write below the root its time, mounts aside, as all files of layers have one."""
    changed = 'find / -xdev \\( -type l -o -writable \\) -newermt "@$began"'
    return ["began=$(date +%s)", *commands, f"{changed} -exec touch -h -d {FIXED_TIME} {{}} +"]


# The stage of a Dockerfile that builds the spec's own project. Its files are a build context of their own.


CONTEXT = "project"
"""The named build context with the project's files, and the stage that builders put it in the place of."""
VERSION = "PROJECT_VERSION"
"""The build argument with the project's version, where its build would ask git."""


def project_stage(plan: Plan, project: OwnProject) -> str:
    """Render the stage that builds the spec's project. Its files are copied: not every builder looks into mounts."""
    lines = [
        f"# Builds {project.name}, with what the lock has.",
        f"FROM {'compile' if project.compiled else 'python'} AS own",
        f"ARG SOURCE_DATE_EPOCH={plan.epoch}",
        *index_arguments(project.wheels),
    ]
    if project.wheels:
        lines.append(copy_files(*(file for step in project.wheels for file in step.files)))
        lines.append(run(uv_mounts(project.wheels), map(install, project.wheels)))
    if project.versioned:
        lines.append(f'ARG {VERSION}=""')
    lines.append(f"COPY --from={CONTEXT} . {SCRATCH}/{CONTEXT}")
    missing = f"{project.name}: no pyproject.toml: build with --build-context {CONTEXT}=FOLDER"
    compiled = f"{prefix('source')}/lib/python{plan.python}/site-packages" if plan.has_sources else ""
    commands = [
        f"if [ ! -f {SCRATCH}/{CONTEXT}/pyproject.toml ]; then echo {shell(missing)} >&2; exit 2; fi",
        *([f'if [ -n "${VERSION}" ]; then export {PRETENDED}="${VERSION}"; fi'] if project.versioned else []),
        *project_wheel(plan, UV, f"{SCRATCH}/{CONTEXT}", SCRATCH, compiled if project.compiled else ""),
        project_install(plan, UV, SCRATCH, f" --prefix {prefix('project')}"),
        *finish("project"),
    ]
    lines.append(run([], commands))
    return "\n".join(lines)
