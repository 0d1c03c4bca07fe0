"""conda's virtual packages of a *target*: what its machines have, not this one."""

from __future__ import annotations

from collections.abc import Sequence

from envspec.facts import toolkits
from envspec.facts.compute_capability import capability_of
from envspec.packages.version_numbers import numbers

_ARCHSPEC = {"linux-64": "x86_64", "linux-aarch64": "aarch64", "osx-arm64": "m1", "win-64": "x86_64"}
"""The baseline CPU of each platform, which every machine of it supports (archspec's names)."""

ARCHSPEC = {
    "x86-64-v1": "x86_64",
    **{f"x86-64-v{level}": f"x86_64_v{level}" for level in (2, 3, 4)},
    "armv8-a": "aarch64",
    **{f"armv8.{minor}-a": f"armv8.{minor}a" for minor in range(1, 6)},
    "armv9-a": "armv9.0a",
}
"""A target's `cpu` in archspec's names (its microarchitectures.json); later processors have none there."""


def virtual_packages(
    platform: str,
    *,
    glibc: str | None,
    cuda: str | None,
    driver: str | None,
    architectures: Sequence[str],
    cpu: str | None = None,
) -> tuple[tuple[str, str, str], ...]:
    """Make the virtual packages, as (name, version, build).

    `__cuda` is the newest CUDA that the driver runs by itself, as conda defines it, and never above the asked one;
    `__cuda_arch` is the lowest compute capability of the GPUs (CEP 46). `architectures` begin with it ("sm_90").
    `__archspec` is the oldest processor, `cpu` ("x86-64-v3"), or what every machine of the platform has.
    """
    packages = [("__archspec", "1", ARCHSPEC.get(cpu or "", _ARCHSPEC.get(platform, "x86_64")))]
    system = platform.partition("-")[0]
    if system == "linux":
        glibc = glibc or "2.28"
        # the kernels of the distributions that brought these glibcs: RHEL 7 and RHEL 8
        kernel = "4.18" if numbers(glibc) >= (2, 28) else "3.10"
        packages += [("__unix", "0", "0"), ("__linux", kernel, "0"), ("__glibc", glibc, "0")]
    elif system == "osx":
        packages += [("__unix", "0", "0"), ("__osx", "13.0", "0")]
    else:
        packages.append(("__win", "10.0", "0"))
    if cuda:
        packages.append(("__cuda", _native_cuda(cuda, driver, platform), "0"))
        if architectures:
            packages.append(("__cuda_arch", capability_of(architectures[0]), "0"))
    return tuple(packages)


def _native_cuda(cuda: str, driver: str | None, platform: str) -> str:
    if driver is None:
        return cuda
    given = numbers(driver)
    runs = [
        toolkit.version
        for toolkit in toolkits.cuda_releases()
        if (native := toolkit.native(platform)) and numbers(native) <= given
    ]
    return min([cuda, *runs[-1:]], key=numbers)
