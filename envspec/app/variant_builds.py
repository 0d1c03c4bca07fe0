"""`envspec builds --variants`: the variants of a release (PEP 825) as an index has them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envspec.base.errors import AnswerNo, IndexFailure, InputError
from envspec.base.redact import redact
from envspec.base.texts import printable
from envspec.facts import toolkits
from envspec.lock.model import WheelVariant
from envspec.lock.variant_build import architectures_of, cuda_of
from envspec.packages.requirement import canonical_name
from envspec.packages.tags import wheel_fits
from envspec.packages.variant_choice import CUDA_LOWER, CUDA_UPPER, SM_ARCH, TargetMachine, of_namespace
from envspec.packages.variant_name import read_name, variants_file
from envspec.packages.variants import NVIDIA, InvalidVariants, Property, Variants, read_property

if TYPE_CHECKING:
    from packaging.version import Version

    from envspec.facts.gpus import Gpu
    from envspec.net.index_proxy.releases import VersionFiles
    from envspec.net.simple_page import Page

_PLATFORMS = ("linux-64", "linux-aarch64", "osx-arm64", "win-64")
_PYTHONS = tuple(f"3.{minor}" for minor in range(8, 16))
_GLIBC = "2.99"
"""A newer glibc than any wheel asks for: which of them a target has is another question."""


@dataclass(frozen=True)
class VariantRow:
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


def published(package: str, index: str | None) -> tuple[str, Page, Mapping[Version, VersionFiles]]:
    """List a package's files on the user's default index, or on the one at this address: where that is, all of its
    rows, and its wheels and sources by version. Raises OutsideError, InputError for a broken configuration."""
    from envspec.base.settings import load_settings
    from envspec.net.connections import index_fetcher
    from envspec.net.index_proxy.releases import by_version
    from envspec.net.simple_page import ACCEPT, read_page
    from envspec.resolve.artifact_urls import index_address

    settings = load_settings(os.environ)
    address = index or index_address("pypi", {}, settings, os.environ)
    fetcher = index_fetcher(settings, {"index": address}, os.environ)
    url = f"{address.rstrip('/')}/{package}/"
    reply = fetcher.get(url, headers={"Accept": ACCEPT, "Accept-Encoding": "gzip"})
    if reply.status == 404:
        raise AnswerNo(f"{redact(address)} has no {package}", hint="name another index: --index https://…")
    if reply.status != 200:
        raise IndexFailure(f"{redact(url)} answered HTTP {reply.status}", hint="check the index's address")
    rows = read_page(reply.body, url, fetcher)
    return address, rows, by_version(rows, package)


def variant_rows(package: str, index: str | None) -> list[VariantRow]:
    """List the variants of a package's newest release, or of that in `NAME==VERSION`; the best first, as the release
    orders namespaces. Raises InputError, OutsideError, and AnswerNo for one without variants."""
    from envspec.base.settings import load_settings
    from envspec.net.connections import index_fetcher
    from envspec.net.variant_reader import VariantReader, about_variants

    asked = re.fullmatch(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:==([A-Za-z0-9.+!_-]+))?", package)
    if asked is None:
        raise InputError(f'"{printable(package)}" names no package', hint="for example torch, or torch==2.14.0")
    name = canonical_name(asked[1])
    address, rows, releases = published(name, index)
    version = _version(name, asked[2], releases)
    wheels = releases[version].wheels
    labels = {read_name(str(row["filename"])).label for row in wheels}
    if not labels - {None}:
        raise AnswerNo(f"{name} {version} has no variants on {redact(address)}")
    settings = load_settings(os.environ)
    reader = VariantReader(index_fetcher(settings, {"index": address}, os.environ))
    try:
        variants = reader.of_release(wheels, about_variants(rows))
    except InvalidVariants as error:
        named = next(str(row["filename"]) for row in wheels if read_name(str(row["filename"])).label)
        raise IndexFailure(printable(f"{variants_file(named)}: {error}"), hint="report this to its publisher") from None
    return list(_rows(str(version), wheels, variants))


def _version(name: str, asked: str | None, releases: Mapping[Version, object]) -> Version:
    from packaging.version import Version

    if asked is not None:
        try:
            version = Version(asked)
        except ValueError:
            raise InputError(f'"{printable(asked)}" is not a version', hint=f"for example {name}==2.9.1") from None
        if version not in releases:
            raise AnswerNo(f"the index has no {name} {version}")
        return version
    final = [one for one in releases if not one.is_prerelease] or list(releases)
    if not final:
        raise AnswerNo(f"the index has no release of {name}")
    return max(final)


def _rows(version: str, wheels: Sequence[Mapping[str, Any]], variants: Variants) -> Iterator[VariantRow]:
    files: dict[str | None, list[str]] = {}
    for row in wheels:
        files.setdefault(read_name(str(row["filename"])).label, []).append(str(row["filename"]))
    order = {label: number for number, label in enumerate([*sorted(variants.variants, key=_rank(variants)), None])}
    for label in sorted(files, key=lambda one: (order.get(one, len(order)), one or "")):
        said = variants.variants.get(label) if label is not None else ()
        if said is None:  # of a label that the release says nothing of nobody knows whom it is for
            continue
        of = WheelVariant(label or "", tuple(map(str, said)), variants.priorities)
        cuda, (sm, ptx) = cuda_of(of), architectures_of(of)
        for platform in _PLATFORMS:
            pythons = tuple(one for one in _PYTHONS if _has(files[label], platform, one))
            if pythons:
                driver = toolkits.driver_floor(cuda, platform) if cuda else None
                yield VariantRow(version, label, cuda, platform, pythons, sm, ptx, driver, of.properties)


def _rank(variants: Variants) -> Any:
    """Sort labels by what they have of the more important namespaces, newest CUDA first; `null` comes last."""
    from envspec.packages.version_numbers import numbers

    def key(label: str) -> tuple[Any, ...]:
        properties = variants.variants[label]
        has = tuple(not any(one.namespace == name for one in properties) for name in variants.priorities)
        lower = max((numbers(one.value) for one in properties if one.feature == CUDA_LOWER), default=())
        return (has, tuple(-one for one in lower), label)

    return key


def _has(files: Iterable[str], platform: str, python: str) -> bool:
    return any(wheel_fits(file, platform, python, _GLIBC) for file in files)


def suiting(rows: Iterable[VariantRow], cuda: str | None, gpus: Sequence[Gpu]) -> Iterator[VariantRow]:
    """Keep the variants that machines with this CUDA and all of these GPUs could install; "cpu" keeps what is for no
    GPU. A feature that nothing was asked about counts as met."""
    for row in rows:
        properties = [one for text in row.properties if (one := read_property(text)) and one.namespace == NVIDIA]
        if cuda == "cpu":
            if not properties:
                yield row
            continue
        asked = {*((CUDA_LOWER, CUDA_UPPER) if cuda else ()), *((SM_ARCH,) if gpus else ())}
        machines = [_machine(row.platform, cuda, gpu.capability) for gpu in gpus] or [
            _machine(row.platform, cuda, None)
        ]
        if (properties or not asked) and all(_suits(properties, asked, one) for one in machines):
            yield row


def _machine(platform: str, cuda: str | None, capability: str | None = None) -> TargetMachine:
    return TargetMachine(platform, "3.12", _GLIBC, cuda or "12.8", capabilities=(capability,) if capability else ())


def _suits(properties: Sequence[Property], asked: set[str], machine: TargetMachine) -> bool:
    known = dict(of_namespace(NVIDIA, machine))
    features = {one.feature for one in properties} & asked
    return all(
        any(one.feature == feature and one.value in known.get(feature, ()) for one in properties)
        for feature in features
    )


def table(rows: Iterable[VariantRow]) -> Iterator[tuple[str, ...]]:
    yield "VERSION", "VARIANT", "CUDA", "PLATFORM", "PYTHON", "ARCHITECTURES", "PTX", "DRIVER", "NEEDS"
    for row in rows:
        others = [text for text in row.properties if not text.startswith(f"{NVIDIA} ::")]
        ends = sorted({row.pythons[0], row.pythons[-1]}, key=row.pythons.index)
        yield (
            row.version,
            row.variant or "(plain)",
            row.cuda or "",
            row.platform,
            "-".join(ends),
            " ".join(row.sm),
            " ".join(row.ptx),
            f">={row.driver_floor}" if row.driver_floor else "",
            ", ".join(others),
        )
