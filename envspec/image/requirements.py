"""The demands on a base, for nothing is installed into it: the recipe's Debian packages, a glibc that is new enough, a
compiler and Python's headers for torch.compile, InfiniBand's libraries for NCCL, a service's server. The user can leave
each out knowingly: the smoke check then skips by that name, and the image doesn't start that service."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.export.carried import OF_SERVICES, carried_names
from envspec.export.plan import Plan
from envspec.export.target_json import dumps
from envspec.image.base import BaseImage
from envspec.image.python import ImagePython
from envspec.install.host import InstallHost
from envspec.lock.model import LockedTarget
from envspec.packages.version_numbers import numbers_in

FEATURES = ("compile", "fabric", "ssh", "code-server")
"""The features that an order may leave out: torch.compile's compiler, NCCL's way over InfiniBand, services."""
_COMPILE = ("g++",)
_FABRIC = ("ibverbs-providers", "libibverbs1", "libnuma1", "librdmacm1")
"""Debian's packages of rdma-core, by which NCCL reaches InfiniBand; without them it uses sockets in silence.
Source: NCCL's documentation, "NCCL_IB_DISABLE"; the packages' own lists of files in Debian 12."""
_SINCE_64_BIT_TIME = "t64"
"""The end that names of libraries got in Debian 13 and Ubuntu 24.04 (Debian's wiki, ReleaseGoals/64bit-time)."""


class BaseNeeds(Struct, frozen=True):
    """packages  of Debian that every image needs; of_features: those that go with one of `FEATURES`"""

    packages: tuple[str, ...]
    of_features: Mapping[str, tuple[str, ...]]

    @property
    def every(self) -> tuple[str, ...]:
        return tuple(sorted({*self.packages, *(name for names in self.of_features.values() for name in names)}))


def base_needs(plan: Plan) -> BaseNeeds:
    """Return a target's demands on its base."""
    features: dict[str, tuple[str, ...]] = {"compile": _COMPILE} if plan.runtime.torch else {}
    if set(_FABRIC) <= set(plan.image.debian):
        features["fabric"] = _FABRIC
    features |= {service.name: service.apt for service in plan.image.services if service.apt}
    # what the spec asks for by itself is waived by no feature's name
    own = {name for names in features.values() for name in names}.difference(plan.image.spec_apt)
    return BaseNeeds(tuple(name for name in plan.image.debian if name not in own), features)


def require_digests(plan: Plan, target: LockedTarget, without: Collection[str]) -> Plan:
    """Raise InputError for programs of another image whose digest the lock lacks: the same lock has to give the same
    image. Returns the plan without the programs of `without`."""
    lacking = [borrowed for borrowed in plan.image.borrowed if "@" not in borrowed.image.pinned]
    left_out = tuple(borrowed.name for borrowed in lacking if borrowed.name in FEATURES and borrowed.name in without)
    # conda-forge's does the same as NVIDIA's
    in_conda = {borrowed.name for borrowed in lacking if target.pin(borrowed.name, "conda")}
    for borrowed in lacking:
        if borrowed.name not in left_out and borrowed.name not in in_conda:
            waived = f"; `--without {borrowed.name}` makes an image that hasn't it" if borrowed.name in FEATURES else ""
            raise InputError(
                f"the image of {plan.target} takes {borrowed.name} from {borrowed.image.name}, of which "
                "the lock has no digest",
                hint=f"lock again with `--upgrade-images` where its registry or a mirror answers{waived}",
            )
    own = tuple(borrowed for borrowed in plan.image.toolkit if borrowed.name not in in_conda)
    plan = drop_features(plan, left_out)
    return replace(plan, image=replace(plan.image, toolkit=own))


def drop_features(plan: Plan, left_out: Collection[str]) -> Plan:
    """Give the plan of an image that lacks these features: it says so, and starts none of them."""
    if not left_out:
        return plan
    document = json.loads(plan.image.document)
    document["services"] = [name for name in document["services"] if name not in left_out]
    document["without"] = [name for name in FEATURES if name in {*document.get("without", ()), *left_out}]
    services = tuple(service for service in plan.image.services if service.name not in left_out)
    dropped_scripts = {service.script for service in plan.image.services if service.name in left_out}
    # the services' common script says nothing of one that is there
    retained = carried_names(
        {name for name in plan.image.carries if name not in dropped_scripts and name != OF_SERVICES}
    )
    carries = {name: plan.image.carries[name] for name in retained}
    image = replace(plan.image, services=services, carries=carries, document=dumps(document))
    return replace(plan, image=image)


def refuse_poor(
    plan: Plan, base: BaseImage, python: ImagePython | None, without: Collection[str] | None, path: str
) -> tuple[str, ...]:
    """Raise InputError for a base that lacks what the image needs. Returns the features of `without` that it really
    lacks. `without` is None where the command can leave out nothing. `path` is the spec's, for the hint."""
    packages = base.files.packages()
    known = {*packages, *(name.removesuffix(_SINCE_64_BIT_TIME) for name in packages)}
    need, where = base_needs(plan), base.source.where
    lacking = {feature: _missing(names, known) for feature, names in need.of_features.items()}
    if python is not None and not python.headers and "compile" in lacking:
        lacking["compile"] += (f"libpython{plan.runtime.python}-dev",)
    waivable, without = without is not None, without or ()
    left_out = tuple(name for name in FEATURES if name in without and lacking.get(name))
    refused = {name: names for name, names in lacking.items() if names and name not in without}
    missing = sorted({*_missing(need.packages, known), *(package for names in refused.values() for package in names)})
    if missing:
        features = ",".join(name for name in FEATURES if name in refused)
        waived = f"; `--without {features}` makes an image that can't do that" if features and waivable else ""
        command = f"envspec image {shlex.quote(path)} --target {plan.target} --base-recipe"
        hint = f"`{command}` prints the recipe of a base that has them{waived}"
        raise InputError(f"the base {where} lacks {', '.join(missing)}, and nothing is installed into it", hint=hint)
    _refuse_old(plan, packages, where)
    return left_out


def _missing(names: Collection[str], known: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in known)


def _refuse_old(plan: Plan, packages: Mapping[str, str], where: str) -> None:
    version = _glibc(packages)
    if not version:
        raise InputError(
            f"the base {where} has no glibc, which wheels need", hint="choose a base with Debian or Ubuntu"
        )
    if plan.runtime.glibc and numbers_in(version)[:2] < numbers_in(plan.runtime.glibc)[:2]:
        message = f"the base {where} has glibc {version}, and {plan.target} is locked for {plan.runtime.glibc} or newer"
        raise InputError(message, hint=f'choose a newer base, or set glibc = "{version}" for the target and lock again')


def refuse_newer(base: BaseImage, built: Mapping[str, Path], host: InstallHost) -> None:
    """Raise InputError for wheels that were compiled on a machine with a newer glibc than the base's: they would fail
    at import."""
    version = _glibc(base.files.packages())
    compiled = sorted(name for name, wheel in built.items() if not wheel.name.endswith("-none-any.whl"))
    if compiled and host.glibc and numbers_in(host.glibc)[:2] > numbers_in(version)[:2]:
        message = f"{', '.join(compiled)} was compiled here, with glibc {host.glibc}, and the base has glibc {version}"
        raise InputError(message, hint="choose a base with a glibc as new, or build on a machine with an older one")


def _glibc(packages: Mapping[str, str]) -> str:
    """Give the version of glibc; an empty text where there is none."""
    # Debian's epoch ends at a colon, its own part begins at a hyphen
    return (packages.get("libc6") or packages.get("glibc") or "").rpartition(":")[2].partition("-")[0]


def base_recipe(plan: Plan) -> str:
    """Render the small Dockerfile of a base for a target."""
    names = " ".join(base_needs(plan).every)
    install = "apt-get install -y -qq --no-install-recommends"
    python = plan.runtime.python
    headers = (
        f"    && if [ -x /usr/bin/python{python} ]; then {install} libpython{python}-dev; fi \\\n"
        if plan.runtime.torch and not plan.sources.explicit
        else ""
    )
    return (
        f"# A base for `envspec image`: what {plan.title} needs of Debian. Build it once, push it, and name it by its\n"
        f'# digest in the spec\'s [image], base = "…@sha256:…", or with `envspec image --base`.\n'
        f"FROM {plan.image.base.pinned}\n"
        "RUN apt-get update -qq \\\n"
        f"    && export DEBIAN_FRONTEND=noninteractive && {install} {names} \\\n"
        f"{headers}"
        "    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt \\\n"
        "    /etc/ssh/ssh_host_*\n"
    )
