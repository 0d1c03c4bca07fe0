"""Rules against silent CPU builds: values of a target that lead to a CPU build or contradict its CUDA."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.facts.build_labels import cuda_in, other_maker
from envspec.rules import nearest
from envspec.rules.case import Case
from envspec.rules.wanted import FamilyRequirement
from envspec.spec.way import Way

_CPU = Way(cpu=True)


def problems(case: Case, names: tuple[str, ...], requirement: FamilyRequirement | None) -> Iterator[Finding]:
    """Find values of a target that lead to a CPU build. `names` are the GPUs as the spec writes them."""
    if case.platform.startswith("osx") and case.cuda:
        message = f"there is no CUDA on {case.platform}: torch has only CPU and Metal builds there"
        yield Finding("error", "no-cuda-platform", message, key="cuda", ways=(_CPU,))
    elif names and not case.cuda:
        message = f"the target has GPUs ({', '.join(names)}) and no `cuda`: it would get the CPU build"
        yield Finding("error", "cpu-build", message, key="gpus", ways=(*nearest.with_cuda(requirement, case), _CPU))
    if requirement:
        yield from _build_findings(case, requirement)


def _build_findings(case: Case, requirement: FamilyRequirement) -> Iterator[Finding]:
    requested = requirement.local or _conda_variant(requirement)
    if requested is None:
        return
    unbuilt = tuple(_without_build(requirement))
    if other := other_maker(requested):
        message = (
            f"{requirement.label} asks for PyTorch's build for {other}, and envspec locks for CUDA and for CPUs only"
        )
        yield Finding("error", "unsupported-build", message, key="torch", ways=unbuilt)
        return
    build = cuda_in(requested)
    text = f"{requirement.label} {requirement.build}" if requirement.build else requirement.label
    if build == "cpu" and case.cuda:
        message = f"{text} asks for the CPU build in a target for CUDA {case.cuda}"
        yield Finding("error", "cpu-build", message, key="torch", ways=(*unbuilt, _CPU))
    elif (build != "cpu" and not case.cuda) or (requirement.local and build != (case.cuda or "cpu")):
        of = f"CUDA {case.cuda}" if case.cuda else "the CPU"
        message = f"{text} asks for a build that isn't the target's: the target is for {of}"
        if requirement.local and build not in (None, "cpu"):
            other_cuda: tuple[Way, ...] = (Way(cuda=build),)
        else:
            other_cuda = () if case.cuda else nearest.with_cuda(requirement, case)
        yield Finding("error", "cuda-mismatch", message, key="torch", ways=(*unbuilt, *other_cuda))


def _without_build(requirement: FamilyRequirement) -> Iterator[Way]:
    """Yield the same requirement without its build: the target's `cuda`, or none for the CPU, chooses it."""
    specifier = ",".join(
        f"{operator}{version.partition('+')[0]}" for operator, version in requirement.specifier.clauses
    )
    if requirement.channel == "pip":
        yield Way(line=f"{requirement.name}{specifier.replace('===', '==')}")
    elif requirement.name == "pytorch":
        yield Way(conda=f"{requirement.name} {specifier}".strip())


def _conda_variant(requirement: FamilyRequirement) -> str | None:
    if requirement.name == "pytorch-cpu" or (requirement.build or "").lstrip("*").startswith("cpu"):
        return "cpu"
    if requirement.name == "pytorch-gpu" or (requirement.build or "").lstrip("*").startswith("cuda"):
        return "cuda"
    return None
