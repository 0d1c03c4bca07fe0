"""`envspec image` of cpu-py311 beside `buildah bud` of its exported Dockerfile, all downloads at hand for both sides.

    PYTHONPATH=tests .venv/bin/python -m bench.image_speed

Needs root, buildah, debootstrap and the CPU wheel of torch in pip's find-links, as tests/e2e/test_image_from_lock.py.
Both stand on the base that `--base-recipe` describes, with Python 3.11, so that buildah's apt has nothing to fetch; its
layers aren't kept from one round to the next.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from support.oci import envspec as printed
from support.oci import opened_builder, torch_mirror

from bench.measure import Run, envspec, run, turns

ROUNDS = 3
ROOT = Path(__file__).resolve().parents[1]
READY = "localhost/ready"


def main() -> None:
    """Print both times, their ratio and the memory."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("mirror", "buildah"):
            (place / name).mkdir()
        with (
            torch_mirror(place / "mirror") as mirror,
            opened_builder(place / "buildah", ROOT / "recipes" / "cpu-py311", "cpu", mirror) as builder,
        ):
            spec = str(ROOT / "specs" / "cpu-py311.toml")
            base = builder.ready_base(printed(ROOT, "image", spec, "--base-recipe"))
            making = envspec(*("image", spec, "--base", str(base), "-o", str(place / "out.tar")))
            run(making)
            building = [
                *(*builder._buildah, "bud", "--isolation", "chroot", "--no-cache", *builder.arguments),
                *(f"--build-arg=BASE_IMAGE={READY}", "-t", "localhost/built", "-f"),
                *(str(builder.context / "cpu" / "Dockerfile"), str(builder.context)),
            ]
            sides = {"image": lambda: run(making), "buildah": lambda: run(building)}
            told(turns(sides, ROUNDS))


def told(sides: dict[str, Run]) -> None:
    for name, one in sides.items():
        print(f"{name:8} {one.seconds:6.1f} s, {one.processor:6.1f} s of processors, {one.megabytes:5.0f} MB")
    print(f"ratio    {sides['image'].seconds / sides['buildah'].seconds:6.2f}")


if __name__ == "__main__":
    main()
