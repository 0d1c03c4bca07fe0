"""The rules for a base, a vendor's image or a centre's prefix: whether its Python, C library, CUDA and torch meet a
target's demands. A gap in the inventory is a finding, and passes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from packaging.version import Version

from envspec.base.finding import Finding
from envspec.facts.compute_capability import can_translate, covers
from envspec.facts.ngc import images
from envspec.packages.names import requirement_name
from envspec.packages.python_range import is_within
from envspec.packages.requirement import published_requirement
from envspec.packages.version_numbers import numbers
from envspec.rules.case import Case
from envspec.spec.way import Way

ARCHITECTURES = "TORCH_CUDA_ARCH_LIST"
"""The variable by which a build of PyTorch chooses its GPUs (torch.utils.cpp_extension); a vendor's image keeps it."""


class KnownBase(Struct, frozen=True):
    """The facts of a base's inventory.

    python         "3.12", or with the patch release
    torch          the version of its torch; None where it has none, or where that is replaced
    architectures  the value of TORCH_CUDA_ARCH_LIST
    """

    python: str
    glibc: str | None = None
    cuda: str | None = None
    torch: str | None = None
    architectures: str = ""


def problems(case: Case, python_range: str | None, base: KnownBase) -> Iterator[Finding]:
    """Find the conflicts between a target and its base."""
    python = base.python
    exact = python.count(".") > 1
    if not f"{python}.".startswith(f"{case.python}.") or (
        python_range and exact and not is_within(python, case.python, python_range)
    ):
        message = f"the base has Python {python}, and the spec asks for {python_range or case.python}"
        minor = ".".join(python.split(".")[:2])
        yield Finding("error", "base-unfit", message, key="python", ways=(Way(python=minor),))
    if base.glibc is None:
        yield _unknown("its glibc", f"wheels are chosen for glibc {case.glibc}", "glibc")
    elif numbers(base.glibc) < numbers(case.glibc):
        message = f"the base has glibc {base.glibc}, and the target is for {case.glibc}"
        yield Finding(
            "error",
            "base-unfit",
            message,
            key="glibc",
            ways=(Way(glibc=base.glibc),),
        )
    if case.cuda is None:
        return
    if base.cuda is None:
        yield _unknown("its CUDA", f"the target is for CUDA {case.cuda}", "cuda")
    elif base.cuda != case.cuda:
        message = f"the base has CUDA {base.cuda}, and the target is for {case.cuda}"
        yield Finding("error", "base-unfit", message, key="cuda", ways=(Way(cuda=base.cuda),))
    if base.torch:
        yield from _torch(case, base.torch, base)


def other_images(case: Case, python_range: str | None, own: str | None, lines: Iterable[str]) -> str | None:
    """Name the other images of NVIDIA that a target fits on, where its base's torch, `own`, is NVIDIA's: by the tables,
    which don't cover GPUs and an image's other packages. `lines` are the target's requirements."""
    if ".nv" not in (own or ""):
        return None
    specifiers = [published_requirement(line).specifier for line in lines if requirement_name(line) == "torch"]
    fit = [
        image.tag
        for image in images()
        if all(specifier.contains(Version(image.torch).base_version) for specifier in specifiers)
        if all(
            finding.severity != "error"
            for finding in problems(case, python_range, KnownBase(image.python, image.glibc, image.cuda, image.torch))
        )
    ]
    return f"if another base will do, these of NVIDIA's images have it: {', '.join(fit)}" if fit else None


def _torch(case: Case, version: str, base: KnownBase) -> Iterator[Finding]:
    if version.endswith("+cpu"):
        message = f"the base's torch {version} is a CPU build, and the target is for CUDA {case.cuda}"
        yield Finding("error", "cpu-build", message, key="cuda", ways=(Way(cpu=True),))
        return
    compiled = base.architectures.replace(";", " ").split()
    machine_code = [architecture.removesuffix("+PTX") for architecture in compiled]
    ptx = [architecture.removesuffix("+PTX") for architecture in compiled if architecture.endswith("+PTX")]
    try:
        unrun = [capability for capability in case.capabilities if not covers(machine_code, capability, case.cuda)]
        translated = [capability for capability in unrun if can_translate(ptx, capability)]
    except ValueError:
        compiled, unrun, translated = [], [], []
    if not compiled:
        if case.capabilities:
            yield _unknown(f"for which GPUs its torch {version} is compiled", "`envspec smoke` shows it", "gpus")
        return
    for capability in unrun:
        message = f"the base's torch {version} is compiled for {' '.join(compiled)} ({ARCHITECTURES})"
        if capability in translated:
            message += (
                f": of {case.names(capability)} ({capability}) it has PTX alone, "
                "which the driver compiles at its first use"
            )
            yield Finding("warning", "ptx-only", message, key="gpus", package="torch")
        else:
            message += f", and nothing of it runs on {case.names(capability)} ({capability})"
            yield Finding("error", "architecture-missing", message, key="gpus")


def _unknown(what: str, beside: str, key: str) -> Finding:
    message = f"the base's inventory doesn't say {what}, so nothing is judged by it: {beside}"
    return Finding("warning", "base-unknown", message, key=key)
