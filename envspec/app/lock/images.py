"""Digests of the images that a spec's recipes use, looked up while `envspec lock` resolves."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from envspec.base.errors import EnvspecError, InputError
from envspec.lock.model import Lock, LockedImage
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.base.finding import Finding
    from envspec.net.registry import Asking


def used_images(spec: Spec, lock: Lock) -> tuple[str, ...]:
    """List the images of a spec's recipes that need a digest from the lock; empty where no recipe can be made."""
    from envspec.export.images import wanted_images

    try:
        return tuple(name for name in wanted_images(spec, lock) if "@" not in name)
    except InputError:
        return ()


def stale_images(spec: Spec, lock: Lock) -> tuple[Finding, ...]:
    """Give the reason why the lock's digests belong to other images than the spec's; empty when they don't."""
    if not lock.images or lock.image(spec.image.base):
        return ()
    from envspec.lock.freshness import image_reasons

    used = used_images(spec, lock)
    return image_reasons(spec, lock, used) if used else ()


def wants_images(spec: Spec, old: Lock | None, recipes: Path) -> bool:
    """Return whether images are wanted: the spec has an `[image]`, its lock has digests, or recipes were exported."""
    return bool(old and old.images) or recipes.is_dir() or any(key.startswith("image") for key in spec.places)


class ImageDigests:
    """Requests to registries, which start at once. `renew` asks again for digests that `old` has; `offline` asks none.

    Raises InputError for a broken configuration.
    """

    def __init__(self, spec: Spec, old: Lock | None, *, renew: bool, offline: bool) -> None:
        self._spec = spec
        self._old = {image.name: image.digest for image in old.images} if old else {}
        self._known = {} if renew else self._old
        self._asking: Asking | None = None
        if not offline:
            from envspec.configuration.settings import load_settings
            from envspec.net.connections import index_fetcher
            from envspec.net.registry import Asking, Registries

            settings = load_settings()
            fetcher = index_fetcher(settings, {}, os.environ)
            self._registries = Registries(fetcher.pool, settings.mirrors, os.environ)
            self._asking = Asking(self._registries.digest)
            base = spec.image.base
            self._ask(used_images(spec, old) if old else () if "@" in base or spec.base else (base,))

    def put_into(self, lock: Lock) -> tuple[Lock, dict[str, str]]:
        """Add to the lock a digest of every image whose registry answered. The others keep their old digest, if they
        have one. Returns with the lock why each of those has no new one, by image.
        """
        if self._asking is None and not self._old:
            return replace(lock, images=()), {}
        names = used_images(self._spec, lock)
        self._ask(names)
        digests: dict[str, str] = {}
        problems: dict[str, str] = {}
        for name in names:
            if digest := self._known.get(name):
                digests[name] = digest
                continue
            if digest := self._old.get(name):
                digests[name] = digest
            if self._asking is not None and self._registries.asks(name):
                try:
                    digests[name] = self._asking.answer(name)
                except EnvspecError as error:
                    problems[name] = error.message
        return replace(lock, images=tuple(LockedImage(name, digests[name]) for name in sorted(digests))), problems

    def _ask(self, names: Sequence[str]) -> None:
        if self._asking is not None:
            self._asking.start(name for name in names if name not in self._known and self._registries.asks(name))
