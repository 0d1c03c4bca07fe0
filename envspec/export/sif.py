"""SIFs of recipes: the places of their builds, their labels and the variables of their processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envspec.base.places import OF_OTHER_PYTHONS
from envspec.export import compat, quote
from envspec.export.dockerfile_steps import LAYERS, index_argument
from envspec.export.plan import (
    CARRIED,
    ENVIRONMENT,
    EPOCH,
    REQUIREMENTS,
    PipStep,
    Plan,
    labels as image_labels,
    recipe_labels,
)

SETTINGS = "/mnt"
"""The bind point of a folder with the builder's own settings. A file can't be bound: it would have to exist in the
base.
"""
SIF_VARIABLES = ".singularity.d/env/91-envspec.sh"
"""The variables that a tree brings along, in a SIF or over one: after those of its own definition, 90-environment.sh
(Apptainer's SIF layout)."""
BASE = "base.sif"
_TOOLS = "/opt/tools"
"""The folder of programs that builds use."""
_OCI_LABELS = ("org.opencontainers.image.title", "org.opencontainers.image.description")
_Pairs = Sequence[tuple[str, str]]
OFFLINE_SETTINGS: _Pairs = (("TMPDIR", LAYERS), ("LC_ALL", "C.UTF-8"), ("SOURCE_DATE_EPOCH", str(EPOCH)))
"""The variables of the shell of a build that fetches nothing."""
_EMPTIED = " ".join(name.removeprefix("PYTHON") for name in OF_OTHER_PYTHONS)
_EMPTY = 'for name in {}; do\n        export "PYTHON$name="\n    done'


def environment_lines(plan: Plan) -> Iterator[str]:
    """Give the lines of a definition's `%environment`."""
    own, other = ("CONDA_PREFIX", "VIRTUAL_ENV") if plan.sources.explicit else ("VIRTUAL_ENV", "CONDA_PREFIX")
    # the network is the host's, where a user has no such port
    of_root = [("SSH_PORT", str(service.port)) for service in plan.image.services if service.published]
    compilers = " CC=gcc CXX=g++" if "g++" in plan.image.debian else ""
    # Apptainer hands on what the caller has, but for what is set here; an unset isn't heeded
    yield f'export PATH="{ENVIRONMENT}/bin:$PATH" {own}={ENVIRONMENT} {other}= LD_PRELOAD={compilers}'
    yield _EMPTY.format(_EMPTIED)
    yield from quote.exports(pair for pair in plan.runtime.env if pair not in of_root)
    if any(source.name == compat.NAME for source in plan.image.toolkit):
        yield from compat.choice(plan.runtime.driver_floor)


def environment_lines_on_base(plan: Plan) -> Iterator[str]:
    """Give the lines that set the variables of a SIF on a base, or of what lies over one: a caller's for another Python
    stay outside, but for PYTHONPATH, which the base may need."""
    yield _EMPTY.format(_EMPTIED.replace("PATH ", "", 1))
    yield from quote.exports(plan.runtime.env)


def settings(plan: Plan) -> _Pairs:
    """List the variables of a build's own shell."""
    own = {"SETTINGS": SETTINGS, "REQUIREMENTS": f"{CARRIED}/{REQUIREMENTS}", "UV": f"{_TOOLS}/uv"}
    own |= {"MICROMAMBA": f"{_TOOLS}/micromamba"} if plan.image.micromamba else {}
    return [*OFFLINE_SETTINGS, *own.items()]


def index_places(plan: Plan) -> _Pairs:
    """List the variables with the addresses of a plan's own indexes: one that is a folder lies with the builder's own
    settings."""
    return sorted({(index_argument(step.index), _place_of(step)) for step in plan.sources.pip if step.index})


def _place_of(step: PipStep) -> str:
    folder = f"{SETTINGS}/index-{step.index}"
    return step.url or (folder if step.flat else f"file://{folder}")


def labels(plan: Plan) -> dict[str, str]:
    """Give the labels: Apptainer records the base itself."""
    own = {name: value for name, value in image_labels(plan).items() if name in _OCI_LABELS}
    return {**own, **recipe_labels(plan)}
