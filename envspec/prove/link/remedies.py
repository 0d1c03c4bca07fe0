"""Remedies for the findings of link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from envspec.packages.build_label import label_of
from envspec.prove.link.model import LinkedPackage
from envspec.prove.link.system import System, cuda_major_of, debian_package, is_drivers, numbers


def library(package: LinkedPackage, name: str, system: System) -> str:
    """Say what would bring a library that nothing brings."""
    major = cuda_major_of(name)
    if is_drivers(name) or (major and not system.cuda):
        return f"this is a build for GPUs: choose a CPU build of {package.name}, or give the target a `cuda`"
    if major and system.cuda and major != system.cuda.partition(".")[0]:
        return f"{package.name} was built for CUDA {major}: choose its build for CUDA {system.cuda}"
    if name.startswith(("libtorch", "libc10")):
        return f"add torch to [pip] dependencies, or choose a build of {package.name} for the target's torch"
    debian = debian_package(name)
    if debian:
        return f'add to [image]: apt = ["{debian}"]; other machines need the package that brings it'
    return f"choose another build of {package.name}, or add what brings the library"


def explain_unused_libraries(libraries: Sequence[str]) -> str:
    """Say what would bring libraries that only files need which importing doesn't load."""
    packages = sorted({f'"{debian}"' for one in libraries if (debian := debian_package(one))})
    apt = f", in images [image] apt = [{', '.join(packages)}]" if packages else ""
    return f"nothing to do, unless the program uses these files: then add what brings the libraries{apt}"


def version(
    package: LinkedPackage, name: str, versions: Sequence[str], had: LinkedPackage | None, system: System
) -> str:
    """Say what would have the symbol versions that a library lacks."""
    if had is not None:
        return (
            f"choose a release of {had.name} with {versions[-1]}, or one of {package.name} that was built against "
            f"{had.name} {had.version}"
        )
    glibc = ".".join(map(str, system.glibc))
    newest = max((one for one in versions if one.startswith("GLIBC_")), key=numbers, default=None)
    choose = f"choose a release of {package.name} that runs on glibc {glibc}"
    if newest and numbers(newest):
        asked = newest.removeprefix("GLIBC_")
        return f'{choose}, or set glibc = "{asked}" for the target if its machines and its base image have it'
    return f"{choose}, or raise the target's `glibc` if its machines and its base image are newer"


def symbol(
    package: LinkedPackage,
    kind: str,
    packages: Mapping[str, LinkedPackage],
) -> str:
    """Say which builds have the symbols that nothing exports."""
    if kind == "cuda":
        return (
            f"lock CUDA libraries as new as those that {package.name} {package.version} was built against, or an older "
            f"{package.name}"
        )
    torch = packages.get("torch")
    if torch is None:
        return "add torch to [pip] dependencies"
    if package.name == "torch":
        return "torch's own files don't fit each other: report it to torch's authors"
    if kind == "stable":
        return f"lock a newer torch than {torch.version}: {package.name} uses more of the stable ABI than that one has"
    release = torch.version.partition("+")[0]
    label = label_of(package.version, package.file)
    if label and label.torch and torch.version.startswith(f"{label.torch}."):
        return f"choose another build of {package.name}: this one wasn't built against torch {release} as it says"
    mine = f", or torch=={label.torch}.*, for which this one was built" if label and label.torch else ""
    return f"choose the release of {package.name} that was built for torch {release}{mine}"
