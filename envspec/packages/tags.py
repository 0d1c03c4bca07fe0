"""A target's wheel tags (PEP 425, PEP 600) and its marker environment (PEP 508)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms

from envspec.base.errors import InputError
from envspec.packages.requirement import MAX_DIGITS, published_requirement
from envspec.packages.variants import read_name

# The marker environment of a target (PEP 508), made without an interpreter of the target.

# (sys_platform, platform_machine, platform_system, os_name), by conda subdir.
_PLATFORMS = {
    "linux-64": ("linux", "x86_64", "Linux", "posix"),
    "linux-aarch64": ("linux", "aarch64", "Linux", "posix"),
    "osx-64": ("darwin", "x86_64", "Darwin", "posix"),
    "osx-arm64": ("darwin", "arm64", "Darwin", "posix"),
    "win-64": ("win32", "AMD64", "Windows", "nt"),
}

PLATFORMS = tuple(_PLATFORMS)
"""The conda subdirs with a known marker environment."""


def marker_environment(platform: str, python: str) -> dict[str, str]:
    """Give the value of every PEP 508 marker variable but `extra`, for CPython `python` ("3.12.14") on a conda subdir.

    Without a patch version ("3.12") that counts as 0, as in uv for `--python-version 3.12`.
    `platform_release` and `platform_version` belong to a machine, not to a target, and are empty.

    Raises InputError for a platform that envspec doesn't know.
    """
    if platform not in _PLATFORMS:
        raise InputError(f'unknown platform "{platform}"', hint=f"one of: {', '.join(_PLATFORMS)}")
    sys_platform, machine, system, os_name = _PLATFORMS[platform]
    minor = ".".join(python.split(".")[:2])
    full_version = f"{python}.0" if python == minor else python
    return {
        "implementation_name": "cpython",
        "implementation_version": full_version,
        "os_name": os_name,
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": system,
        "platform_version": "",
        "python_full_version": full_version,
        "python_version": minor,
        "sys_platform": sys_platform,
    }


def platform_marker(platform: str) -> str:
    """Give the marker that holds on a conda subdir alone. Raises InputError for an unknown platform."""
    environment = marker_environment(platform, "3")
    return " and ".join(f"{name} == '{environment[name]}'" for name in ("sys_platform", "platform_machine"))


# The legacy names of PEP 600: manylinux1 is glibc 2.5, manylinux2010 is 2.12, manylinux2014 is 2.17.
_LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}

# The oldest glibc with a manylinux tag, by machine: aarch64 came with manylinux2014.
_OLDEST_MINOR = {"x86_64": 5, "aarch64": 17}

_MOST_TAGS = 100
"""Tags of a wheel that are judged one by one: real ones have a dozen, and a hostile page could have millions."""

_NEWEST_GLIBC = "2.99"
"""Newer than any there is: what a target may ask for has no upper bound."""

MACOS = (14, 0)
"""The oldest macOS of a macOS target: the oldest in the tags of the newest torch wheels (PyPI, 2026-11)."""


@lru_cache(maxsize=64)
def wheel_tags(platform: str, python: str, glibc: str | None) -> frozenset[Tag]:
    """List every tag that CPython `python` ("3.12") on `platform` installs, with `glibc` ("2.28") on Linux.

    Raises InputError for a platform that envspec doesn't know.
    """
    return frozenset(ranked_tags(platform, python, glibc))


@lru_cache(maxsize=64)
def ranked_tags(platform: str, python: str, glibc: str | None) -> tuple[Tag, ...]:
    """List the same tags in the order in which an installer prefers them.

    Raises InputError for a platform that envspec doesn't know.
    """
    major, minor = (int(part) for part in python.split("."))
    interpreter = f"cp{major}{minor}"
    platforms = tuple(_platforms(platform, glibc))
    by_rank = (
        *cpython_tags((major, minor), [interpreter], platforms),
        *compatible_tags((major, minor), interpreter, platforms),
    )
    return tuple(dict.fromkeys(by_rank))


@lru_cache(maxsize=64)
def tag_ranks(platform: str, python: str, glibc: str | None) -> Mapping[Tag, int]:
    """Give each of these tags its place in that order. Raises InputError for a platform that envspec doesn't know."""
    return {tag: rank for rank, tag in enumerate(ranked_tags(platform, python, glibc))}


def wheel_file_tags(file: str) -> frozenset[Tag]:
    """Read the tags in a wheel's file name, also a variant's, and one whose project isn't normalised, as uv does; none
    in any other name."""
    name, _, rest = file.partition("-")
    version, _, ending = rest.partition("-")
    return _tags_of(ending) if name and version else frozenset()


@lru_cache(maxsize=1 << 14)
def ending_parts(ending: str) -> tuple[str, ...]:
    """Read the three parts that hold tags in what follows a wheel's name and version; none in any other text. Cached:
    the wheels of a hundred pages share some hundreds of endings."""
    return tuple(wheel_parts(f"any-1-{ending}")[-3:])


@lru_cache(maxsize=1 << 12)
def _tags_of(ending: str) -> frozenset[Tag]:
    if not (parts := ending_parts(ending)):
        return frozenset()
    return frozenset(Tag(*triple) for triple in product(*(part.split(".") for part in parts)))


def wheel_parts(file: str) -> list[str]:
    """Split a wheel's file name, without a variant's label, at its dashes: nothing for any other name."""
    plain = read_name(file).plain
    parts = plain.removesuffix(".whl").split("-")
    is_wheel = plain.endswith(".whl") and (len(parts) == 5 or (len(parts) == 6 and parts[2][:1].isdecimal()))
    return parts if is_wheel and all(parts) else []


def wheel_fits(file: str, platform: str, python: str, glibc: str | None) -> bool:
    """Return whether a target installs a wheel, by its name. Raises InputError as `wheel_tags` does."""
    return not wheel_tags(platform, python, glibc).isdisjoint(wheel_file_tags(file))


def is_for_platform(file: str, platform: str) -> bool:
    """Return whether a wheel is for a platform, whatever Python and glibc it wants. Raises InputError as
    `wheel_tags`."""
    return not _platforms_of(platform).isdisjoint(tag.platform for tag in wheel_file_tags(file))


@lru_cache(maxsize=len(PLATFORMS))
def _platforms_of(platform: str) -> frozenset[str]:
    return frozenset({"any", *_platforms(platform, _NEWEST_GLIBC)})


class ReleaseFile(NamedTuple):
    """A file of a release, with what its index says of it.

    yanked           its publisher withdrew it
    requires_python  what the index says of it alone, None for nothing
    """

    file: str
    yanked: bool = False
    requires_python: str | None = None


def choose_file(files: Iterable[ReleaseFile], platform: str, python: str, glibc: str | None) -> str | None:
    """Choose the file of a release that a target installs; None where none does. docs/design/04-resolution.md has whose
    rule each part is.

    A file that isn't yanked comes first, then one that takes the target's Python, a wheel before a source, the better
    tag (PEP 425), the higher build number, the name. `python` may be a full version ("3.12.14"), which Requires-Python
    is judged by. Raises InputError for a platform that envspec doesn't know.
    """
    ranks = tag_ranks(platform, ".".join(python.split(".")[:2]), glibc)

    def rank(file: ReleaseFile) -> tuple[bool, bool, int, tuple[int, str] | tuple[()]] | None:
        fit = not file.yanked, takes_python(file.requires_python or "", python)
        if not file.file.endswith(".whl"):
            return (*fit, -len(ranks), ())
        best = min((ranks[tag] for tag in wheel_file_tags(file.file) if tag in ranks), default=None)
        return None if best is None else (*fit, -best, _build_tag(file.file))

    ranked = [(key, file.file) for file in sorted(files, key=lambda file: file.file) if (key := rank(file)) is not None]
    return max(ranked, key=lambda pair: pair[0])[1] if ranked else None


def _build_tag(file: str) -> tuple[int, str] | tuple[()]:
    """Read the build tag in a wheel's file name, empty for none. Of two wheels with the same tags pip and uv take the
    one with the higher. Source:
    https://packaging.python.org/en/latest/specifications/binary-distribution-format/, "Build tag"."""
    parts = wheel_parts(file)
    if len(parts) < 6:
        return ()
    digits = re.match("[0-9]+", parts[2])
    return (int(digits[0][:MAX_DIGITS]), parts[2][digits.end() :]) if digits else ()


@lru_cache(maxsize=1024)
def takes_python(requires: str, python: str) -> bool:
    """Return whether a release's Requires-Python admits a Python: thousands of releases have a few dozen between
    them."""
    if not requires:
        return True
    try:
        return published_requirement(f"python {requires}").specifier.contains(python, prereleases=True)
    except ValueError:
        return False


@lru_cache(maxsize=1 << 14)
def installs_somewhere(tags: str) -> bool:
    """Return whether a target of any platform, glibc and CPython 3 may install a wheel with these tags, build tag or
    not before them: one with very many tags may. Cached: the wheels of a hundred pages have a thousand endings between
    them."""
    parts = [part.split(".") for part in tags.lower().split("-")[-3:]]
    if len(parts) != 3 or math.prod(map(len, parts)) > _MOST_TAGS:
        return len(parts) == 3
    return any(
        _runs(interpreter, abi, minor_in(interpreter) or 0, end == "any")
        for interpreter, abi, end in product(*parts)
        if end in _every_platform()
    )


@lru_cache(maxsize=1)
def _every_platform() -> frozenset[str]:
    return frozenset({"any"}.union(*(_platforms(platform, _NEWEST_GLIBC) for platform in PLATFORMS)))


def minor_in(interpreter: str) -> int | None:
    """Read the minor version of Python 3 in an interpreter's tag, such as cp312; None for a tag without any. A file's
    name may have more digits than Python reads."""
    match = re.fullmatch("[a-z]{2}3([0-9]{1,4})", interpreter)
    return int(match[1]) if match else None


def _runs(interpreter: str, abi: str, minor: int, anywhere: bool) -> bool:
    """Return whether CPython 3.`minor` imports what has these two tags, where its platform's is right."""
    named = minor_in(interpreter)
    older = named is not None and named < minor
    if abi == "none":
        return interpreter in ("py3", f"py3{minor}", f"cp3{minor}") or (interpreter.startswith("py3") and older)
    if anywhere:
        return False
    if interpreter == f"cp3{minor}":
        return abi in (interpreter, "abi3")
    return abi == "abi3" and interpreter.startswith("cp3") and older and named != 0 and named != 1


def _platforms(platform: str, glibc: str | None) -> Iterator[str]:
    if platform == "win-64":
        yield "win_amd64"
    elif platform in ("osx-64", "osx-arm64"):
        yield from mac_platforms(MACOS, "arm64" if platform == "osx-arm64" else "x86_64")
    elif platform in ("linux-64", "linux-aarch64"):
        machine = "x86_64" if platform == "linux-64" else "aarch64"
        newest = int((glibc or "2.28").split(".")[1])
        for minor in range(newest, _OLDEST_MINOR[machine] - 1, -1):
            yield f"manylinux_2_{minor}_{machine}"
            if minor in _LEGACY:
                yield f"{_LEGACY[minor]}_{machine}"
        # says nothing of the glibc that it was built with: uv takes it last, pip first
        yield f"linux_{machine}"
    else:
        raise InputError(f'unknown platform "{platform}"')
