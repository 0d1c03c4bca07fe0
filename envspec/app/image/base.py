"""The base that a command line or a spec names: an OCI layout here, or an image of a registry by its digest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from envspec.app.image.registry import registry_of
from envspec.app.outputs import location
from envspec.base.errors import InputError
from envspec.export.plan import Plan
from envspec.image.base import BaseSource
from envspec.image.layer import Descriptor, OnBytes
from envspec.image.layout import layout_source
from envspec.image.manifest import DIGEST
from envspec.net.file_store import ARTIFACTS
from envspec.net.registry import MANIFEST_TYPES


@contextmanager
def open_base(plan: Plan, given: str | None, on_bytes: OnBytes, *, offline: bool) -> Iterator[BaseSource]:
    """Open the base of a target's image until the block ends; `on_bytes` is told of what is fetched. Raises InputError,
    IndexFailure."""
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


def _pinned_name(plan: Plan, given: str | None) -> str:
    """Give the base's name with its digest. Raises InputError where there is none: a name alone may lead to another
    image tomorrow."""
    name = given or plan.base.pinned
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
