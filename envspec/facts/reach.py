"""The reach of each table: newer releases are in none of its rows, and a rule says so instead of guessing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from envspec.facts import conda_builds, libraries, neighbours, toolkits, torch_builds, triton, wheels
from envspec.facts.tables import read
from envspec.packages.version_numbers import numbers


@cache
def reach() -> Mapping[str, str]:
    """Say for each table of `data/` how far it reaches."""
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
        "video": f"packages as of {read('video')['as-of']}",
        "calendar": f"packages as of {read('calendar')['as-of']}",
        "most_used": f"PyPI's downloads as of {read('most_used')['as-of']}",
        "released": f"releases as of {read('released')['as-of']}",
        "python_builds": f"builds as of {read('python_builds')['as-of']}",
        "wheels": ", ".join(f"{variant} torch {last}" for variant in wheels.variants() if (last := _torch_of(variant))),
    }


def library_is_newer(package: str, version: str) -> bool:
    """Say whether a release of a CUDA library is newer than every row of its table; False for other packages."""
    return _is_newer(version, [one.version for one in libraries.of(package)])


def neighbour_is_newer(package: str, version: str) -> bool:
    """Say whether a release of a binary neighbour is newer than every row of its table; False for other packages."""
    return _is_newer(version, [last for name, last in _neighbours().items() if name == package])


def _is_newer(version: str, known: Sequence[str]) -> bool:
    try:
        return bool(known) and numbers(version.partition("+")[0]) > numbers(known[-1])
    except ValueError:
        return False


def _libraries() -> dict[str, tuple[libraries.LibraryWheel, ...]]:
    return {name: libraries.of(name) for name in dict.fromkeys(one.package for one in libraries.library_wheels())}


@cache
def _neighbours() -> dict[str, str]:
    return {row.package: row.release for row in neighbours.neighbours()}


def _torch_of(variant: str) -> str | None:
    versions = {wheel.version.partition("+")[0] for wheel in wheels.load(variant).files("torch")}
    return max(versions, key=torch_builds.order, default=None)
