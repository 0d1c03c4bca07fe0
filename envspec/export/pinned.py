"""What of an image isn't pinned, so that another build of the same recipe may get something else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from envspec.export.plan import Plan

IMAGES = ("dockerfile", "apptainer")
"""The formats that images are built from."""
NIX = "nix"
NO_SNAPSHOT = "Debian's packages are the newest on the day of a build"


def unpinned(plans: Iterable[Plan], formats: Iterable[str]) -> tuple[str, ...]:
    """List what isn't pinned in the recipes of these formats, a line each, whatever number of targets has it."""
    names = set(formats)
    lines: list[str] = []
    for plan in plans:
        if names.intersection(IMAGES):
            lines += _of_image(plan)
        if NIX in names and plan.explicit is None:
            lines.append("nixpkgs is the newest of its branch, until `nix flake lock` pins it")
    return tuple(dict.fromkeys(lines))


def _of_image(plan: Plan) -> Iterator[str]:
    images = [plan.base, plan.uv, plan.micromamba, plan.compiling.image if plan.compiling else None]
    for image in (*images, *(one.image for one in plan.borrowed)):
        if image is not None and "@" not in image.pinned:
            yield f"the image {image.name} has no digest"
    if plan.snapshot is None:
        yield NO_SNAPSHOT
    elif plan.compiling and plan.compiling.image != plan.base:
        yield f"packages of apt in {plan.compiling.image.name}, where sources are built, are the newest on that day"
    if plan.build is None and plan.explicit is None and not plan.base_python:
        yield f"the lock names no build of Python {plan.python}"
    loose = {name for step in plan.pip if step.source and not step.built_with for name in step.packages}
    # what is built in the environment itself has the lock's own packages alone
    loose -= {name for step in plan.pip for name in step.unisolated}
    if loose:
        yield f"the lock names no wheels to build {', '.join(sorted(loose))} with"
