"""What a base must have, for nothing is installed into it: the recipe's Debian packages, a glibc that is new enough, a
compiler and Python's headers for torch.compile, InfiniBand's libraries for NCCL. What two of them stand for can be left
out knowingly, and the smoke check then skips by that name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from envspec.errors import InputError
from envspec.image.base import BaseImage
from envspec.image.python import ImagePython
from envspec.packages.version_numbers import numbers_in
from envspec.recipes.plan import Plan
from envspec.record import dataclass

FEATURES = ("compile", "fabric")
"""What a base may lack where it's said: torch.compile's compiler, and NCCL's way over InfiniBand."""
_COMPILE = ("g++",)
_FABRIC = ("ibverbs-providers", "libibverbs1", "libnuma1", "librdmacm1")
"""Debian's packages of rdma-core, by which NCCL reaches InfiniBand; without them it uses sockets in silence.
Source: NCCL's documentation, "NCCL_IB_DISABLE"; the packages' own lists of files in Debian 12."""
_SINCE_64_BIT_TIME = "t64"
"""The end that names of libraries got in Debian 13 and Ubuntu 24.04 (Debian's wiki, ReleaseGoals/64bit-time)."""


@dataclass(frozen=True)
class BaseNeeds:
    """packages  of Debian that every image needs; of_features: those that go with one of `FEATURES`"""

    packages: tuple[str, ...]
    of_features: Mapping[str, tuple[str, ...]]

    @property
    def every(self) -> tuple[str, ...]:
        return tuple(sorted({*self.packages, *(name for names in self.of_features.values() for name in names)}))


def wanted(plan: Plan) -> BaseNeeds:
    """Say what a target's base must have."""
    features: dict[str, tuple[str, ...]] = {"compile": _COMPILE} if plan.torch else {}
    if plan.is_cuda:
        features["fabric"] = _FABRIC
    own = {name for names in features.values() for name in names}
    return BaseNeeds(tuple(name for name in plan.apt if name not in own), features)


def refuse_poor(plan: Plan, base: BaseImage, python: ImagePython | None, without: Collection[str]) -> tuple[str, ...]:
    """Raise InputError for a base that lacks what the image needs. Gives those of `without` that it really lacks."""
    there = base.files.packages()
    known = {*there, *(name.removesuffix(_SINCE_64_BIT_TIME) for name in there)}
    need, where = wanted(plan), base.source.where
    lacking = {feature: _missing(names, known) for feature, names in need.of_features.items()}
    if python is not None and not python.headers and "compile" in lacking:
        lacking["compile"] += (f"libpython{plan.python}-dev",)
    left_out = tuple(name for name in FEATURES if name in without and lacking.get(name))
    refused = {name: names for name, names in lacking.items() if names and name not in without}
    missing = sorted({*_missing(need.packages, known), *(one for names in refused.values() for one in names)})
    if missing:
        features = ",".join(name for name in FEATURES if name in refused)
        waived = f"; `--without {features}` makes an image that can't do that" if features else ""
        raise InputError(
            f"the base {where} lacks {', '.join(missing)}, and nothing is installed into it",
            hint=f"`envspec image {plan.spec} --base-recipe` prints the recipe of a base that has them{waived}",
        )
    _refuse_old(plan, there, where)
    return left_out


def _missing(names: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in known)


def _refuse_old(plan: Plan, there: Mapping[str, str], where: str) -> None:
    found = there.get("libc6") or there.get("glibc")
    if not found:
        raise InputError(
            f"the base {where} has no glibc, which wheels need", hint="choose a base with Debian or Ubuntu"
        )
    # Debian's epoch ends at a colon, its own part begins at a hyphen
    version = found.rpartition(":")[2].partition("-")[0]
    if plan.glibc and numbers_in(version)[:2] < numbers_in(plan.glibc)[:2]:
        raise InputError(
            f"the base {where} has glibc {version}, and {plan.target} is locked for {plan.glibc} or newer",
            hint=f'choose a newer base, or set glibc = "{version}" for the target and lock again',
        )


def base_recipe(plan: Plan) -> str:
    """Render the small Dockerfile of a base for a target."""
    names = " ".join(wanted(plan).every)
    return (
        f"# A base for `envspec image`: what {plan.title} needs of Debian. Build it once, push it, and name it by its\n"
        f'# digest in the spec\'s [image], base = "…@sha256:…", or with `envspec image --base`.\n'
        f"FROM {plan.base.pinned}\n"
        "RUN apt-get update -qq \\\n"
        f"    && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {names} \\\n"
        "    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt\n"
    )
