"""Rules for CPU targets: packages made for CUDA, which install there and do nothing or fail at import."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from envspec.base.finding import Finding
from envspec.facts import gpu_only
from envspec.facts.wheels import FAMILY
from envspec.rules.case import Case

_NAMED = re.compile(r"[\w-]+-gpu|[\w-]+-cu(?:da)?\d\d\d?x?(?:-[\w-]+)?")
"""onnxruntime-gpu, nvidia-dali-cuda120, jax-cuda12-plugin."""

_LOCAL = re.compile(r"\+(?:pt\d+)?cu\d")
"""torch-scatter 2.1.2+pt24cu118, flash-attn 2.8.3+cu12torch2.8."""


def problems(
    case: Case, pins: Mapping[str, str], needs: Mapping[str, Iterable[str]], is_cuda: Callable[[str], bool]
) -> Iterator[Finding]:
    """Find the pins of a CPU target that are made for CUDA, torch aside.

    `needs` has the names that each pin requires; `is_cuda` says whether a name is one of CUDA's own packages.
    """
    if case.cuda is not None:
        return
    for name, version in sorted(pins.items()):
        if name in FAMILY or is_cuda(name):
            continue
        known = gpu_only.needs_gpu(name, version, case.platform)
        if known:
            yield _problem(f"{name} {version}", f": {known.what}", known.instead)
        elif _NAMED.fullmatch(name) or _LOCAL.search(version):
            yield _problem(f"{name} {version}", "", _INSTEAD)
        elif brought := sorted({other for other in needs.get(name, ()) if other in pins and is_cuda(other)}):
            listed = ", ".join(brought[:3]) + (f" and {len(brought) - 3} more" if len(brought) > 3 else "")
            message = f"{name} {version} requires {listed}, which has no use in a CPU target"
            hint = "drop the extra that adds this, if there is one, or list the package in the CUDA targets only"
            yield Finding("warning", "cuda-major-mixed", message, key="cuda", remedy=hint)


_INSTEAD = "list the package in the CUDA targets only, or take its CPU build if there is one"


def _problem(label: str, what: str, instead: str) -> Finding:
    return Finding(
        "warning",
        "gpu-only",
        f"{label} is made for CUDA, and this is a CPU target{what}",
        key="platform",
        remedy=instead,
    )
