"""The system below a target's wheels: glibc, libstdc++, the base image's libraries, the driver's, Python's own.

Sources: for versions by glibc the manylinux policies of auditwheel 6 (`manylinux-policy.json`) and, for 2.28, the
libstdc++ of RHEL 8 and Debian 10 (GCC 8); for those by GCC's release "ABI Policy and Guidelines" of libstdc++'s manual;
for Debian's packages `dpkg -S` on Debian 12, and 13's lists of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from envspec.lock.model import LockedTarget, Pin
from envspec.packages.variants import read_name
from envspec.packages.version_numbers import numbers_in
from envspec.prove.link.model import WheelFacts, family

Version = tuple[int, ...]


class Runtime(Struct, frozen=True):
    """The newest symbol versions of libstdc++ and libgcc_s: `GLIBCXX_3.4.25`, `CXXABI_1.3.11`, `GCC_8.0.0`."""

    glibcxx: Version
    cxxabi: Version
    gcc: Version


_BY_GLIBC: tuple[tuple[Version, Runtime], ...] = (
    ((2, 17), Runtime((3, 4, 19), (1, 3, 7), (4, 8, 0))),
    ((2, 24), Runtime((3, 4, 22), (1, 3, 10), (4, 8, 0))),
    ((2, 27), Runtime((3, 4, 24), (1, 3, 11), (7, 0, 0))),
    ((2, 28), Runtime((3, 4, 25), (1, 3, 11), (7, 0, 0))),
    ((2, 31), Runtime((3, 4, 28), (1, 3, 12), (7, 0, 0))),
    ((2, 34), Runtime((3, 4, 29), (1, 3, 13), (11, 0))),
    ((2, 35), Runtime((3, 4, 30), (1, 3, 13), (12, 0, 0))),
    ((2, 39), Runtime((3, 4, 33), (1, 3, 15), (14, 0, 0))),
)
"""The least that a system with this glibc, or a newer one, has."""

_BY_GCC: tuple[tuple[Version, Runtime], ...] = (
    ((8,), Runtime((3, 4, 25), (1, 3, 11), (7, 0, 0))),
    ((9,), Runtime((3, 4, 26), (1, 3, 12), (7, 0, 0))),
    ((10,), Runtime((3, 4, 28), (1, 3, 12), (7, 0, 0))),
    ((11,), Runtime((3, 4, 29), (1, 3, 13), (11, 0))),
    ((12,), Runtime((3, 4, 30), (1, 3, 13), (12, 0, 0))),
    ((13,), Runtime((3, 4, 31), (1, 3, 14), (13, 0, 0))),
    ((14,), Runtime((3, 4, 33), (1, 3, 15), (14, 0, 0))),
)
"""The least of conda's `libstdcxx`, whose version is GCC's. A newer one than these has no less than the last."""

_GLIBC = (
    *("libc.so.6", "libm.so.6", "libmvec.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"),
    *("libresolv.so.2", "libanl.so.1", "libnsl.so.1", "libthread_db.so.1", "libBrokenLocale.so.1"),
    *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"),
)
_RUNTIME = ("libstdc++.so.6", "libgcc_s.so.1")
_ESSENTIAL = (
    *("libz.so.1", "libcrypt.so.1", "liblzma.so.5", "libbz2.so.1.0", "libzstd.so.1", "libuuid.so.1", "libtinfo.so.6"),
)
"""Of packages that every Debian and Ubuntu image has."""

_PACKAGES: dict[str, tuple[str, ...]] = {
    "libgl1": ("libGL.so.1", "libGLX.so.0", "libGLdispatch.so.0", "libX11.so.6", "libXext.so.6", "libxcb.so.1"),
    "libegl1": ("libEGL.so.1", "libGLdispatch.so.0", "libgbm.so.1"),
    "libopengl0": ("libOpenGL.so.0", "libGLdispatch.so.0"),
    "libgles2": ("libGLESv2.so.2", "libGLdispatch.so.0"),
    "libglib2.0-0": (
        *("libglib-2.0.so.0", "libgobject-2.0.so.0", "libgthread-2.0.so.0", "libgio-2.0.so.0", "libgmodule-2.0.so.0"),
    ),
    "libx11-6": ("libX11.so.6", "libxcb.so.1"),
    "libxcb1": ("libxcb.so.1",),
    "libxext6": ("libXext.so.6", "libX11.so.6", "libxcb.so.1"),
    "libxrender1": ("libXrender.so.1", "libX11.so.6", "libxcb.so.1"),
    "libsm6": ("libSM.so.6", "libICE.so.6"),
    "libice6": ("libICE.so.6",),
    "libgomp1": ("libgomp.so.1",),
    "libatomic1": ("libatomic.so.1",),
    "g++": ("libgomp.so.1", "libatomic.so.1", "libquadmath.so.0"),
    "libexpat1": ("libexpat.so.1",),
    "libibverbs1": ("libibverbs.so.1",),
    "librdmacm1": ("librdmacm.so.1", "libibverbs.so.1"),
    "ibverbs-providers": ("libmlx5.so.1", "libefa.so.1", "libibverbs.so.1"),
    "libibumad3": ("libibumad.so.3",),
    "libnuma1": ("libnuma.so.1",),
    "libopenmpi3": ("libmpi.so.40",),
    "libaio1": ("libaio.so.1",),
    "libssl3": ("libssl.so.3", "libcrypto.so.3"),
    "libcurl4": ("libcurl.so.4",),
    "libsndfile1": ("libsndfile.so.1",),
    "libportaudio2": ("libportaudio.so.2",),
    "ffmpeg": (
        *("libavcodec.so.59", "libavdevice.so.59", "libavfilter.so.8", "libavformat.so.59", "libavutil.so.57"),
        *("libswresample.so.4", "libswscale.so.6"),
    ),
    "libfabric1": ("libfabric.so.1",),
}
"""Debian packages and the libraries that come with each."""

_IN_DEBIAN_13: dict[str, tuple[str, ...]] = {
    "ffmpeg": (
        *("libavcodec.so.61", "libavdevice.so.61", "libavfilter.so.10", "libavformat.so.61", "libavutil.so.59"),
        *("libswresample.so.5", "libswscale.so.8"),
    ),
    "libaio1": ("libaio.so.1t64",),
    "libopenmpi3": (),
    "libopenmpi40": ("libmpi.so.40",),
}
"""Those of which Debian 13 has others: FFmpeg 7.1, and names of the transition to 64-bit times. Source: the packages'
own lists of files in Debian 13."""
_DEBIAN_13 = re.compile(r"trixie|debian:13\b")

_DRIVER = re.compile(r"lib(?:cuda|cudadebugger|nvcuvid|nvoptix|nvidia-[a-z0-9-]+)\.so\.\d+")
"""The driver's libraries, which a container's runtime brings: the chapter "Installed components" of its README."""

_PYTHON = re.compile(r"libpython3(?:\.\d+)?\.so(?:\.1\.0)?")
_NUMBERS = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC)_(\d+(?:\.\d+)*)")
_ABI_OF_GLIBC = {"GLIBC_ABI_DT_RELR": (2, 36), "GLIBC_ABI_DT_X86_64_PLT": (2, 42), "GLIBC_ABI_GNU2_TLS": (2, 42)}
_CUDA_LIBRARY = re.compile(r"lib(?:cudart|cublas(?:Lt)?|nvrtc|nvJitLink|cupti)\.so\.(\d+)(?:\.\d+)*")
"""Those that are numbered by CUDA's major; libcufft, libcusolver and others have numbers of their own."""


class System(Struct, frozen=True):
    """The wheels of a target beside each other, and the system below them.

    glibc     the target's
    runtime   libstdc++ and libgcc_s: those of the oldest systems with that glibc, or conda's
    python    "3.12"
    driver    NVIDIA's driver is there: the target has a CUDA
    cuda      the target's CUDA, None for a CPU target
    base      the base image's name
    packages  the Debian packages that the recipes add to it
    known     it is an image of Debian's or Ubuntu's, whose libraries are known
    conda     the target has conda packages, which link doesn't read
    """

    glibc: Version
    runtime: Runtime
    python: str
    driver: bool
    cuda: str | None
    base: str
    packages: frozenset[str] = frozenset()
    known: bool = True
    conda: bool = False

    def has(self, library: str) -> bool:
        """Return whether a library comes from the base image, the driver or Python."""
        if library in _GLIBC or library in _RUNTIME or library in _ESSENTIAL:
            return True
        if is_drivers(library):
            return self.driver
        if _PYTHON.fullmatch(library):
            return library in (f"libpython{self.python}.so.1.0", f"libpython{self.python}.so", "libpython3.so")
        own = {**_PACKAGES, **_IN_DEBIAN_13} if _DEBIAN_13.search(self.base) else _PACKAGES
        return any(library in own.get(package, ()) for package in self.packages)

    def lacks(self, library: str, version: str) -> bool:
        """Return whether a library of the system is too old to have a symbol version. What isn't known is there."""
        if library in _GLIBC:
            required = _ABI_OF_GLIBC.get(version)
            return (required or _of(version, "GLIBC")) > self.glibc
        if library in _RUNTIME:
            limits = (("GLIBCXX", self.runtime.glibcxx), ("CXXABI", self.runtime.cxxabi), ("GCC", self.runtime.gcc))
            return any(_of(version, kind) > limit for kind, limit in limits)
        return False


def _of(version: str, kind: str) -> Version:
    """Give the numbers of `GLIBC_2.28`, the least ones for another kind's, or for `GLIBC_PRIVATE`."""
    match = _NUMBERS.fullmatch(version)
    return numbers_in(match[2]) if match and match[1] == kind else ()


def runtime_of_glibc(glibc: Version) -> Runtime:
    """Give the least libstdc++ and libgcc_s of systems with a glibc."""
    return next((runtime for least, runtime in reversed(_BY_GLIBC) if glibc >= least), _BY_GLIBC[0][1])


def runtime_of_gcc(version: Version) -> Runtime:
    """Give the libstdc++ and libgcc_s of a release of GCC, which conda's packages are named by."""
    return next((runtime for least, runtime in reversed(_BY_GCC) if version >= least), _BY_GCC[0][1])


def is_drivers(library: str) -> bool:
    """Return whether a library is NVIDIA's driver's own."""
    return _DRIVER.fullmatch(library) is not None


def debian_package(library: str) -> str | None:
    """Give the Debian package that brings a library."""
    return next((package for package, brought in _PACKAGES.items() if library == brought[0]), None) or next(
        (package for package, brought in _PACKAGES.items() if library in brought), None
    )


def cuda_major_of(library: str) -> str | None:
    """Give the CUDA major that a library's name shows, "12" of `libcudart.so.12`; None for one that shows none."""
    match = _CUDA_LIBRARY.fullmatch(library)
    return match[1] if match else None


# A target of a lock as link judges it: which of its files are read, and what is below its wheels.


_KNOWN_BASES = ("debian", "ubuntu", "python")
_LEAST_GLIBC = "2.17"
"""The glibc of a target whose lock has none: the oldest that manylinux wheels admit."""


def system_of(target: LockedTarget, base: str, packages: Iterable[str]) -> System:
    """Return the system below a target's wheels. `base` is the image's name; recipes add `packages` to it."""
    inputs = target.inputs
    glibc = numbers_in(inputs.glibc or _LEAST_GLIBC)
    conda = [pin for pin in target.pins if pin.kind == "conda"]
    gcc = next((pin for pin in conda if pin.name in ("libstdcxx", "libstdcxx-ng")), None)
    return System(
        glibc,
        runtime_of_gcc(numbers_in(gcc.version)) if gcc else runtime_of_glibc(glibc),
        inputs.python,
        driver=inputs.cuda is not None,
        cuda=inputs.cuda,
        base=base,
        packages=frozenset(packages),
        # a distribution's own image, without more
        known=base.removeprefix("docker.io/").removeprefix("library/").partition(":")[0] in _KNOWN_BASES,
        conda=bool(conda),
    )


def is_read(pin: Pin) -> bool:
    """Return whether link reads a package: a wheel for a platform. `any` says that there is no compiled code in it."""
    return pin.is_wheel and pin.artifact is not None and not read_name(pin.artifact.file).plain.endswith("-any.whl")


def torch_abi(facts: WheelFacts) -> str | None:
    """Return the interface of torch that a wheel uses: "stable", as every later torch has it, or "unstable". None for a
    wheel that uses neither."""
    used = {family(symbol) for file in facts.files for symbol in file.facts.undefined}
    return "unstable" if "torch" in used else "stable" if "stable" in used else None
