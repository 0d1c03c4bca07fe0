"""`envspec image` of cpu-py311 beside `buildah bud` of its exported Dockerfile, all downloads at hand for both sides.

    PYTHONPATH=tests .venv/bin/python -m bench.image_speed

Needs root, buildah, debootstrap and the CPU wheel of torch in pip's find-links, as tests/e2e/test_image_from_lock.py,
and Python 3.11, of which the build of Python is made that both fetch from a mirror on loopback.
Both stand on the base that `--base-recipe` describes, with Python 3.11, so that buildah's apt has nothing to fetch; its
layers aren't kept from one round to the next.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from support.oci import opened_builder, torch_mirror
from support.python_build import FILE, make_build
from support.shipped_project import shipped_project

from bench.measure import Run, envspec, run, turns

ROUNDS = 3
READY = "localhost/ready"


def main() -> None:
    """Print both times, their ratio and the memory."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("mirror", "buildah", "shipped"):
            (place / name).mkdir()
        make_build(place / FILE)
        with (
            torch_mirror(place / "mirror") as mirror,
            shipped_project("cpu-py311", place / FILE, place / "shipped") as project,
            opened_builder(place / "buildah", project.folder / "recipe", "cpu", mirror) as builder,
        ):
            project.envspec("export", "--format", "dockerfile", "-o", "recipe")
            builder.with_pythons(project.mirror)
            base = builder.ready_base(project.envspec("image", "--base-recipe"))
            words = ("image", project.spec, "--base", str(base), "-o", str(place / "out.tar"))
            making = partial(run, envspec(*words), env={**os.environ, **project.variables}, cwd=project.folder)
            making()
            building = [
                *(*builder._buildah, "bud", "--isolation", "chroot", "--no-cache", *builder.arguments),
                *(f"--build-arg=BASE_IMAGE={READY}", "-t", "localhost/built", "-f"),
                *(str(builder.context / "cpu" / "Dockerfile"), str(builder.context)),
            ]
            sides: dict[str, Callable[[], Run]] = {"image": making, "buildah": partial(run, building)}
            told(turns(sides, ROUNDS))


def told(sides: Mapping[str, Run]) -> None:
    for name, one in sides.items():
        print(f"{name:8} {one.seconds:6.1f} s, {one.processor:6.1f} s of processors, {one.megabytes:5.0f} MB")
    print(f"ratio    {sides['image'].seconds / sides['buildah'].seconds:6.2f}")


if __name__ == "__main__":
    main()
