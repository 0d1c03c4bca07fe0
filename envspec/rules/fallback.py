"""Rules against silent CPU builds: values of a target that lead to a CPU build or contradict its CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.facts import torch_builds
from envspec.facts.build_labels import other_maker
from envspec.rules.case import Case
from envspec.rules.wanted import Wanted


def problems(case: Case, names: tuple[str, ...], wanted: Wanted | None) -> Iterator[Finding]:
    """`names` are the GPUs as the spec writes them."""
    if case.platform.startswith("osx") and case.cuda:
        message = f"there is no CUDA on {case.platform}: torch has only CPU and Metal builds there"
        yield Finding("error", "no-cuda-platform", message, key="cuda", remedy="leave `cuda` out")
    elif names and not case.cuda:
        message = f"the target has GPUs ({', '.join(names)}) and no `cuda`: it would get the CPU build"
        remedy = "add `cuda`, or leave `gpus` out for a CPU target"
        yield Finding("error", "cpu-build", message, key="gpus", remedy=remedy)
    if wanted:
        yield from _build_findings(case, wanted)


def _build_findings(case: Case, wanted: Wanted) -> Iterator[Finding]:
    asked = wanted.local or _conda_variant(wanted)
    if asked is None:
        return
    if other := other_maker(asked):
        message = f"{wanted.label} asks for PyTorch's build for {other}, and envspec locks for CUDA and for CPUs only"
        remedy = "drop the build from the requirement: the target's `cuda`, or none for the CPU, chooses it"
        yield Finding("error", "unsupported-build", message, key="torch", remedy=remedy)
        return
    variant = torch_builds.variant_of(case.cuda)
    text = f"{wanted.label} {wanted.build}" if wanted.build else wanted.label
    if asked == "cpu" and case.cuda:
        message = f"{text} asks for the CPU build in a target for CUDA {case.cuda}"
        remedy = "drop the build from the requirement: envspec takes the build for the target's CUDA"
        yield Finding("error", "cpu-build", message, key="torch", remedy=remedy)
    elif (asked != "cpu" and not case.cuda) or (wanted.local and wanted.local != variant):
        of = f"CUDA {case.cuda}" if case.cuda else "the CPU"
        message = f"{text} asks for a build that isn't the target's: the target is for {of}"
        remedy = "drop the build from the requirement, or change the target's `cuda`"
        yield Finding("error", "cuda-mismatch", message, key="torch", remedy=remedy)


def _conda_variant(wanted: Wanted) -> str | None:
    if wanted.name == "pytorch-cpu" or (wanted.build or "").lstrip("*").startswith("cpu"):
        return "cpu"
    if wanted.name == "pytorch-gpu" or (wanted.build or "").lstrip("*").startswith("cuda"):
        return "cuda"
    return None
