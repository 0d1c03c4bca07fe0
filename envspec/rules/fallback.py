"""Rules against silent CPU builds: values of a target that lead to a CPU build or contradict its CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.errors import Way
from envspec.base.finding import Finding
from envspec.facts import torch_builds
from envspec.facts.build_labels import other_maker
from envspec.rules import nearest
from envspec.rules.case import Case
from envspec.rules.wanted import Wanted

_CPU = Way(cpu=True)


def problems(case: Case, names: tuple[str, ...], wanted: Wanted | None) -> Iterator[Finding]:
    """`names` are the GPUs as the spec writes them."""
    if case.platform.startswith("osx") and case.cuda:
        message = f"there is no CUDA on {case.platform}: torch has only CPU and Metal builds there"
        yield Finding("error", "no-cuda-platform", message, key="cuda", ways=(_CPU,))
    elif names and not case.cuda:
        message = f"the target has GPUs ({', '.join(names)}) and no `cuda`: it would get the CPU build"
        yield Finding("error", "cpu-build", message, key="gpus", ways=(*nearest.with_cuda(wanted, case), _CPU))
    if wanted:
        yield from _build_findings(case, wanted)


def _build_findings(case: Case, wanted: Wanted) -> Iterator[Finding]:
    asked = wanted.local or _conda_variant(wanted)
    if asked is None:
        return
    unbuilt = tuple(_without_build(wanted))
    if other := other_maker(asked):
        message = f"{wanted.label} asks for PyTorch's build for {other}, and envspec locks for CUDA and for CPUs only"
        yield Finding("error", "unsupported-build", message, key="torch", ways=unbuilt)
        return
    variant = torch_builds.variant_of(case.cuda)
    text = f"{wanted.label} {wanted.build}" if wanted.build else wanted.label
    if asked == "cpu" and case.cuda:
        message = f"{text} asks for the CPU build in a target for CUDA {case.cuda}"
        yield Finding("error", "cpu-build", message, key="torch", ways=(*unbuilt, _CPU))
    elif (asked != "cpu" and not case.cuda) or (wanted.local and wanted.local != variant):
        of = f"CUDA {case.cuda}" if case.cuda else "the CPU"
        message = f"{text} asks for a build that isn't the target's: the target is for {of}"
        cuda = torch_builds.cuda_of(wanted.local) if wanted.local else None
        other_cuda = (Way(cuda=cuda),) if cuda else () if case.cuda else nearest.with_cuda(wanted, case)
        yield Finding("error", "cuda-mismatch", message, key="torch", ways=(*unbuilt, *other_cuda))


def _without_build(wanted: Wanted) -> Iterator[Way]:
    """Yield the same requirement without its build: the target's `cuda`, or none for the CPU, chooses it."""
    specifier = ",".join(f"{operator}{version.partition('+')[0]}" for operator, version in wanted.specifier.clauses)
    if wanted.channel == "pip":
        yield Way(line=f"{wanted.name}{specifier.replace('===', '==')}")
    elif wanted.name == "pytorch":
        yield Way(conda=f"{wanted.name} {specifier}".strip())


def _conda_variant(wanted: Wanted) -> str | None:
    if wanted.name == "pytorch-cpu" or (wanted.build or "").lstrip("*").startswith("cpu"):
        return "cpu"
    if wanted.name == "pytorch-gpu" or (wanted.build or "").lstrip("*").startswith("cuda"):
        return "cuda"
    return None
