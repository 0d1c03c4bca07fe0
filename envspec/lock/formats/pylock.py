"""pylock.toml (PEP 751) of one target. The format gives every file a URL, so the caller brings them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from packaging.pylock import (
    Package,
    PackageArchive,
    PackageSdist,
    PackageVcs,
    PackageWheel,
    Pylock,
    PylockValidationError,
)
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from envspec.base.errors import InternalError
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.toml_text import lines
from envspec.lock.variant_build import properties_of
from envspec.packages.requirement import parse_marker
from envspec.packages.tags import platform_marker
from envspec.packages.variants import SCHEMA, read_name

PylockUrls = Mapping[tuple[str, str], str]
"""(index name, file name) -> URL."""


def pylock_toml(lock: Lock, target: LockedTarget, urls: PylockUrls) -> str:
    """Return the text of a `pylock.toml` with the pip packages of `target`, which installs only where the target runs.

    `urls` has the URL of each artifact from an index. Raises InternalError when one is missing.
    """
    inputs = target.inputs
    pins = sorted((pin for pin in target.pins if pin.kind == "pip"), key=lambda pin: pin.name)
    pylock = Pylock(
        lock_version=Version("1.0"),
        environments=[parse_marker(platform_marker(inputs.platform))],
        requires_python=SpecifierSet(f"=={inputs.python}.*"),
        created_by="envspec",
        packages=[_package(pin, urls) for pin in pins],
    )
    try:
        pylock.validate()
    except PylockValidationError as error:
        raise InternalError(f"{lock.name}, target {target.name}: no pylock.toml can hold this: {error}") from None
    document = dict(pylock.to_dict())
    # The specification wants the array even when nothing is in it.
    packages = document.pop("packages") if pins else ()
    rows = zip(packages, pins, strict=False)
    tables = (f"\n[[packages]]\n{lines(_with_wheel_name(package, pin))}{_about_variant(pin)}" for package, pin in rows)
    return "".join((f"# {lock.name}, target {target.name}.\n", lines(document), *tables))


def _with_wheel_name(package: Mapping[str, Any], pin: Pin) -> Mapping[str, Any]:
    """Return a package's table with the name that its wheel has."""
    if pin.artifact is None or pin.artifact.variant is None:
        return package
    return {**package, "wheels": [{**wheel, "name": pin.artifact.file} for wheel in package["wheels"]]}


def _about_variant(pin: Pin) -> str:
    """Return the table that PEP 825 adds to a package: what the release says of the locked label."""
    variant = pin.artifact.variant if pin.artifact else None
    if variant is None:
        return ""
    features: dict[str, dict[str, list[str]]] = {}
    for variant_property in properties_of(variant):
        features.setdefault(variant_property.namespace, {}).setdefault(variant_property.feature, []).append(
            variant_property.value
        )
    # namespaces that no listed variant has may go, but a list without any is none
    used = [name for name in variant.priorities if name in features] or list(variant.priorities)
    return (
        f"\n[packages.variants-json]\n{lines({'$schema': SCHEMA})}"
        f"\n[packages.variants-json.default-priorities]\n{lines({'namespace': used})}"
        f"\n[packages.variants-json.variants]\n{lines({variant.label: features})}"
    )


def _package(pin: Pin, urls: PylockUrls) -> Package:
    name = canonicalize_name(pin.name)
    if git := pin.git:
        # No version: PEP 751 allows one only where the file says it for certain, which a source tree doesn't.
        return Package(
            name=name,
            vcs=PackageVcs(type="git", url=git.url, commit_id=git.commit, subdirectory=git.subdirectory),
        )
    artifact = pin.artifact
    if artifact is None:
        raise InternalError(f"{pin.name} {pin.version} has no file")
    size, hashes = artifact.size, {"sha256": artifact.sha256}
    if pin.url:
        archive = PackageArchive(url=pin.url, size=size, hashes=hashes)
        return Package(name=name, version=Version(pin.version) if pin.is_wheel else None, archive=archive)
    url = urls.get((pin.index, artifact.file))
    if url is None:
        raise InternalError(f'no URL was given for {artifact.file} of the index "{pin.index}"')
    version = Version(pin.version)
    if pin.is_wheel:
        # `packaging` knows the names of plain wheels alone
        wheel = PackageWheel(name=read_name(artifact.file).plain, url=url, size=size, hashes=hashes)
        return Package(name=name, version=version, wheels=[wheel])
    sdist = PackageSdist(name=artifact.file, url=url, size=size, hashes=hashes)
    return Package(name=name, version=version, sdist=sdist)
