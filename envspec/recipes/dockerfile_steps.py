"""The steps of Dockerfiles' stages: RUN instructions, what they mount, and the runs of uv in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from envspec.recipes.plan import CARRIED_FOLDER, ENVIRONMENT, PYTHON, PipStep, Plan
from envspec.recipes.quote import dockerfile, shell

FOLDER = "/run/recipe"
"""The folder in which a RUN sees files of the context."""
UV = "/run/uv"
"""The folder in which a RUN sees uv."""
UV_CACHE = "/var/cache/uv"
SECRET = "--mount=type=secret,id=uv,target=/etc/uv/uv.toml"
BYTECODE = f"{CARRIED_FOLDER}/bytecode.py"
COMPILED = "/opt/compiled"
"""The folder of the stage that compiles, with the environment's layout, into which it is copied."""
MIRROR = "PYTORCH_INDEX"
"""The build argument with the URL of a mirror of the PyTorch index, as uv's own setting can't name one."""


def python(plan: Plan) -> list[str]:
    return [
        f"export UV_PYTHON_INSTALL_DIR={PYTHON} UV_PYTHON_PREFERENCE=system",
        f"{UV}/uv venv --quiet --python {shell(plan.python)} {ENVIRONMENT}",
    ]


def installs(steps: Iterable[PipStep]) -> list[str]:
    return [install(step) for step in steps]


def install(step: PipStep, options: str = "") -> str:
    """Make one run of uv, which takes only the lock's files, each by its hash."""
    words = [f"{name}={shell(text)}" for name, text in step.variables]
    words.append(f"{UV}/uv pip install --quiet --python {ENVIRONMENT}{options} --no-deps")
    if step.hashed:
        words.append("--require-hashes")
    # What a build needs is never built itself.
    words.append("--only-binary :all:")
    if step.source:
        words += [f"--no-binary {shell(name)}" for name in step.packages]
        words += [f"--no-build-isolation-package {shell(name)}" for name in step.unisolated]
    if step.built_with:
        words.append(f"--build-constraints {at(step.built_with)} --require-build-hashes")
    words.append(f"--requirements {at(step.file)}")
    if step.index:
        words.append(f'{step.index_option} "${index_argument(step.index)}"')
    if step.torch_backend is None:
        return " ".join(words)
    own = f"--torch-backend {shell(step.torch_backend)}"
    choice = f'if [ -n "${MIRROR}" ]; then set -- --default-index "${MIRROR}"; else set -- {own}; fi'
    return f'{{ {choice}; }} && {" ".join(words)} "$@"'


def index_arguments(steps: Iterable[PipStep]) -> list[str]:
    steps = tuple(steps)
    mirror = [f'ARG {MIRROR}=""'] if any(step.torch_backend for step in steps) else []
    urls = {step.index: step.url for step in steps if step.index and step.url}
    return mirror + [f"ARG {index_argument(index)}={dockerfile(url)}" for index, url in sorted(urls.items())]


def index_argument(index: str) -> str:
    return "INDEX_" + "".join(char if char.isalnum() and char.isascii() else "_" for char in index).upper()


def uv_env() -> str:
    return f"export UV_CACHE_DIR={UV_CACHE} UV_LINK_MODE=copy"


def bytecode(folder: str = f"{ENVIRONMENT}/lib") -> list[str]:
    # Without site and without writing: what Python loads by itself it would compile by itself, with a time.
    return [f"{ENVIRONMENT}/bin/python -ISB {at(BYTECODE)} {folder}"]


def run(mounts: Iterable[str], commands: Iterable[str]) -> str:
    return "RUN " + " \\\n    ".join([*mounts, "set -eu", *(f"&& {command}" for command in commands)])


def checked(plan: Plan, files: Iterable[str]) -> list[str]:
    return [
        f"[ \"$(sha256sum < {at(file)})\" = '{hashlib.sha256(plan.files[file].encode()).hexdigest()}  -' ]"
        for file in files
    ]


def at(file: str) -> str:
    return f"{FOLDER}/{file.rpartition('/')[2]}"


def bind(file: str) -> str:
    return f"--mount=type=bind,source={file},target={at(file)}"


def uv_mount() -> str:
    return f"--mount=type=bind,from=uv,source=/uv,target={UV}/uv"


def uv_cache() -> str:
    return f"--mount=type=cache,target={UV_CACHE}"
