"""torch's releases and wheels: the builds for each CUDA, platform and Python, and the architectures in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from envspec.facts import wheels
from envspec.facts.compute_capability import covers
from envspec.facts.tables import read, records
from envspec.packages.version_numbers import numbers


class TorchRelease(Struct, frozen=True, rename={"requires_python": "python", "sources": "source"}):
    """A torch release. `pypi` maps a platform (`linux-64`) to the variant of PyPI's own wheel (`cu128`, `cpu`)."""

    version: str
    requires_python: str
    torchvision: tuple[str, ...]
    torchaudio: tuple[str, ...]
    triton: str
    pypi: Mapping[str, str]
    sources: tuple[str, ...]


class TorchBuild(Struct, frozen=True, rename={"version": "torch", "sources": "source"}):
    """A wheel's build: one release, one variant, one platform.

    `cuda` is None for a CPU build. `sm` holds the capabilities with machine code ("9.0"), `ptx` those with PTX.
    `glibc` is the floor on Linux. `trust`: binary, high, medium, low, or planned (announced, not seen).
    """

    version: str
    variant: str
    cuda: str | None
    platform: str
    pythons: tuple[str, ...]
    sm: tuple[str, ...]
    ptx: tuple[str, ...]
    cudnn: str | None
    nccl: str | None
    triton: str | None
    glibc: str | None
    trust: str
    sources: tuple[str, ...]

    def runs_on(self, capability: str) -> bool:
        """Return whether the build's machine code runs on a GPU of this capability."""
        return covers(self.sm, capability, self.cuda)


def cuda_of_variant(variant: str) -> str | None:
    """Turn the variant of a PyTorch index into its CUDA: `"cu128"` into `"12.8"`, `"cpu"` and any other into None."""
    match = re.fullmatch(r"cu(\d+)(\d)", variant)
    return f"{match[1]}.{match[2]}" if match else None


def is_own_build(version: str, index: str) -> bool:
    """Return whether a torch, or another package, is a build that no table knows: from another index than PyPI and
    PyTorch's, or with another local part than PyTorch's. `index` is a lock's name for it."""
    local = version.partition("+")[2]
    known = not local or re.fullmatch(r"cpu|cu\d+|rocm[\d.]+|xpu", local) is not None
    return not known or not (index == "pypi" or index.startswith("pytorch/"))


def variant_of(cuda: str | None) -> str:
    """Turn a CUDA into its variant: `"12.8"` into `"cu128"`, None into `"cpu"`."""
    return "cu" + "".join(cuda.split(".")[:2]) if cuda else "cpu"


@cache
def _releases() -> dict[str, TorchRelease]:
    return {row.version: row for row in records(TorchRelease, read("torch")["releases"])}


def releases() -> tuple[TorchRelease, ...]:
    """Every release in the tables, oldest first."""
    return tuple(_releases().values())


def release(version: str) -> TorchRelease | None:
    """Find a release by its version; ignores a local part (`+cu126`). None if it isn't in the tables."""
    return _releases().get(version.split("+")[0])


def pypi_variant(version: str, platform: str) -> str | None:
    """Find the variant of PyPI's wheel of a release on a platform. None if it has no wheel or is unknown."""
    row = release(version)
    return row.pypi.get(platform) if row else None


def builds(
    version: str | None = None, cuda: str | None = None, platform: str | None = None, variant: str | None = None
) -> tuple[TorchBuild, ...]:
    """List the builds that match every given value, oldest release first."""
    if version is not None:
        version = version.split("+")[0]
    if cuda is not None:
        variant = variant_of(cuda)
    return _builds(version, variant, platform)


@cache
def _builds(version: str | None, variant: str | None, platform: str | None) -> tuple[TorchBuild, ...]:
    filters = {"torch": version, "variant": variant, "platform": platform}
    named = {key: value for key, value in filters.items() if value is not None}
    rows = (row for row in read("torch")["builds"] if named.items() <= row.items())
    derived = ({**row, "cuda": cuda_of_variant(row["variant"]), "pythons": _pythons(row["pythons"])} for row in rows)
    return records(TorchBuild, derived)


@cache
def lockable_pythons(build: TorchBuild) -> tuple[str, ...]:
    """List the Pythons for which a build can be locked: whose files PyPI has, or the facts of the PyTorch index. A row
    without files is there to judge by: nothing offers its release."""
    if pypi_variant(build.version, build.platform) == build.variant:
        return build.pythons
    return wheels.pythons(build.variant, "torch", build.version, build.platform)


@cache
def lockable(platform: str, variant: str, python: str | None = None) -> tuple[str, ...]:
    """List the releases of torch that can be locked for a platform, a variant and a Python, or any, oldest first."""
    matches = builds(variant=variant, platform=platform)
    return tuple(
        build.version for build in matches if (python in lockable_pythons(build) if python else lockable_pythons(build))
    )


def lockable_cudas(platform: str, version: str | None = None, python: str | None = None) -> tuple[str, ...]:
    """List the CUDA versions for which a release of torch, or any, can be locked, newest first."""
    matches = (build for build in builds(version, platform=platform) if build.cuda)
    cudas = {
        str(build.cuda)
        for build in matches
        if (python in lockable_pythons(build) if python else lockable_pythons(build))
    }
    return tuple(sorted(cudas, key=numbers, reverse=True))


def companions(version: str) -> dict[str, tuple[str, ...]]:
    """Find the torchvision and torchaudio releases made for a torch release; empty if it is unknown."""
    row = release(version)
    return {"torchvision": row.torchvision, "torchaudio": row.torchaudio} if row else {}


def torch_for(companion: str, version: str) -> tuple[str, ...]:
    """List the torch releases that a torchvision or torchaudio release was made for, oldest first."""
    return _torches(companion).get(version.split("+")[0], ())


@cache
def _torches(companion: str) -> dict[str, tuple[str, ...]]:
    """The torch releases by the release of a companion that was made for them."""
    torches: dict[str, tuple[str, ...]] = {}
    for torch in releases():
        for version in companions(torch.version).get(companion, ()):
            torches[version] = (*torches.get(version, ()), torch.version)
    return torches


def newest() -> TorchRelease:
    """The newest release in the tables."""
    return releases()[-1]


def order(version: str) -> tuple[int, ...]:
    """Make a sort key of a release, without its local part."""
    return numbers(version.split("+")[0])


def _pythons(span: str) -> tuple[str, ...]:
    first, _, last = span.partition("-")
    return tuple(f"3.{minor}" for minor in range(numbers(first)[1], numbers(last)[1] + 1))


def build_bounds(torch: str | None) -> tuple[str, ...]:
    """Give bounds, as PEP 508, on what sources are built with beside a torch of this version.

    torch up to 2.1 takes `packaging` from pkg_resources (torch/utils/cpp_extension.py), where setuptools has had it up
    to 69.
    """
    match = re.match(r"(\d+)\.(\d+)", torch or "")
    return ("setuptools<70",) if match and (int(match[1]), int(match[2])) < (2, 2) else ()
