"""The variants of releases as uv is shown them: of each release the one that a target installs, as a plain wheel.

uv chooses variants for the machine that it stands on, and locks none. So it never sees one: for the packages that have
variants a request has pages of its own, where its target's variant stands under a plain name, with its own hash.
Everywhere else any variant of a release stands for all, so that uv doesn't pass over the release; what has such a wheel
in its answer is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from envspec.base.errors import IndexFailure
from envspec.base.texts import printable
from envspec.net.index_proxy.releases import version_of
from envspec.packages.tags import wheel_fits
from envspec.packages.variant_choice import TargetMachine, choose
from envspec.packages.variants import InvalidVariants, Variants, WheelOfVariant, read_name, variants_file

Row = Mapping[str, Any]

MAX_RELEASES = 200
"""Releases of a page whose variants are read, newest first; older ones have none."""
_AT_ONCE = 8


def has_variants(files: Iterable[str]) -> bool:
    """Say whether any of some wheels is a variant's."""
    long = [file for file in files if file.count("-") > 4]
    return any(read_name(file).label is not None for file in long)


@dataclass(frozen=True)
class ShownVariant:
    """A variant's row for uv, with what is known of it or why nothing is."""

    row: Row
    plain: str
    variant: WheelOfVariant | None = None
    fault: str | None = None


Wheels = tuple[list[Row], list[ShownVariant]]
"""What uv is shown of a release that has variants: wheels without, and variants."""
Read = Callable[[Sequence[Row]], Variants]
"""Reads what is said of the variants of a release, of which these are wheels. Raises InvalidVariants, IndexFailure."""


def representatives(wheels: Sequence[Row]) -> Wheels:
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


def choose_wheels(
    wheels: Sequence[Row],
    read: Read,
    machine: TargetMachine,
    kept: str | None = None,
) -> Wheels:
    """Of a release's wheels give those of the variant that a machine installs, the `kept` one if that fits; those
    without variants where none does. `read` gives what is said of the variants of some wheels.

    Where nothing can be read of them, there is the reason alone: a plain wheel beside them may be for CPUs."""
    names = {str(row["filename"]): read_name(str(row["filename"])) for row in wheels}
    plain = [row for row in wheels if names[str(row["filename"])].label is None]
    here = machine.platform, machine.python, machine.glibc
    labelled = [row for row in wheels if names[str(row["filename"])].label is not None]
    fitting = [row for row in labelled if wheel_fits(str(row["filename"]), *here)]
    if not fitting:
        return plain, []
    try:
        variants = read(fitting)
    except (InvalidVariants, IndexFailure) as error:
        name = str(fitting[0]["filename"])
        reason = error.message if isinstance(error, IndexFailure) else str(error)
        said = printable(f"{variants_file(name)}: {reason}")
        return [], [ShownVariant(fitting[0], names[name].plain, fault=said)]
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


def of_releases(
    releases: Mapping[Version, Sequence[Row]],
    read: Read,
    project: str,
    machine: TargetMachine | None,
) -> dict[Version, Wheels]:
    """Choose the wheels of those releases of a project that have variants, for a machine; without one any variant
    stands for all."""
    found = [one for one in releases if has_variants(str(row["filename"]) for row in releases[one])]
    if machine is None or not found:
        return {version: representatives(releases[version]) for version in found}
    newest = sorted(found, reverse=True)[:MAX_RELEASES]
    kept = {version_of(version): label for name, version, label in machine.kept if name == project}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        choices = pool.map(lambda one: choose_wheels(releases[one], read, machine, kept.get(one)), newest)
        return dict(zip(newest, choices, strict=True))
