"""Findings on the images of a lock's recipes: services without their package, and CUDA that comes twice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from envspec.base.finding import Finding
from envspec.export.make import missing_packages
from envspec.lock.model import LockedTarget
from envspec.spec.model import Spec

_WITH_CUDA = (
    (re.compile(r"(?:^|/)nvidia/cuda:(?:.*-)?(?:runtime|devel)(?:-|$)"), "CUDA's libraries"),
    (re.compile(r"(?:^|/)pytorch/pytorch(?:[:@]|$)"), "torch and CUDA's libraries"),
    (re.compile(r"^nvcr\.io/nvidia/(?:pytorch|tensorflow|cuda-dl-base)(?:[:@]|$)"), "torch and CUDA's libraries"),
)
"""Base images that hold what the wheels of a CUDA target bring, by their names, and what that is. `nvidia/cuda:…-base`
has the runtime alone. Source: the images' own pages in their registries."""


def image_findings(spec: Spec, locked: Sequence[LockedTarget]) -> Iterator[Finding]:
    """Name the services whose package is missing, and a base image with the CUDA that the wheels bring."""
    linux = tuple(target for target in locked if target.inputs.platform.startswith("linux-"))
    yield from _services_without_package(spec, linux)
    twice = next((what for pattern, what in _WITH_CUDA if pattern.search(spec.image.base)), None)
    names = [target.name for target in linux if target.inputs.cuda and _brings_cuda(target)]
    if twice and names:
        yield Finding(
            "info",
            "cuda-twice",
            f"the base image {spec.image.base} holds {twice}, and so do the wheels:"
            " the image gets several GB that no program loads",
            spec.places.get("image.base"),
            'base = "debian:trixie-slim" is enough; what compiles gets a stage with CUDA\'s compiler of its own',
            targets=tuple(names),
        )


def _services_without_package(spec: Spec, linux: Iterable[LockedTarget]) -> Iterator[Finding]:
    missing: dict[tuple[str, str], list[str]] = {}
    for target in linux:
        for missing_package in missing_packages(spec, target):
            missing.setdefault(missing_package, []).append(target.name)
    for (service, package), names in missing.items():
        yield Finding(
            "warning",
            "service-without-package",
            f'the service "{service}" needs {package}, which isn\'t locked:'
            " `envspec export` makes no recipe without it",
            spec.places.get("image.services"),
            f"add {package} to [pip] dependencies",
            targets=tuple(names),
        )


def _brings_cuda(target: LockedTarget) -> bool:
    return any(pin.kind == "pip" and pin.name.startswith("nvidia-") for pin in target.pins)
