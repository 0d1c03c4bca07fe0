"""The variants of releases as uv is shown them: of each release the one that a target installs, as a plain wheel.

uv chooses variants for the machine that it stands on, and locks none. So it never sees one: for the packages that have
variants a request has pages of its own, where its target's variant stands under a plain name, with its own hash.
Everywhere else any variant of a release stands for all, so that uv doesn't pass over the release; what has such a wheel
in its answer is asked for again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from envspec.errors import EnvspecError, IndexFailure
from envspec.net.fetch import Fetcher
from envspec.packages.tags import wheel_file_tags, wheel_tags
from envspec.packages.variant_choice import TargetMachine, choose
from envspec.packages.variant_name import VARIANTS_END, read_name, variants_file
from envspec.packages.variants import MAX_BYTES, InvalidVariants, Variants, WheelOfVariant, read_variants
from envspec.texts import printable

Row = Mapping[str, Any]

MAX_RELEASES = 200
"""Releases of a page whose variants are read, newest first; older ones have none."""


@dataclass
class VariantReader:
    """Files about variants, each read once a run."""

    fetcher: Fetcher
    _jobs: dict[tuple[str, str], Future[Variants]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, row: Row) -> Variants:
        """Read the file of a page's row. Raises InvalidVariants, IndexFailure."""
        url, sha256 = str(row["url"]), str(row["hashes"].get("sha256", ""))
        with self._lock:
            job = self._jobs.get((url, sha256))
            mine = job is None
            if job is None:
                job = self._jobs[url, sha256] = Future()
        if mine:
            try:
                job.set_result(self._read(url, sha256))
            except (InvalidVariants, EnvspecError) as error:
                job.set_exception(error)
        return job.result()

    def _read(self, url: str, sha256: str) -> Variants:
        reply = self.fetcher.get(url, limit=MAX_BYTES)
        if reply.status != 200:
            raise InvalidVariants(f"the index answered HTTP {reply.status}")
        if sha256 and hashlib.sha256(reply.body).hexdigest() != sha256:
            raise InvalidVariants("it has another sha256 than its page says")
        return read_variants(reply.body)


def about_variants(rows: Iterable[Row]) -> dict[str, Row]:
    """Find a page's files about variants, by name."""
    return {str(row["filename"]): row for row in rows if str(row["filename"]).endswith(VARIANTS_END)}


def has_variants(files: Iterable[str]) -> bool:
    """Say whether any of some wheels is a variant's."""
    return any(file.count("-") > 4 and read_name(file).label is not None for file in files)


@dataclass(frozen=True)
class ShownVariant:
    """A variant's row for uv, with what is known of it or why nothing is."""

    row: Row
    plain: str
    variant: WheelOfVariant | None = None
    fault: str | None = None


def representatives(wheels: Sequence[Row]) -> tuple[list[Row], list[ShownVariant]]:
    """Of a release's wheels give one of each plain name: what has no variants, and any variant of what has some."""
    names = {str(row["filename"]): read_name(str(row["filename"])) for row in wheels}
    variants: dict[str, Row] = {}
    for row in sorted(wheels, key=lambda row: str(row["filename"])):
        name = names[str(row["filename"])]
        if name.label is not None:
            variants.setdefault(name.plain, row)
    plain = [row for row in wheels if names[str(row["filename"])].plain not in variants]
    shown = [
        ShownVariant(row, name, WheelOfVariant(names[str(row["filename"])].label or ""))
        for name, row in variants.items()
    ]
    return plain, shown


def chosen(
    wheels: Sequence[Row],
    about: Mapping[str, Row],
    read: Callable[[Row], Variants],
    machine: TargetMachine,
    kept: str | None = None,
) -> tuple[list[Row], list[ShownVariant]]:
    """Of a release's wheels give those of the variant that a machine installs, the `kept` one if that fits; those
    without variants where none does.

    Where the file about them can't be read, the plain wheels are left, and without any the reason."""
    names = {str(row["filename"]): read_name(str(row["filename"])) for row in wheels}
    plain = [row for row in wheels if names[str(row["filename"])].label is None]
    tags = wheel_tags(machine.platform, machine.python, machine.glibc)
    fitting = [row for row in wheels if names[str(row["filename"])].label is not None and _fits(row, tags)]
    if not fitting:
        return plain, []
    file = variants_file(str(fitting[0]["filename"]))
    try:
        if file not in about:
            raise InvalidVariants("the index doesn't have it")
        variants = read(about[file])
    except (InvalidVariants, IndexFailure) as error:
        reason = error.message if isinstance(error, IndexFailure) else str(error)
        said = printable(f"{file}: {reason}")
        row = fitting[0]
        return plain, [] if plain else [ShownVariant(row, names[str(row["filename"])].plain, fault=said)]
    labels = {names[str(row["filename"])].label or "" for row in fitting}
    best = choose(variants, labels, machine, kept)
    if best.label is None:
        return plain, []
    wheel = WheelOfVariant(best.label, variants.variants[best.label], variants.priorities, best.compatible, best.alone)
    return [], [
        ShownVariant(row, names[str(row["filename"])].plain, wheel)
        for row in fitting
        if names[str(row["filename"])].label == best.label
    ]


def _fits(row: Row, tags: frozenset[Any]) -> bool:
    try:
        return not tags.isdisjoint(wheel_file_tags(str(row["filename"])))
    except ValueError:
        return False
