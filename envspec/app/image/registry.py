"""A repository of a registry as the command line reaches it: with the user's mirrors, logins and proxies."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from envspec.base.cache import keep_entry, read_entry
from envspec.base.errors import IndexFailure
from envspec.base.settings import load_settings
from envspec.net.connections import index_fetcher
from envspec.net.image_address import image_address
from envspec.net.registry import Registries
from envspec.net.repository import Repository

_MANIFESTS = "manifests-v1"
"""The folder of manifests below envspec's cache, by their digest."""


@dataclass(frozen=True)
class ReachedRegistry:
    """A repository, and envspec's cache."""

    repository: Repository
    cache: Path

    def manifest(self, digest: str) -> tuple[bytes, str]:
        """Read a manifest by its digest, with its media type, from the cache or the registry. Raises IndexFailure."""
        place = self.cache / _MANIFESTS / digest.removeprefix("sha256:")
        try:
            content = read_entry(place)
            import hashlib

            if f"sha256:{hashlib.sha256(content).hexdigest()}" == digest:
                return content, str(json.loads(content)["mediaType"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        found = self.repository.manifest(digest)
        if found is None:
            raise IndexFailure(
                f"{self.repository.origin} has no {self.repository.path}@{digest}",
                hint="check the base's name and digest",
            )
        keep_entry(place, found[0])
        return found


def registry_of(name: str, *, offline: bool = False, writes: bool = False) -> ReachedRegistry:
    """Reach the repository of an image's name. Raises InputError for settings that can't be read."""
    settings = load_settings(os.environ)
    fetcher = index_fetcher(settings, {}, os.environ, offline=offline)
    registries = Registries(fetcher.pool, settings.mirrors, os.environ)
    return ReachedRegistry(Repository(registries, fetcher, image_address(name), writes=writes), settings.cache())
