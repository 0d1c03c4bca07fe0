"""The runs of uv in Dockerfiles' stages: what they mount, their arguments and their words."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence

from envspec.export import apt_mirrors
from envspec.export.plan import CHECK, CHECK_ARCHIVE, REQUIREMENTS, SUMS, PipStep, Plan
from envspec.export.template import Command, Variable

LAYERS = "/layers"
"""The folder of the layers in the stages that make them: each has a folder like an image's root. Beside them lies what
the stages work with."""
INSTALL = "install.sh"
SECRET = "--mount=type=secret,id=uv,target=/etc/uv/uv.toml"
UV_MOUNTS = ("--mount=type=cache,target=/var/cache/uv", SECRET)
WHEELS = "wheels"
"""The stage with the variants' wheels under plain names, and the named build context that stands in for it."""
_WHEELS_AT = f"/run/{WHEELS}"
_INDEX_AT = "/run/index-"
NETRC = "/run/secrets/netrc"
"""The logins of a netrc, where a build is given some."""
NETRC_SECRET = f"--mount=type=secret,id=netrc,target={NETRC}"
MIRRORS_SECRET = f"--mount=type=secret,id={apt_mirrors.FILE},target=/run/{apt_mirrors.FILE}"
"""Straight in a folder that every base has: buildah leaves those that it makes for a mount."""
MIRROR = "PYTORCH_INDEX"
"""The build argument with the URL of a mirror of the PyTorch index, as uv's own setting can't name one."""
CONTEXT = "project"
"""The named build context with the project's files, and the stage that builders put it in the place of."""
VERSION = "PROJECT_VERSION"
"""The build argument with the project's version, where its build would ask git."""


def install(step: PipStep, layer: str, scripts: str = LAYERS, requirements: str = LAYERS) -> Command:
    """List the words of a run of uv, which takes only the lock's files, each by its hash, from a folder
    `requirements`."""
    words = ["sh", f"{scripts}/{INSTALL}", layer, *index_words(step)]
    if step.hashed:
        words.append("--require-hashes")
    if step.source:
        words += [word for name in step.packages for word in ("--no-binary", name)]
        words += [word for name in step.unisolated for word in ("--no-build-isolation-package", name)]
    if step.built_with:
        words += ["--build-constraints", _in(LAYERS, step.built_with), "--require-build-hashes"]
    words += [word for file in step.requirements for word in ("--requirements", _in(requirements, file))]
    if step.variants:
        # of what has the lock's hash uv takes a plain wheel, too, whatever it thinks of the variants of an index
        words += ["--find-links", _WHEELS_AT]
    return tuple(words)


def index_words(step: PipStep) -> Command:
    """List the options for the index of a step, first the one that a mirror of PyTorch's replaces."""
    words: list[str] = []
    if step.torch_backend:
        words += [*(["--beside"] if step.beside else []), "--torch-backend", step.torch_backend]
    if step.index:
        words += [*step.index_option.split(), Variable(index_argument(step.index))]
    return tuple(words)


def _in(folder: str, file: str) -> str:
    return f"{folder}/{file.rpartition('/')[2]}"


def index_arguments(steps: Iterable[PipStep]) -> list[tuple[str, str]]:
    """List the build arguments for the indexes of steps, with their values."""
    steps = tuple(steps)
    mirror = [(MIRROR, "")] if any(step.torch_backend for step in steps) else []
    urls = {step.index: step.url or _folder_of(step) for step in steps if step.index and (step.url or step.local)}
    return mirror + [(index_argument(index), url) for index, url in sorted(urls.items())]


def _folder_of(step: PipStep) -> str:
    """Give uv's word for an index that is a folder, which the build context of its name has."""
    folder = f"{_INDEX_AT}{step.index}"
    return folder if step.flat else f"file://{folder}"


def index_argument(index: str) -> str:
    return "INDEX_" + "".join(char if char.isalnum() and char.isascii() else "_" for char in index).upper()


def uv_mounts(steps: Sequence[PipStep]) -> list[str]:
    """List what runs of uv see of steps: the wheels of variants, indexes that are folders, and logins."""
    given = [f"--mount=type=bind,from={WHEELS},target={_WHEELS_AT}"] if any(one.variants for one in steps) else []
    local = sorted({step.index for step in steps if step.index and step.local})
    given += [f"--mount=type=bind,from=index-{index},target={_INDEX_AT}{index}" for index in local]
    return given + ([NETRC_SECRET] if any(step.url for step in steps) else [])


def carried_copies(plan: Plan, place: str) -> Iterator[tuple[list[str], str]]:
    """List what an image carries, with the folder that gets it. The smoke check is one file."""
    by_folder: dict[str, list[str]] = {"": [plan.carried_file(SUMS), plan.carried_file(CHECK_ARCHIVE)]}
    for name in plan.carries:
        if not name.startswith(f"{CHECK}/"):
            by_folder.setdefault(posixpath.dirname(name), []).append(plan.carried_file(name))
    by_folder[""].append(plan.slice)
    if plan.parts:
        by_folder[REQUIREMENTS] = list(plan.parts)
    for folder, names in by_folder.items():
        yield names, f"{posixpath.join(place, folder)}/".replace("//", "/")
