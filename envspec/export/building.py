"""The surroundings of builds in images: the shell commands before them."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.export.plan import CHECK, CHECK_ARCHIVE, ENVIRONMENT, SUMS, Plan
from envspec.export.quote import shell

_JOBS = (
    "export MAX_JOBS=$(awk -v n=$(nproc) '/MemTotal/ {j = int($2 / 4194304) + 1; print j < n ? j : n}' /proc/meminfo)"
)
"""As many compilers as fit: CUDA's takes up to 4 GB."""
_UV_ENV = "export UV_NO_CACHE=1 UV_LINK_MODE=copy"
PRETENDED = "SETUPTOOLS_SCM_PRETEND_VERSION"
"""The variable with a project's version, where its build would ask git. Source: setuptools_scm's documentation."""


def check_sums(folder: str) -> str:
    """Make the shell command that holds the carried files in a folder to their list, which is of all specs' files."""
    return f'env --chdir="{folder}" sha256sum --check --quiet --ignore-missing {SUMS}'


def unpack_check(folder: str, python: str) -> Iterator[str]:
    """Make the shell commands that unpack the smoke check in the folder of the carried files, hold all of them to their
    list, and cut that down to the files that are there."""
    yield f"place={folder}"
    yield f'{python} -ISB -m zipfile -e "$place/{CHECK_ARCHIVE}" "$place/{CHECK}"'
    yield check_sums("$place")
    yield f'rm "$place/{CHECK_ARCHIVE}"'
    there = '[ ! -f "$place/$file" ] || echo "$sum  $file"'
    yield f'while read -r sum file; do {there}; done <"$place/{SUMS}" >"$place/own"'
    yield f'mv "$place/own" "$place/{SUMS}"'


def build_settings(plan: Plan, scratch: str) -> Iterator[str]:
    """Make the shell commands after which builds see the lock's packages. `scratch` is a folder for files beside.

    uv builds a package in an environment with what it declares. Extensions of torch need torch and more without
    declaring it, so they find the lock's packages and programs beside. No cache: what was built for another
    torch or GPU has the same name.
    """
    yield _UV_ENV
    if plan.compiling is None or not plan.compiling.sees:
        return
    yield f'export PATH="{ENVIRONMENT}/bin:$PATH" PYTHONPATH={ENVIRONMENT}/lib/python{plan.python}/site-packages'
    if any(step.unisolated or step.beside for step in plan.pip):
        yield from _jobs(plan)


def _jobs(plan: Plan) -> Iterator[str]:
    if plan.compiling is None or "MAX_JOBS" not in plan.compiling.env:
        yield _JOBS


def project_wheel(plan: Plan, uv: str, folder: str, scratch: str, more: str = "") -> Iterator[str]:
    """Make the shell commands that build the wheel of the spec's project from its files in `folder`, with what the lock
    has and without a network. `scratch` is a folder for what is made besides, `more` one of Python's packages beside
    those of the environment."""
    assert plan.project is not None
    made = _output_folder(scratch)
    yield _UV_ENV
    yield f'export PATH="{ENVIRONMENT}/bin:$PATH" PYTHONNOUSERSITE=1 PYTHONPATH={more}'
    if plan.project.compiled:
        yield from _jobs(plan)
    # setuptools would pack what an earlier build left in the folder
    yield f"mkdir {made}"
    yield f"printf '[build]\\nbuild_base = {made}/base\\n' > {made}/setuptools.cfg"
    yield f"export DIST_EXTRA_CONFIG={made}/setuptools.cfg"
    yield (
        f"{uv} build --quiet --wheel --no-build-isolation --no-config --offline --python {ENVIRONMENT}"
        f" --out-dir {made}/wheels {folder}"
    )


def project_install(plan: Plan, uv: str, scratch: str, options: str = "") -> str:
    """Make the shell command that installs the wheel of the spec's project, without dependencies. By name: of a path,
    uv would record that it came from there."""
    assert plan.project is not None
    return (
        f"{uv} pip install --quiet --no-config --no-deps --no-index --offline"
        f" --find-links {_output_folder(scratch)}/wheels"
        f" --python {ENVIRONMENT}{options} {shell(plan.project.name)}"
    )


def _output_folder(scratch: str) -> str:
    """The folder of what the build of the spec's project makes."""
    return f"{scratch}/project-build"
