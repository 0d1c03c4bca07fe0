"""The variants of a release, by its index: the file beside its wheels, and without one the wheels themselves.

PEP 825 wants that file on every page with variants, and says that both have the same. Where it is missing, a
`variant.json` is read out of one wheel for each label, by byte ranges.
"""

from __future__ import annotations

import hashlib
import threading
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import IO, Any, cast

from msgspec import Struct, field

from envspec.base.errors import EnvspecError
from envspec.net.fetch import Fetcher
from envspec.net.remote_file import open_remote
from envspec.packages.variants import (
    MAX_BYTES,
    VARIANTS_END,
    InvalidVariants,
    Variants,
    combine,
    of_wheel,
    read_name,
    read_variants,
    variants_file,
)

Row = Mapping[str, Any]

MAX_WHEELS = 32
"""Wheels of a release that are read where the file about them is missing. A release has one for each CUDA, or some."""
_WHOLE = 16 << 20
"""Bytes of a wheel that is read whole, where a server offers no ranges."""


def about_variants(rows: Iterable[Row]) -> dict[str, Row]:
    """Find a page's files about variants, by name."""
    return {str(row["filename"]): row for row in rows if str(row["filename"]).endswith(VARIANTS_END)}


class VariantReader(Struct):
    """The reader of variants: each file and each wheel once a run."""

    fetcher: Fetcher
    _jobs: dict[tuple[str, str], Future[Variants | None]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of_release(self, wheels: Iterable[Row], about: Mapping[str, Row]) -> Variants:
        """Read the variants of the release of these wheels: from the file about them, else from the wheels themselves,
        one for each label. Raises InvalidVariants, IndexFailure."""
        by_label: dict[str, Row] = {}
        for row in sorted(wheels, key=lambda row: str(row["filename"])):
            label = read_name(str(row["filename"])).label
            if label is not None:
                by_label.setdefault(label, row)
        file = variants_file(str(next(iter(by_label.values()))["filename"]))
        stated = self._once(about[file]) if file in about else None
        if stated is not None:
            return stated
        if len(by_label) > MAX_WHEELS:
            raise InvalidVariants(f"the index doesn't have it, and the release has more than {MAX_WHEELS} variants")
        # `_once` gives None for a file that isn't there, which open_remote refuses of a wheel
        return combine(variants for row in by_label.values() if (variants := self._once(row)) is not None)

    def _once(self, row: Row) -> Variants | None:
        url, sha256 = str(row["url"]), str(row["hashes"].get("sha256", ""))
        with self._lock:
            job = self._jobs.get((url, sha256))
            mine = job is None
            if job is None:
                job = self._jobs[url, sha256] = Future()
        if mine:
            wheel = read_name(str(row["filename"])).label
            try:
                job.set_result(self._file(url, sha256) if wheel is None else self._wheel(row, wheel))
            except (InvalidVariants, EnvspecError) as error:
                job.set_exception(error)
        return job.result()

    def _file(self, url: str, sha256: str) -> Variants | None:
        """Read a file about variants; None where the page names it and it isn't there."""
        reply = self.fetcher.get(url, limit=MAX_BYTES)
        if reply.status == 404:
            return None
        if reply.status != 200:
            raise InvalidVariants(f"the index answered HTTP {reply.status}")
        if sha256 and hashlib.sha256(reply.body).hexdigest() != sha256:
            raise InvalidVariants("it has another sha256 than its page says")
        return read_variants(reply.body)

    def _wheel(self, row: Row, label: str) -> Variants:
        name = str(row["filename"])
        wheel = open_remote(self.fetcher, str(row["url"]), _WHOLE)
        try:
            with zipfile.ZipFile(cast(IO[bytes], wheel)) as archive:
                variants = of_wheel(archive)
        except InvalidVariants as error:
            raise InvalidVariants(f"the index doesn't have it, and in {name} {error}") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError):
            raise InvalidVariants(f"the index doesn't have it, and {name} isn't a wheel") from None
        if variants is None or set(variants.variants) != {label}:
            raise InvalidVariants(f"the index doesn't have it, and {name} doesn't say of {label} alone what it needs")
        return variants
