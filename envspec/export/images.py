"""The images that recipes build with, by name. `envspec lock` writes their digests into the lock."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from envspec.base.errors import InputError, Place
from envspec.base.finding import Finding, merge_targets
from envspec.base.texts import printable
from envspec.export import compat, nvcc
from envspec.export.environment import COMPILING, is_compiled
from envspec.export.plan import ImageReference, OnBase, Plan
from envspec.lock.model import Lock, LockedImage, LockedTarget, Pin, SoundLock
from envspec.spec.model import Spec

IMAGES = ("dockerfile", "apptainer")
"""The formats that images are built from."""
NIX = "nix"
NO_SNAPSHOT = "Debian's packages are the newest on the day of a build"


def missing_pins(plans: Iterable[Plan], formats: Iterable[str]) -> tuple[str, ...]:
    """Write a line for each unpinned image or package source of recipes in these formats; targets share equal lines."""
    chosen = set(formats)
    lines: list[str] = []
    for plan in plans:
        if chosen.intersection(IMAGES):
            lines += _list_missing_pins(plan)
        if NIX in chosen and plan.sources.explicit is None:
            lines.append("nixpkgs is the newest of its branch, until `nix flake lock` pins it")
    return tuple(dict.fromkeys(lines))


def _list_missing_pins(plan: Plan) -> Iterator[str]:
    if plan.runtime.on_base:
        on_base = (plan.image.base, plan.image.uv)
        yield from (f"the image {image.name} has no digest" for image in on_base if "@" not in image.pinned)
        return
    compiling = plan.sources.compiling
    images = (plan.image.base, plan.image.uv, plan.image.micromamba, compiling.image if compiling else None)
    for image in (*images, *(source.image for source in plan.image.borrowed)):
        if image is not None and "@" not in image.pinned:
            yield f"the image {image.name} has no digest"
    if plan.image.snapshot is None:
        yield NO_SNAPSHOT
    elif compiling and compiling.image != plan.image.base:
        yield f"packages of apt in {compiling.image.name}, where sources are built, are the newest on that day"
    if plan.runtime.build is None and plan.sources.explicit is None and not plan.runtime.base_python:
        yield f"the lock names no build of Python {plan.runtime.python}"
    loose = {name for step in plan.sources.pip if step.source and not step.built_with for name in step.packages}
    # what is built in the environment itself has the lock's own packages alone
    loose -= {name for step in plan.sources.pip for name in step.unisolated}
    if loose:
        yield f"the lock names no wheels to build {', '.join(sorted(loose))} with"


UV = "astral/uv:0.13.8"
"""uv alone, at /uv; multi-platform. Source: uv's documentation, "Using uv in Docker", the distroless image."""
MICROMAMBA = "mambaorg/micromamba:2.9.0"
"""Debian with micromamba at /bin/micromamba; multi-platform.

Source: mamba-org/micromamba-docker, its Dockerfile's MAMBA_EXE and the README's list of platforms.
"""
CODE_SERVER = "codercom/code-server:4.138.0"
"""Debian with code-server at /usr/lib/code-server, which brings its own Node.js; multi-platform.

Source: coder/code-server, ci/release-image/Dockerfile, which installs the project's Debian package.
"""

_DEVEL = {
    "11.2": "11.2.2",
    "11.3": "11.3.1",
    "11.4": "11.4.3",
    "11.5": "11.5.2",
    "11.6": "11.6.2",
    "11.7": "11.7.1",
    "11.8": "11.8.0",
    "12.0": "12.0.1",
    "12.1": "12.1.1",
    "12.2": "12.2.2",
    "12.3": "12.3.2",
    "12.4": "12.4.1",
    "12.5": "12.5.1",
    "12.6": "12.6.3",
    "12.8": "12.8.1",
    "12.9": "12.9.1",
    "13.0": "13.0.2",
    "13.1": "13.1.1",
    "13.2": "13.2.1",
    "13.3": "13.3.1",
    "13.4": "13.4.2",
}
"""CUDA version -> a release of nvidia/cuda with its compiler. Those up to 12.9 exist for Ubuntu 20.04, those from 11.7
to 13.3 for 22.04, newer ones for 24.04.

Source: NVIDIA's lists of tags, doc/supported-tags.md and doc/unsupported-tags.md of its container-images/cuda, as
copied in pranavmishra90/nvidia-container-images-cuda: up to 12.9 at 60a1c892e6b996382e182b4654e0a3f31aeedbee, 13.0
and 13.1 at 181367a60650bee1a0d32f52b0e96d83d982de0d; newer ones as public Dockerfiles name them. The policy there: a
tag may be deleted six months after a newer update of its CUDA.
"""
_FIRST_ON_22_04 = (11, 7)
"""Source: the same lists, which have no tag of an older CUDA for Ubuntu 22.04."""
_LAST_ON_20_04 = (12, 9)
"""Source: the same lists, which have no tag of a newer CUDA for Ubuntu 20.04."""
_LAST_SEEN_ON_22_04 = (13, 3)
"""Of newer ones, public Dockerfiles name Ubuntu 24.04 and 26.04 alone, with 13.4.2 and the compiler too."""
_GLIBC = {"20.04": (2, 31), "22.04": (2, 35), "24.04": (2, 39)}
"""The glibc of Ubuntu's releases, on which what is compiled there runs, and on newer ones."""

_OLDER_BASES = (
    (re.compile(r"bookworm|debian:12\b"), (2, 36)),
    (re.compile(r"jammy|ubuntu:?22\.\d\d"), (2, 35)),
    (re.compile(r"bullseye|focal|debian:11\b|ubuntu:?20\.\d\d"), (2, 31)),
    (re.compile(r"buster|stretch|bionic|xenial|trusty|debian:(9|10)\b|ubuntu:?1[468]\.\d\d"), (2, 28)),
)
"""Patterns for names of images whose glibc is older than Ubuntu 24.04's, and their newest glibc.

Source: the versions of the package libc6 in the releases' own package lists: Debian 9 to 13 have 2.24, 2.28, 2.31, 2.36
and 2.41, Ubuntu 14.04, 16.04, 18.04, 20.04, 22.04 and 24.04 have 2.19, 2.23, 2.27, 2.31, 2.35 and 2.39.
"""

_NEWER_BASES = ((re.compile(r"noble|ubuntu:?24\.\d\d"), (2, 39)), (re.compile(r"trixie|debian:13\b"), (2, 41)))

_UBUNTUS = re.compile(r"ubuntu|jammy|noble|focal")

_GLIBC_2_41 = re.compile(r"trixie|debian:13\b")
_HEADERS_FIT = (13, 0)
"""The first CUDA whose headers compile beside glibc 2.41's, which declare sinpi, cospi and rsqrt otherwise. Source:
NVIDIA/cuda-samples issue 378 and opencv/opencv issue 27111, with CUDA 12.4 to 12.9."""

_WITHOUT_APT = {
    "almalinux", "alpine", "amazonlinux", "archlinux", "busybox", "centos", "clearlinux", "fedora", "opensuse",
    "oraclelinux", "photon", "rockylinux", "scratch", "sles", "ubi7", "ubi8", "ubi9", "ubi10", "wolfi",
}  # fmt: skip
"""Words in the name or tag of images that are known to be neither Debian nor Ubuntu. Source: the distributions' own
documentation, which installs with apk, dnf, yum, microdnf, zypper, pacman, tdnf or swupd, or has no package manager."""


def base_of(spec: Spec) -> str:
    """Give the base image's name. Raises InputError for an image known to lack apt: recipes install with apt, and
    wheels need glibc.
    """
    name = spec.image.base
    words = set(name.partition("@")[0].lower().replace(":", "/").replace("-", "/").split("/"))
    bare = {word.rstrip("0123456789.") for word in words}
    matches = sorted((words | bare) & _WITHOUT_APT)
    if matches or "distroless" in words:
        message = f'the base image "{name}" has no apt ({(matches or ["distroless"])[0]})'
        hint = 'use a base with Debian or Ubuntu, such as base = "debian:trixie-slim"'
        raise InputError(message, hint=hint, place=spec.places.get("image.base", Place(spec.path)))
    return name


def snapshot_of(spec: Spec) -> str | None:
    """Give the day as of which Debian's packages are; None for the newest. Raises InputError for a base of Ubuntu's,
    whose archive has no such days."""
    if spec.image.snapshot and _UBUNTUS.search(spec.image.base):
        message = f'snapshots are Debian\'s, and the base image "{spec.image.base}" is of Ubuntu'
        hint = 'take a base of Debian, such as base = "debian:trixie-slim", or leave out snapshot'
        raise InputError(message, hint=hint, place=spec.places.get("image.snapshot", Place(spec.path)))
    return spec.image.snapshot


def sources(target: LockedTarget) -> tuple[Pin, ...]:
    """List the pip packages that are built during the installation."""
    return tuple(pin for pin in target.pins if pin.kind == "pip" and not pin.is_wheel)


def compiled_packages(spec: Spec, target: LockedTarget) -> tuple[str, ...]:
    """Name the packages that may be compiled against the environment, with CUDA's compiler where the target has CUDA:
    all but the sources that are built with what the lock names for it alone, and that is no compiler's."""
    terms = spec.terms_of(target.name)
    declared = {*terms.build_dependencies, *terms.no_build_isolation, *(source.name for source in terms.metadata)}
    ready = bool(spec.image.build_env or spec.image.build_apt)
    compiled = [
        pin.name
        for pin in sources(target)
        if ready
        or pin.name in declared
        or pin.built_with is None
        or COMPILING & {build_pin.name for build_pin in pin.built_with}
    ]
    return (*compiled, *([spec.project.name] if spec.project and is_compiled(spec.project) else []))


def compiler(spec: Spec, target: LockedTarget) -> str | None:
    """Give the image of the stage that builds; None where the lock has nothing to build. What is compiled for CUDA
    gets its compiler.

    Raises InputError as `base_of` does, and where no image has CUDA's compiler with a glibc as old as the base's.
    """
    own = compiled_packages(spec, target)
    if not own and not sources(target):
        return None
    cuda = target.inputs.cuda
    return devel(cuda, spec, target) if own and cuda else base_of(spec)


def compat_image(cuda: str) -> str:
    """Give NVIDIA's base image of a CUDA version, which holds its cuda-compat."""
    return f"nvidia/cuda:{_release(cuda)}-base-ubuntu{_ubuntu(cuda, None)}"


def of_target(spec: Spec, target: LockedTarget) -> tuple[str, ...]:
    """List the names of every image that the recipes of one target use."""
    if spec.base is not None:
        return (UV,)
    names = [base_of(spec), UV, compiler(spec, target)]
    if any(pin.kind == "conda" for pin in target.pins):
        names.append(MICROMAMBA)
    if "code-server" in spec.image.services:
        names.append(CODE_SERVER)
    if target.inputs.cuda and compat.is_wanted(spec, target):
        names.append(compat_image(target.inputs.cuda))
    if target.inputs.cuda and nvcc.is_wanted(spec, target):
        names.append(devel(target.inputs.cuda, spec, target))
    return tuple(sorted({name for name in names if name}))


def wanted_images(spec: Spec, lock: Lock) -> tuple[str, ...]:
    """List the names of all images that a spec's recipes use, sorted; `envspec lock` asks registries for them.

    Raises InputError as `base_of` does.
    """
    linux = [target for target in lock if target.inputs.platform.startswith("linux-")]
    return tuple(sorted({name for target in linux for name in of_target(spec, target)}))


def base_reference(spec: Spec, lock: Lock, target: LockedTarget) -> ImageReference:
    """Give a target's base image with its digest in the lock. Raises InputError as `base_of` does."""
    if spec.base is None:
        return reference(lock, base_of(spec))
    known = next((image.digest for image in lock.bases if image.platform == target.inputs.platform), None)
    return ImageReference(spec.base.place, known)


def on_base(spec: Spec, lock: Lock, target: LockedTarget) -> OnBase | None:
    """Give the base of a target; None of a whole environment. Raises InputError for one whose Python a recipe can't
    hold: an image may have any name for it.

    pip puts packages below the prefix of its Python; Debian's below /usr/local (its python3 package, README.Debian).
    """
    if spec.base is None:
        return None
    inventory = lock.inventories[target.inputs.platform]
    path = f"/{inventory.executable}"
    if not re.fullmatch(r"[A-Za-z0-9._/+-]+", path):
        message = f"the Python of {spec.base.place} lies at {printable(path)}, which no recipe can hold"
        raise InputError(message, hint="find out who made the base", place=spec.places.get("base"))
    prefix, folder = posixpath.dirname(posixpath.dirname(path)), "site-packages"
    if prefix in ("/usr", "/usr/local") and any(
        folder_name.endswith("/dist-packages") for folder_name in inventory.folders
    ):
        prefix, folder = "/usr/local", "dist-packages"
    return OnBase(spec.base.kind, path, prefix, f"{prefix}/lib/python{target.inputs.python}/{folder}".lstrip("/"))


def reference(lock: Lock, name: str) -> ImageReference:
    """Give an image with its digest in the lock; of CUDA's images, one that the lock pins goes before a newer tag."""
    known = lock.image(name) or earlier_cuda_image(lock, name)
    return ImageReference(known.name, known.digest) if known else ImageReference(name, None)


def earlier_cuda_image(lock: Lock, name: str) -> LockedImage | None:
    """Give the image that an earlier table had of the same CUDA version for the same use, where the lock pins that one
    and not today's."""
    today = _CUDA_IMAGE.fullmatch(name)
    if today is None or lock.image(name):
        return None
    alike = (
        target
        for target in lock.images
        if (own := _CUDA_IMAGE.fullmatch(target.name)) and own.groups() == today.groups()
    )
    return next(alike, None)


_CUDA_IMAGE = re.compile(r"nvidia/cuda:(\d+\.\d+)\.\d+(-[a-z0-9.-]+)")


def with_locked_images(spec: Spec, lock: SoundLock) -> tuple[Spec, SoundLock]:
    """Give a spec that names no base image with the one that its lock pins, though the default is another today; and
    the lock with what of its images today's facts give otherwise."""
    doubts = []

    def doubt(what: str, today: str, locked: str, targets: tuple[str, ...] = ()) -> None:
        message = f"by today's facts the {what} is {today} (the lock says {locked}), so {locked} counts"
        doubts.append(Finding("warning", "image-changed", message, targets=targets))

    base = spec.image.base
    same = [image.name for image in lock.images if image.name.partition(":")[0] == base.partition(":")[0]]
    if "image.base" not in spec.places and base not in same and len(same) == 1:
        doubt("base image", base, same[0])
        spec = replace(spec, image=replace(spec.image, base=same[0]))
    for target in lock:
        with suppress(InputError):
            for name in of_target(spec, target):
                if earlier := earlier_cuda_image(lock, name):
                    doubt("image with CUDA", name, earlier.name, (target.name,))
    return spec, replace(lock, doubts=merge_targets((*lock.doubts, *doubts)))


def devel(cuda: str, spec: Spec, target: LockedTarget) -> str:
    """Give NVIDIA's image with a CUDA version's compiler. A version that isn't in the table gets its first release's.

    What is compiled runs on the glibc it was compiled with or a newer one, so an old base gets Ubuntu 20.04. The others
    get 22.04, which has a newer compiler, or the first that a newer CUDA has. Raises InputError where something is
    compiled and no image has a glibc as old. (What is taken out of the image is NVIDIA's, the same for every release.)
    """
    base = base_of(spec)
    glibc = next((glibc for words, glibc in _OLDER_BASES if words.search(base)), None)
    ubuntu = _ubuntu(cuda, glibc)
    own = compiled_packages(spec, target)
    if own and glibc and glibc < _GLIBC[ubuntu]:
        needed, instead = ("2.39", "debian:trixie-slim") if ubuntu == "24.04" else ("2.35", "debian:bookworm-slim")
        raise InputError(
            f'{", ".join(own)} would be compiled with CUDA {cuda} for a newer glibc than the base image "{base}" has',
            hint=f'choose a base with glibc {needed} or newer, such as base = "{instead}"',
            place=spec.places.get("image.base", Place(spec.path)),
        )
    return f"nvidia/cuda:{_release(cuda)}-devel-ubuntu{ubuntu}"


def refuse_old_headers(cuda: str, spec: Spec, target: LockedTarget) -> None:
    """Raise InputError where an image's nvcc couldn't compile anything beside its base's glibc."""
    base = base_of(spec)
    if _GLIBC_2_41.search(base) and tuple(map(int, cuda.split(".")[:2])) < _HEADERS_FIT:
        raise InputError(
            f"{target.name}: the compiler of CUDA {cuda} compiles nothing beside glibc 2.41, which the base image"
            f' "{base}" has',
            hint='choose an older base, such as base = "debian:bookworm-slim", or leave out nvcc',
            place=spec.places.get("image.nvcc", Place(spec.path)),
        )


def _release(cuda: str) -> str:
    return _DEVEL.get(cuda, f"{cuda}.0")


def known_glibc(image: str) -> str | None:
    """Give the glibc of an image by its name ("2.35"); None where the name doesn't say it."""
    known = (*_OLDER_BASES[:-1], *_NEWER_BASES)
    return next((".".join(map(str, glibc)) for words, glibc in known if words.search(image)), None)


def _ubuntu(cuda: str, glibc: tuple[int, int] | None) -> str:
    """Choose the release of Ubuntu whose image of this CUDA suits a base with an old glibc (None: any other base)."""
    version = tuple(map(int, cuda.split(".")[:2]))
    if version > _LAST_SEEN_ON_22_04:
        return "24.04"
    old = glibc is not None and glibc < _GLIBC["22.04"]
    return "20.04" if version < _FIRST_ON_22_04 or (old and version <= _LAST_ON_20_04) else "22.04"
