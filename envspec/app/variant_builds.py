"""`envspec builds --variants`: the variants of a release (PEP 825) as an index has them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from packaging.version import Version

from envspec.app.builds import PLATFORMS, WantedBuilds
from envspec.artifacts.urls import index_address
from envspec.base.errors import AnswerNo, IndexFailure, InputError
from envspec.base.redact import redact
from envspec.base.texts import printable
from envspec.configuration.settings import load_settings
from envspec.facts import toolkits
from envspec.lock.model import WheelVariant
from envspec.lock.variant_build import architectures_of, cuda_of_wheel
from envspec.net.connections import index_fetcher
from envspec.net.index_proxy.releases import by_version
from envspec.net.simple_page import ACCEPT, read_page
from envspec.net.variant_reader import VariantReader, about_variants
from envspec.packages.requirement import canonical_name
from envspec.packages.tags import wheel_fits
from envspec.packages.variant_choice import CUDA_LOWER, CUDA_UPPER, SM_ARCH, TargetMachine, of_namespace
from envspec.packages.variants import NVIDIA, InvalidVariants, Variants, read_name, read_property, variants_file
from envspec.packages.version_numbers import numbers
from envspec.spec.forms import PYTHONS

_GLIBC = "2.99"
"""A newer glibc than any wheel asks for: which of them a target has is another question."""


class VariantRow(Struct, frozen=True):
    """A variant for one platform.

    variant     its label; None for plain wheels, which come after all variants
    pythons     the Pythons with a wheel of it
    sm, ptx     the compute capabilities with machine code, and with PTX
    driver_floor  the oldest driver for its CUDA
    properties  all that a machine needs, as its release says it
    """

    version: str
    variant: str | None
    cuda: str | None
    platform: str
    pythons: tuple[str, ...]
    sm: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    driver_floor: str | None = None
    properties: tuple[str, ...] = ()


def find_variants(package: str, index: str | None, query: WantedBuilds) -> list[VariantRow]:
    """List the variants of a package's newest release, or of that in `NAME==VERSION`, that the described machines could
    install. The index is the user's default or the one at this address. "cpu" keeps variants for no GPU, and a feature
    that the query doesn't name counts as met. The best come first, as the release orders namespaces.

    Raises InputError, OutsideError, and AnswerNo where there is none."""
    machines: list[str | None] = [gpu.capability for gpu in query.look_up_gpus()]
    rows = [
        row
        for row in _variant_rows(package, index)
        if query.platform in (None, row.platform)
        and (query.python is None or query.python in row.pythons)
        and all(_suits(row, query.cuda, capability) for capability in machines or [None])
    ]
    if not rows:
        raise AnswerNo(f"no variant of {package} is like that", hint="leave out an option")
    return rows


def _variant_rows(package: str, index: str | None) -> Iterator[VariantRow]:
    match = re.fullmatch(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==([A-Za-z0-9.+!_-]+))?", package)
    if match is None:
        raise InputError(f'"{printable(package)}" names no package', hint="for example torch, or torch==2.14.0")
    name = canonical_name(match[1])
    settings = load_settings(os.environ)
    address = index or index_address("pypi", {}, settings, os.environ)
    fetcher = index_fetcher(settings, {"index": address}, os.environ)
    url = f"{address.rstrip('/')}/{name}/"
    reply = fetcher.get(url, headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
    if reply.status == 404:
        raise AnswerNo(f"{redact(address)} has no {name}", hint="name another index: --index https://…")
    if reply.status != 200:
        raise IndexFailure(f"{redact(url)} answered HTTP {reply.status}", hint="check the index's address")
    rows = read_page(reply.body, reply.url, fetcher)
    releases = by_version(rows, name)
    version = _version(name, match[2], releases)
    wheels = releases[version].wheels
    labels = {read_name(str(row["filename"])).label for row in wheels}
    if not labels - {None}:
        raise AnswerNo(f"{name} {version} has no variants on {redact(address)}")
    try:
        variants = VariantReader(fetcher).of_release(wheels, about_variants(rows))
    except InvalidVariants as error:
        named = next(str(row["filename"]) for row in wheels if read_name(str(row["filename"])).label)
        raise IndexFailure(printable(f"{variants_file(named)}: {error}"), hint="report this to its publisher") from None
    return _rows(str(version), wheels, variants)


def _version(name: str, requested: str | None, releases: Mapping[Version, object]) -> Version:
    if requested is not None:
        try:
            version = Version(requested)
        except ValueError:
            raise InputError(f'"{printable(requested)}" is not a version', hint=f"for example {name}==2.9.1") from None
        if version not in releases:
            raise AnswerNo(f"the index has no {name} {version}")
        return version
    final = [release for release in releases if not release.is_prerelease] or list(releases)
    if not final:
        raise AnswerNo(f"the index has no release of {name}")
    return max(final)


def _rows(version: str, wheels: Sequence[Mapping[str, Any]], variants: Variants) -> Iterator[VariantRow]:
    files: dict[str | None, list[str]] = {}
    for row in wheels:
        files.setdefault(read_name(str(row["filename"])).label, []).append(str(row["filename"]))
    order = {label: number for number, label in enumerate([*sorted(variants.variants, key=_rank(variants)), None])}
    for label in sorted(files, key=lambda name: (order.get(name, len(order)), name or "")):
        properties = variants.variants.get(label) if label is not None else ()
        if properties is None:  # the release doesn't describe this label
            continue
        of = WheelVariant(label or "", tuple(map(str, properties)), variants.priorities)
        cuda, (sm, ptx) = cuda_of_wheel(of), architectures_of(of)
        for platform in PLATFORMS:
            pythons = tuple(
                python for python in PYTHONS if any(wheel_fits(file, platform, python, _GLIBC) for file in files[label])
            )
            if pythons:
                driver = toolkits.driver_floor(cuda, platform) if cuda else None
                yield VariantRow(version, label, cuda, platform, pythons, sm, ptx, driver, of.properties)


def _rank(variants: Variants) -> Any:
    """Make the order of labels: by their properties of the more important namespaces, newest CUDA first; `null` comes
    last."""

    def key(label: str) -> tuple[Any, ...]:
        properties = variants.variants[label]
        has = tuple(not any(need.namespace == name for need in properties) for name in variants.priorities)
        lower = max((numbers(need.value) for need in properties if need.feature == CUDA_LOWER), default=())
        return (has, tuple(-part for part in lower), label)

    return key


def _suits(row: VariantRow, cuda: str | None, capability: str | None) -> bool:
    """Return whether a machine with this CUDA and a GPU of this capability could install a variant."""
    properties = [need for text in row.properties if (need := read_property(text)) and need.namespace == NVIDIA]
    if cuda == "cpu":
        return not properties
    features = {*((CUDA_LOWER, CUDA_UPPER) if cuda else ()), *((SM_ARCH,) if capability else ())}
    capabilities = (capability,) if capability else ()
    known = dict(
        of_namespace(NVIDIA, TargetMachine(row.platform, "3.12", _GLIBC, cuda or "12.8", capabilities=capabilities))
    )
    return (bool(properties) or not features) and all(
        any(need.feature == feature and need.value in known.get(feature, ()) for need in properties)
        for feature in {need.feature for need in properties} & features
    )
