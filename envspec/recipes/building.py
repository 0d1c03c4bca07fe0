"""What builds in images see and get: the shell commands before them."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.recipes.plan import ENVIRONMENT, Plan
from envspec.recipes.quote import shell

_JOBS = (
    "export MAX_JOBS=$(awk -v n=$(nproc) '/MemTotal/ {j = int($2 / 4194304) + 1; print j < n ? j : n}' /proc/meminfo)"
)
"""As many compilers as fit: CUDA's takes up to 4 GB."""


def build_settings(plan: Plan) -> Iterator[str]:
    """Make the shell commands after which builds see the lock's packages.

    uv builds a package in an environment with what it declares. Extensions of torch need torch and more without
    declaring it, so they find the lock's packages and programs beside. No cache: what was built for another
    torch or GPU has the same name.
    """
    yield "export UV_NO_CACHE=1 UV_LINK_MODE=copy"
    yield f'export PATH="{ENVIRONMENT}/bin:$PATH" PYTHONPATH={ENVIRONMENT}/lib/python{plan.python}/site-packages'
    if any(step.unisolated for step in plan.pip):
        yield _JOBS
    if plan.compiling and plan.compiling.constraints:
        yield f"printf '%s\\n' {' '.join(map(shell, plan.compiling.constraints))} > /tmp/build-constraints.txt"
        yield "export UV_BUILD_CONSTRAINT=/tmp/build-constraints.txt"
