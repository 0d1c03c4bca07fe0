"""The runs of uv in Dockerfiles' stages: what they mount, their arguments and their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envspec.export import apt_mirrors
from envspec.export.carried import OF_ALL, SERVICES
from envspec.export.plan import BUILD_SCRIPT, CHECK, PipStep, Plan
from envspec.export.template import Command, Variable

LAYERS = "/layers"
"""The folder of the layers in the stages that make them: each has a folder like an image's root. Beside them lies what
the stages work with."""
SECRET = "--mount=type=secret,id=uv"
UV_MOUNTS = ("--mount=type=cache,target=/var/cache/uv", SECRET)
WHEELS = "wheels"
"""The stage with the variants' wheels under plain names, and the named build context that stands in for it."""
_WHEELS_AT = f"/run/{WHEELS}"
_INDEX_AT = "/run/index-"
NETRC_SECRET = "--mount=type=secret,id=netrc"
"""The logins of a netrc, where a build is given some: in /run/secrets, as all secrets without another place."""
MIRRORS_SECRET = f"--mount=type=secret,id={apt_mirrors.FILE},target=/run/{apt_mirrors.FILE}"
"""Straight in a folder that every base has: buildah leaves those that it makes for a mount."""
MIRROR = "PYTORCH_INDEX"
"""The build argument with the URL of a mirror of the PyTorch index, as uv's own setting can't name one."""
CONTEXT = "project"
"""The named build context with the project's files, and the stage that builders put it in the place of."""
VERSION = "PROJECT_VERSION"
"""The build argument with the project's version, where its build would ask git."""


def run_step(step: str, *words: str, at: str = LAYERS) -> Command:
    """List the words of a step of the script of builds, which lies in a folder `at`."""
    return ("sh", f"{at}/{BUILD_SCRIPT}", step, *words)


def install(step: PipStep, layer: str, *, compiles: bool = False, at: str = LAYERS) -> Command:
    """List the words of a run of uv, which takes only the lock's files, each by its hash."""
    words = [*index_words(step), *([] if step.hashed else ["--git"])]
    words += [word for name in step.unisolated for word in ("--no-build-isolation-package", name)]
    if step.variants:
        # of what has the lock's hash uv takes a plain wheel, too, whatever it thinks of the variants of an index
        words.append("--variants")
    return run_step("compile" if compiles else "install", layer, files_name(step), *words, at=at)


def fetch(step: PipStep) -> Command:
    """List the words of a run that fetches the wheels of variants."""
    files = (word for file in step.variants for word in (file.file, file.sha256, str(file.size or 0)))
    return run_step("fetch", *index_words(step), "--", *files)


def python_words(plan: Plan, layer: str, preference: str = "", folder: str = "") -> Command:
    """List the words that make the virtual environment. `folder` has uv's table, beside the script of builds."""
    if plan.runtime.build_table:
        return run_step("python", layer, f"{folder}{plan.runtime.build_table.rpartition('/')[2]}")
    return run_step("python", layer, plan.runtime.python_request, preference or plan.runtime.python_preference)


def debian_words(
    plan: Plan, packages: Sequence[str], *, headers: bool, dated: bool = True, at: str = LAYERS
) -> Command:
    """List the words that install packages of Debian, as of the plan's day where they are `dated`."""
    words = ["--as-of", apt_mirrors.day_of(plan.image.snapshot)] if dated and plan.image.snapshot else []
    if headers and not plan.brings_headers:
        words += ["--headers", plan.runtime.python]
    return run_step("apt", *words, *packages, at=at)


def files_name(step: PipStep) -> str:
    """Give the name that the requirements of a run begin with: those of some targets name them behind an @."""
    (name,) = {file.rpartition("/")[2].removesuffix(".txt").partition("@")[0] for file in step.requirements}
    return name


def index_words(step: PipStep) -> Command:
    """List the options for the index of a step, first the one that a mirror of PyTorch's replaces."""
    words: list[str] = []
    if step.torch_backend:
        words += [*(["--beside"] if step.beside else []), "--torch-backend", step.torch_backend]
    if step.index:
        words += [*step.index_option.split(), Variable(index_argument(step.index))]
    return tuple(words)


def in_layers(file: str) -> str:
    """Give the place of a file among what the stages work with."""
    return f"{LAYERS}/{file.rpartition('/')[2]}"


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
    given = [f"--mount=type=bind,from={WHEELS},target={_WHEELS_AT}"] if any(entry.variants for entry in steps) else []
    local = sorted({step.index for step in steps if step.index and step.local})
    given += [f"--mount=type=bind,from=index-{index},target={_INDEX_AT}{index}" for index in local]
    return given + ([NETRC_SECRET] if any(step.url for step in steps) else [])


def further_names(plan: Plan) -> list[str]:
    """Name the carried programs and scripts of services of an image beside what every image has."""
    own = (name for name in plan.image.carries if not name.startswith(f"{CHECK}/") and name not in OF_ALL)
    return [name.removeprefix(SERVICES).removesuffix(".sh") for name in own]
