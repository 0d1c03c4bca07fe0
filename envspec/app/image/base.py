"""The base that a command line or a spec names: an OCI layout here, or an image of a registry by its digest."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from envspec.app.outputs import location
from envspec.base.cache import keep_entry, read_entry
from envspec.base.errors import IndexFailure, InputError, Place
from envspec.configuration.settings import load_settings
from envspec.export.plan import Plan
from envspec.image.base import BaseFiles, BaseSource, ReadPaths, read_layers
from envspec.image.layer import Descriptor, OnBytes
from envspec.image.layout import layout_source, open_archive
from envspec.image.manifest import DIGEST, read_image
from envspec.image.sif import open_sif, read_sif
from envspec.net.connections import index_fetcher
from envspec.net.file_store import ARTIFACTS, sha256_of
from envspec.net.registry import MANIFEST_TYPES, ImageAddress, Registries, image_address
from envspec.net.repository import Repository
from envspec.spec.model import Spec

# The places for an image: a folder with an OCI layout, one tar of it, or a registry.


_SCHEME = "docker://"


class ToFolder(Struct, frozen=True):
    """An OCI layout in this folder."""

    path: Path


class ToArchive(Struct, frozen=True):
    """An OCI layout in one tar."""

    path: Path


class ToRegistry(Struct, frozen=True):
    """An image of a registry, by its name."""

    name: str
    address: ImageAddress


Output = ToFolder | ToArchive | ToRegistry


def output_of(text: str) -> Output:
    """Read the value of `-o`: FILE.tar, an image's name with its registry (`host/name:tag`, `docker://name`), else a
    folder.

    Raises InputError for a name with a digest: that of an image is known once it is made.
    """
    if text.startswith(_SCHEME) or _names_registry(text):
        name = text.removeprefix(_SCHEME)
        address = image_address(name)
        if address.digest or not address.path:
            raise InputError(f"{text} can't be a new image's name", hint="give -o registry/name:tag")
        return ToRegistry(name, address)
    path = Path(text)
    return ToArchive(path) if path.suffix == ".tar" else ToFolder(path)


def _names_registry(text: str) -> bool:
    """Return whether a text begins with a registry's host, as container tools see it, and no folder has that name."""
    head, slash, rest = text.partition("/")
    is_host = "." in head.strip(".") or ":" in head or head == "localhost"
    return bool(slash and rest) and is_host and head not in ("", ".", "..") and not Path(head).is_dir()


# A repository of a registry as the command line reaches it: with the user's mirrors, logins and proxies.


_MANIFESTS = "manifests-v1"
"""The folder of manifests below envspec's cache, by their digest."""


class ReachedRegistry(Struct, frozen=True):
    """A repository, and envspec's cache."""

    repository: Repository
    cache: Path

    def manifest(self, digest: str) -> tuple[bytes, str]:
        """Read a manifest by its digest, with its media type, from the cache or the registry. Raises IndexFailure."""
        place = self.cache / _MANIFESTS / digest.removeprefix("sha256:")
        try:
            content = read_entry(place)
            if f"sha256:{hashlib.sha256(content).hexdigest()}" == digest:
                return content, str(json.loads(content)["mediaType"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        manifest = self.repository.manifest(digest)
        if manifest is None:
            hint = "check the base's name and digest"
            raise IndexFailure(f"{self.repository.origin} has no {self.repository.path}@{digest}", hint=hint)
        keep_entry(place, manifest[0])
        return manifest


def registry_of(name: str, *, offline: bool = False, writes: bool = False) -> ReachedRegistry:
    """Reach the repository of an image's name. Raises InputError for settings that can't be read."""
    settings = load_settings(os.environ)
    fetcher = index_fetcher(settings, {}, os.environ, offline=offline)
    registries = Registries(fetcher.pool, settings.mirrors, os.environ)
    return ReachedRegistry(Repository(registries, fetcher, image_address(name), writes=writes), settings.cache())


@contextmanager
def open_base(plan: Plan, given: str | None, on_bytes: OnBytes, *, offline: bool) -> Iterator[BaseSource]:
    """Open the base of a target's image until the block ends. `given` is the value of --base: an OCI layout's folder or
    an image's name; None for the recipe's own base. `on_bytes` counts fetched bytes. Raises InputError, IndexFailure.
    """
    # a name like "./base" or "/srv/base" can only be a path, so one that doesn't exist is an error here
    if given is not None and (Path(given).is_dir() or (os.sep in given and given.startswith((".", os.sep)))):
        try:
            folder = location(Path(given)).open()
        except FileNotFoundError:
            raise InputError(
                f"{given} doesn't exist", hint="give --base an OCI image layout's folder, or an image's name"
            ) from None
        with folder:
            yield layout_source(Path(given), folder)
        return
    yield registry_source(_pinned_name(plan, given), on_bytes, offline=offline)


def read_within(spec: Spec, plan: Plan, paths: ReadPaths, image: Callable[[], BaseSource]) -> BaseFiles:
    """Read these paths of the SIF or the image that a target comes on top of; `image` opens it. Raises InputError,
    IndexFailure, ToolError, OSError."""
    if plan.runtime.on_base and plan.runtime.on_base.kind == "sif":
        path = Path(spec.path).parent / plan.image.base.name
        sif = open_sif(path)
        if f"sha256:{sha256_of(path)}" != plan.image.base.digest:
            hint = f"envspec lock {spec.path} --upgrade-images reads it again"
            raise InputError("this isn't the SIF that was locked", hint=hint, place=Place(str(path)))
        return read_sif(sif, paths, os.environ)
    source = image()
    manifest = read_image(source.top, source.read, plan.runtime.oci_platform, source.where)
    return read_layers(zip(manifest.layers, manifest.diff_ids, strict=True), source.open, source.where, paths)


def _pinned_name(plan: Plan, given: str | None) -> str:
    """Give the base's name with its digest. Raises InputError where there is none: a name alone may lead to another
    image tomorrow."""
    name = given or plan.image.base.pinned
    if "@" not in name:
        raise InputError(
            f"the base {name} has no digest, and the same lock has to give the same image",
            hint=f"give --base {name}@sha256:…, or "
            + ("lock again where its registry answers" if given is None else "an OCI image layout's folder"),
        )
    return name


def registry_source(name: str, on_bytes: OnBytes = lambda count: None, *, offline: bool) -> BaseSource:
    """Reach an image of a registry by its name with a digest; `on_bytes` is told of what is fetched. Raises InputError,
    IndexFailure."""
    registry = registry_of(name, offline=offline)
    folder = registry.cache / ARTIFACTS
    digest = registry.repository.address.digest or ""
    if not DIGEST.fullmatch(digest):
        raise InputError(f"{name} has no sha256 digest", hint="give --base NAME@sha256:…")
    repository = registry.repository

    def read(blob: Descriptor) -> bytes:
        if blob.media_type in MANIFEST_TYPES:
            return registry.manifest(blob.digest)[0]
        return repository.fetch(blob.digest, blob.size, folder).read_bytes()

    def open_blob(blob: Descriptor) -> BinaryIO:
        return repository.fetch(blob.digest, blob.size, folder, on_bytes).open("rb")

    content, kind = registry.manifest(digest)
    top = Descriptor(kind, digest, len(content))
    return BaseSource(name, top, read, open_blob, (repository.origin, repository.path))


@contextmanager
def open_image(
    where: str, named: str, on_bytes: OnBytes = lambda count: None, folder: Path | None = None, *, offline: bool
) -> Iterator[BaseSource]:
    """Open an image by where it is: a folder, a tar or a name of a registry, whose blobs come into `folder`, else into
    the cache. `named` is what gave the place. Raises InputError, IndexFailure."""
    place = output_of(where.partition("@")[0]) if "@" in where else output_of(where)
    if isinstance(place, ToRegistry):
        yield _of_registry(where, on_bytes, folder, offline=offline)
        return
    path = place.path
    if not path.exists():
        raise InputError(
            f"{path} doesn't exist", hint=f"give {named} an OCI layout's folder, FILE.tar, or registry/name:tag"
        )
    if isinstance(place, ToFolder):
        with location(Path(path)).open() as layout:
            yield layout_source(path, layout)
    else:
        with open_archive(path) as source:
            yield source


def _of_registry(name: str, on_bytes: OnBytes, folder: Path | None, *, offline: bool) -> BaseSource:
    registry = registry_of(name.removeprefix(_SCHEME), offline=offline)
    repository, into = registry.repository, folder or registry.cache / ARTIFACTS
    address = repository.address
    manifest = repository.manifest(address.digest or address.tag)
    if manifest is None:
        raise IndexFailure(f"{name} doesn't exist", hint="check the image's name and tag")

    content, kind = manifest
    top = Descriptor(kind, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))

    def read(blob: Descriptor) -> bytes:
        if blob.digest == top.digest:
            return content
        manifest = repository.manifest(blob.digest) if "manifest" in blob.media_type else None
        return manifest[0] if manifest else repository.blob(blob.digest, blob.size)

    return BaseSource(name, top, read, lambda blob: repository.fetch(blob.digest, blob.size, into, on_bytes).open("rb"))
