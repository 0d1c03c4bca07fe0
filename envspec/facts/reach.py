"""The reach of each table, and the proof that its rows rest on. Newer releases are in no row: a rule says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from envspec.facts import conda_builds, libraries, neighbours, toolkits, torch_builds, triton, wheels
from envspec.facts.tables import read, words
from envspec.packages.version_numbers import numbers


@cache
def reach() -> Mapping[str, str]:
    """Give the reach of each table of `data/`, in words."""
    return {
        "gpus": f"NVIDIA's lists as of {read('gpus')['as-of']}, compute capability 12.1",
        "peaks": f"data sheets as of {read('peaks')['as-of']}",
        "toolkits": f"CUDA {toolkits.cuda_releases()[-1].version}, forward compatibility CUDA "
        f"{toolkits.with_forward_compatibility()[-1].version}",
        "torch": f"torch {torch_builds.newest().version}",
        "conda_builds": f"pytorch {conda_builds.versions()[-1]}",
        "triton": f"triton {triton.releases()[-1].version}",
        "libraries": ", ".join(f"{name} {of[-1].version}" for name, of in _libraries().items()),
        "neighbours": ", ".join(f"{name} {release}" for name, release in _neighbours().items()),
        "frameworks": f"packages as of {read('frameworks')['as-of']}",
        "gpu_only": f"packages as of {read('gpu_only')['as-of']}",
        "fabrics": f"guides as of {read('fabrics')['as-of']}",
        "ngc": f"images as of {read('ngc')['as-of']}",
        "video": f"packages as of {read('video')['as-of']}",
        "calendar": f"packages as of {read('calendar')['as-of']}",
        "wheel_code": f"wheels as of {read('wheel_code')['as-of']}",
        "host_code": f"wheels as of {read('host_code')['as-of']}",
        "most_used": f"PyPI's downloads as of {read('most_used')['as-of']}",
        "released": f"releases as of {read('released')['as-of']}",
        "python_builds": f"builds as of {read('python_builds')['as-of']}",
        "wheels": ", ".join(f"{variant} torch {last}" for variant in wheels.variants() if (last := _torch_of(variant))),
    }


def library_is_newer(package: str, version: str, platform: str) -> bool:
    """Return whether a release of a CUDA library is newer than every row of its table for a platform; False for other
    packages."""
    return _is_newer(version, [wheel.version for wheel in libraries.of(package, platform)])


def neighbour_is_newer(package: str, version: str) -> bool:
    """Return whether a release of a binary neighbour is newer than every row of its table; False for other packages."""
    return _is_newer(version, [last for name, last in _neighbours().items() if name == package])


def _is_newer(version: str, known: Sequence[str]) -> bool:
    try:
        return bool(known) and numbers(version.partition("+")[0]) > numbers(known[-1])
    except ValueError:
        return False


def _libraries() -> dict[str, tuple[libraries.LibraryWheel, ...]]:
    every = libraries.library_wheels()
    return {name: libraries.of(name, "linux-64") for name in dict.fromkeys(wheel.package for wheel in every)}


@cache
def _neighbours() -> dict[str, str]:
    return {row.package: row.release for row in neighbours.neighbours()}


def _torch_of(variant: str) -> str | None:
    versions = {wheel.version.partition("+")[0] for wheel in wheels.load(variant).files("torch")}
    return max(versions, key=torch_builds.order, default=None)


# The kind of proof that a row of the tables rests on: its sources, each of a kind that the head of its table names.

KINDS = {
    "binary": "read from compiled files, or said by programs in them",
    "run": "installed, imported or run",
    "index": "read from what an index serves: its pages, METADATA, text in wheels",
    "vendor": "said by who makes it: release notes, documentation, build scripts",
    "report": "said by others: collections, issues, copies",
    "derived": "follows from other rows",
    "memory": "general knowledge, not read again",
}
"""The kinds of proof, the strongest first."""

_TRUST = {"verified": "index", "copied": "report", "derived": "derived"}


def of_sources(table: Mapping[str, Any]) -> dict[str, str]:
    """Give each source's kind. In the head, "*" stands for all that no other kind names."""
    named = {key: kind for kind, keys in table["proof"].items() for key in words(keys) if key != "*"}
    rest = next((kind for kind, keys in table["proof"].items() if keys == "*"), None)
    return {key: kind for key in table["sources"] if (kind := named.get(key, rest))}


def of_row(table: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[str, ...]:
    """List the kinds of a row's sources, each once, in the order of its sources, which stand for its values."""
    kinds = of_sources(table)
    return tuple(dict.fromkeys(kinds[key] for key in words(row["source"])))


def rows(name: str) -> Iterator[Mapping[str, Any]]:
    """List the rows of a table."""
    return (row for value in read(name).values() if isinstance(value, list) for row in value)


def counts(name: str) -> tuple[int, dict[str, int]]:
    """Count the rows of a table, and of each kind those that rest on it, the strongest first. "wheels" counts files."""
    every: list[tuple[str, ...]]
    if name == "wheels":
        every = [(_TRUST[wheel.trust],) for wheel in _files()]
    elif isinstance(listed := read(name).get("names"), str):
        every = [tuple(of_sources(read(name)).values())] * len(words(listed))
    else:
        every = [of_row(read(name), row) for row in rows(name)]
    numbers = Counter(kind for kinds in every for kind in kinds)
    return len(every), {kind: numbers[kind] for kind in KINDS if numbers[kind]}


def _files() -> Iterator[wheels.WheelFile]:
    for variant in wheels.variants():
        index = wheels.load(variant)
        for project in index.projects:
            yield from index.files(project)
