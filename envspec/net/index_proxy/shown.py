"""A page's files as uv is shown them: every file under the proxy's own address, and sources as stand-in wheels.

uv runs with sources switched off. It would not see a release that is published only as source, and would silently
choose an older one with a wheel. So such a release gets a *stand-in*: a wheel that doesn't exist, for which the proxy
serves METADATA. Its tag ranks below that of any real wheel. A release that has wheels gets one for the platforms that
none of them is for, and on each other one for the Pythons that are newer than all of them: its source is the answer
there, and not an older release. It gets one for the Pythons that are older than its source takes, too: uv refuses it
there as it would refuse the source, and orders its search by how often it had to. Beside wheels it gets one for all
Pythons and platforms only where its source may be built, or nothing else would do.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.base.documents import encode
from envspec.base.errors import IndexFailure
from envspec.base.texts import printable
from envspec.base.threads import Pool
from envspec.net.index_proxy.address import ALLOWED, REFUSED, VARIANT, WHEEL, FileAddress, path_of, variant_text
from envspec.net.index_proxy.releases import Row, VersionFiles, source_version, version_of
from envspec.packages.archive_entries import SOURCES
from envspec.packages.tags import ending_parts, installs_somewhere, minor_in, takes_python, wheel_fits
from envspec.packages.variant_choice import TargetMachine, choose
from envspec.packages.variants import InvalidVariants, Variants, WheelOfVariant, read_name, variants_file, with_build

# The variants of releases as uv is shown them: of each release the one that a target installs, as a plain wheel.
#
# uv chooses variants for the machine that it stands on, and locks none. So it never sees one: for the packages that
# have variants a request has pages of its own, where its target's variant stands under a plain name, with its own
# hash. Everywhere else any variant of a release stands for all, so that uv doesn't pass over the release; what has
# such a wheel in its answer is asked for again.

MAX_RELEASES = 200
"""Releases of a page whose variants are read, newest first; older ones have none."""
_AT_ONCE = 8


def has_variants(files: Iterable[str]) -> bool:
    """Return whether any of some wheels is a variant's."""
    long = [file for file in files if file.count("-") > 4]
    return any(read_name(file).label is not None for file in long)


class ShownVariant(Struct, frozen=True):
    """A variant's row for uv, with the facts about the variant, or the reason why there are none."""

    row: Row
    plain: str
    variant: WheelOfVariant | None = None
    fault: str | None = None


Wheels = tuple[list[Row], list[ShownVariant]]
"""What uv is shown of a release that has variants: wheels without, and variants."""
Read = Callable[[Sequence[Row]], Variants]
"""Reads what is said of the variants of a release, of which these are wheels. Raises InvalidVariants, IndexFailure."""


def representatives(wheels: Sequence[Row]) -> Wheels:
    """Choose one wheel of each plain name from a release: any of its variants, or the plain wheel without them."""
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


def choose_wheels(wheels: Sequence[Row], read: Read, machine: TargetMachine, previous: str | None = None) -> Wheels:
    """Choose from a release's wheels those of the variant that a machine installs: the `previous` variant if that fits.
    Where no variant fits, choose the wheels without one. `read` gives the variants of wheels.

    Where the variants can't be read, the result is the reason alone: a plain wheel beside them may be for CPUs."""
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
        fault = printable(f"{variants_file(name)}: {reason}")
        return [], [ShownVariant(fitting[0], names[name].plain, fault=fault)]
    labels = {names[str(row["filename"])].label or "" for row in fitting}
    best = choose(variants, labels, machine, previous)
    if best.label is None:
        return plain, []
    wheel = WheelOfVariant(best.label, variants.variants[best.label], variants.priorities, best.compatible, best.alone)
    return [], [
        ShownVariant(row, names[str(row["filename"])].plain, wheel)
        for row in fitting
        if names[str(row["filename"])].label == best.label
    ]


def of_releases(
    releases: Mapping[Version, Sequence[Row]], read: Read, project: str, machine: TargetMachine | None
) -> dict[Version, Wheels]:
    """Choose the wheels of a project's releases with variants, for a machine; without a machine, any variant stands for
    all."""
    versions = [version for version in releases if has_variants(str(row["filename"]) for row in releases[version])]
    if machine is None or not versions:
        return {version: representatives(releases[version]) for version in versions}
    newest = sorted(versions, reverse=True)[:MAX_RELEASES]
    previous = {version_of(version): label for name, version, label in machine.locked if name == project}
    with Pool(_AT_ONCE) as pool:
        choices = pool.map(
            lambda version: choose_wheels(releases[version], read, machine, previous.get(version)), newest
        )
        return dict(zip(newest, choices, strict=True))


_TAG = "py30-none-any"
"""The tag of a stand-in: every Python 3 takes it, and every other tag that fits ranks higher."""
_PLATFORMS = {
    "linux_x86_64": re.compile(r"(?:many)?linux\w*_x86_64"),
    "linux_aarch64": re.compile(r"(?:many)?linux\w*_aarch64"),
    "macosx_11_0_arm64": re.compile(r"macosx_\w+_(?:arm64|universal2)"),
    "macosx_11_0_x86_64": re.compile(r"macosx_\w+_(?:x86_64|universal2?|intel|fat\w*)"),
    "win_amd64": re.compile("win_amd64"),
}
"""The platform of a stand-in's tag: the platforms of the wheels beside which it isn't shown."""
_NEWEST_MINOR = 16
"""The newest Python 3 that a stand-in beside wheels is for: newer than any that a spec can ask for."""
_OLDEST_MINOR, _LAST_PATCH = 8, 99
"""The oldest Python 3 that a spec can ask for, and a patch release that is newer than all."""


Glibc = tuple[int, int]
"""The minor of a target's glibc that uv has no platform name for, and the newest one below it for which it has."""
_MANYLINUX = re.compile(r"manylinux_2_([0-9]{1,4})_(\w+)")


class ShownFiles(Struct, frozen=True):
    """The files of a package that uv is shown.

    built   sources may be built
    beside  sources are shown beside wheels
    glibc   of the target, where uv has no name for it
    """

    built: bool = False
    beside: bool = False
    glibc: Glibc | None = None


def body_of(
    project: str,
    files: Mapping[Version, VersionFiles],
    sources: ShownFiles,
    variants: Mapping[Version, Wheels] | None = None,
) -> bytes:
    """Write a page. `variants` are the wheels of those versions that have variants."""
    chosen = variants or {}
    rows = [row for version, own in files.items() for row in _rows(own, project, sources, chosen.get(version))]
    page = {"meta": {"api-version": "1.1"}, "name": project, "files": rows}
    return encode(page)


def proxied_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Make a wheel's row with the proxy's address."""
    return _row(row, WHEEL)


def by_number(rows: list[dict[str, Any]], glibc: Glibc | None) -> list[dict[str, Any]]:
    """Show wheels that fit a target's glibc by its number to a uv that has no name for it: with the tag that uv takes.
    Only the name that uv sees changes; a row's address has the file's own."""
    if glibc is not None:
        for row in rows:
            row["filename"] = _name_for(row["filename"], *glibc)
    return rows


def _name_for(file: str, own: int, listed: int) -> str:
    front, _, tags = file.removesuffix(".whl").rpartition("-")
    ends = tags.split(".")
    matches = [match for end in ends if (match := _MANYLINUX.fullmatch(end)) and listed < int(match[1]) <= own]
    more = [end for match in matches if (end := f"manylinux_2_{listed}_{match[2]}") not in ends]
    return f"{front}-{'.'.join(dict.fromkeys((*ends, *more)))}.whl" if more else file


def _rows(own: VersionFiles, project: str, sources: ShownFiles, variants: Wheels | None) -> list[dict[str, Any]]:
    """Make the rows of one version."""
    differ = len({row.get("requires-python") for row in own.rows}) > 1
    if variants is None:
        wheels = [_row(row, WHEEL, differ=differ) for row in _of_some_target(own)]
    else:
        wheels = [*(_row(row, WHEEL, differ=differ) for row in variants[0]), *map(_variant_row, variants[1])]
    wheels = by_number(wheels, sources.glibc)
    archives = [row for row in own.rows if not row["filename"].endswith(".whl")]
    if not archives:
        return wheels
    source = archives[0] if len(archives) == 1 else min(archives, key=_order_of_source)
    endings = _endings(own.wheels)
    tags = (_TAG,) if sources.beside or not wheels else _without_wheel(endings)
    if tags != (_TAG,):
        tags += _of_refused_pythons(endings, str(source.get("requires-python") or ""))
    version = version_of(str(source_version(str(source["filename"]), project)))
    kind, stem = ALLOWED if sources.built else REFUSED, f"{project.replace('-', '_')}-{version}"
    return [*wheels, *(_row(source, kind, f"{stem}-{tag}.whl") for tag in tags)]


def _order_of_source(row: Row) -> tuple[bool, int]:
    """Return the rank of a form of a source: a form that is read without seeking comes first."""
    form = next(n for n, suffix in enumerate(SOURCES) if row["filename"].endswith(suffix))
    return bool(row.get("yanked")), form


def _endings(wheels: Iterable[Row]) -> tuple[tuple[str, ...], ...]:
    """List the tags of wheels, each once."""
    ends = (ending_parts(row["filename"].lower().split("-", 2)[2]) for row in wheels)
    return tuple(dict.fromkeys(filter(None, ends)))


@lru_cache(maxsize=1 << 12)
def _without_wheel(wheels: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Return the tags that wheels with these tags leave out: the platforms that none is for, and the Pythons
    that are newer than all of a platform's."""
    platforms: dict[str | None, list[str]] = {}
    for platform, pattern in _PLATFORMS.items():
        own = (tags for tags in wheels if any(end == "any" or pattern.fullmatch(end) for end in tags[2].split(".")))
        platforms.setdefault(_newer_pythons(own), []).append(platform)
    return tuple(
        f"{pythons}-none-{'any' if len(ends) == len(_PLATFORMS) else '.'.join(ends)}"
        for pythons, ends in platforms.items()
        if pythons
    )


def _of_refused_pythons(wheels: tuple[tuple[str, ...], ...], requires: str) -> tuple[str, ...]:
    """Return the tag of the Pythons below a source's lower bound, where no wheel is for them."""
    if any(end == "any" and any(tag.startswith("py3") for tag in python.split(".")) for python, _, end in wheels):
        return ()
    older = _older_pythons(requires)
    return (f"{older}-none-any",) if older else ()


@lru_cache(maxsize=1 << 10)
def _older_pythons(requires: str) -> str:
    """Name the Pythons below the first that a Requires-Python admits, none where it admits none: uv ignores caps."""
    minors = range(_OLDEST_MINOR, _NEWEST_MINOR + 1)
    first = next((minor for minor in minors if takes_python(requires, f"3.{minor}.{_LAST_PATCH}")), _OLDEST_MINOR)
    return ".".join(f"cp3{minor}" for minor in range(_OLDEST_MINOR, first))


def _newer_pythons(wheels: Iterable[tuple[str, ...]]) -> str | None:
    """Name the Pythons that are newer than all wheels with these tags, all Pythons where none is CPython's; None where
    one of the wheels takes any newer Python too."""
    newest = 0
    for interpreters, abis, _ in wheels:
        if "abi3" in abis or (abis == "none" and "py3" in interpreters):
            return None
        for interpreter in interpreters.split("."):
            if interpreter.startswith("cp3") and (interpreter in abis.split(".") or abis == "none"):
                newest = max(newest, minor_in(interpreter) or 0)
    if not newest:
        return _TAG.partition("-")[0]
    return ".".join(f"cp3{minor}" for minor in range(newest + 1, _NEWEST_MINOR + 1)) or None


def _of_some_target(own: VersionFiles) -> list[Row]:
    """Choose the wheels that some target could install: two fifths of the wheels of a hundred pages, and uv reads each.
    A release without any such wheel keeps all of them, so that uv's message names them."""
    installable = [row for row in own.wheels if installs_somewhere(row["filename"][:-4].split("-", 2)[2])]
    return installable or own.wheels


def _variant_row(shown: ShownVariant) -> dict[str, Any]:
    """Make a variant's row. uv keeps METADATA by the name of a wheel, so that no two of a release may have one name."""
    file = replace(_address(shown.row, VARIANT), variant=shown.variant, fault=shown.fault)
    text = variant_text(shown.variant, shown.fault)
    own = hashlib.sha256(f"{shown.row['filename']} {shown.row['hashes']} {text}".encode()).hexdigest()[:12]
    return _shown_row(shown.row, replace(file, stand_in=with_build(shown.plain, own)))


def _row(row: Mapping[str, Any], kind: str, stand_in: str | None = None, *, differ: bool = False) -> dict[str, Any]:
    """Make a row. `differ`: the files of its release differ in their Requires-Python."""
    return _shown_row(row, _address(row, kind, stand_in, row.get("requires-python") if differ else None))


def _address(row: Mapping[str, Any], kind: str, stand_in: str | None = None, python: str | None = None) -> FileAddress:
    metadata = row.get("core-metadata", False)
    return FileAddress(
        kind,
        str(row["url"]),
        row["hashes"].get("sha256", ""),
        row.get("size"),
        stand_in,
        bool(metadata),
        metadata if isinstance(metadata, str) else None,
        row.get("provenance"),
        yanked=bool(row.get("yanked")),
        requires_python=python,
    )


def _shown_row(row: Mapping[str, Any], file: FileAddress) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "filename": file.stand_in or row["filename"],
        "url": f"../{path_of(file)}",
        # uv writes no file without a hash; this one says that the page has none, and is never compared with anything
        "hashes": {"sha256": file.sha256} if file.sha256 else {"sha512": hashlib.sha512(file.url.encode()).hexdigest()},
        "core-metadata": True,
    }
    for key in ("size", "requires-python", "upload-time", "yanked"):
        if row.get(key):
            shown[key] = row[key]
    return shown
