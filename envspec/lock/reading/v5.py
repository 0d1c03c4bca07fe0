"""The lock's text in schema 5: schema 4's tables, with or without a base, what `lock` read of wheels' code and of
sources' builds, and the addresses of the indexes that the spec names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from envspec.lock import keys
from envspec.lock.listed import KEYS
from envspec.lock.model import CODE_VERSION, Lock
from envspec.lock.reading import v3


def read(text: str, path: str) -> Lock:
    """Parse a text whose `lock-version` is 5. Raises LockError."""
    return ReaderWithCode(text, path).lock()


class ReaderWithCode(v3.Reader):
    """A reading of one text, table by table."""

    schema = CODE_VERSION
    tables = keys.TOP
    env_keys: ClassVar[Mapping[str, type]] = KEYS
    target_keys: ClassVar[Mapping[str, type]] = keys.TARGET
    package_keys: ClassVar[Mapping[str, type]] = keys.PACKAGE
    artifact_keys: ClassVar[Mapping[str, type]] = keys.ARTIFACT
