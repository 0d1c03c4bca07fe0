"""The carried files: envspec's files in every image and environment, the same for every target and every spec.

They are written verbatim: the smoke check, the preflight, the start scripts, the services.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from envspec.export.plan import BUILD_SCRIPTS, CHECK, ENVIRONMENT_FILE, FETCH_VARIANTS, digest, sums_text

_CARRIED = Path(__file__).parents[1] / "carried"
_ALWAYS = ("bytecode.py", "preflight.py", "entrypoint.sh", "healthcheck.sh", "warned.sh")
_SERVICES = "services/"
OF_SERVICES = f"{_SERVICES}common.sh"
"""What all scripts of services read."""


def check_folder() -> Path:
    """Return the folder of the smoke check: a distribution of its own in a checkout, a copy in an installed envspec."""
    installed = _CARRIED / CHECK
    # a checkout of an earlier version may have left its bytecode there
    return installed if (installed / "__main__.py").is_file() else _CARRIED.parents[1] / CHECK


@cache
def check_files() -> Mapping[str, str]:
    """Read the files of the smoke check, by path among the carried files."""
    program = check_folder()
    paths = (program / "__main__.py", *sorted((program / "envspec_check").rglob("*.py")))
    return MappingProxyType(
        {f"{CHECK}/{path.relative_to(program).as_posix()}": path.read_text(encoding="utf-8") for path in paths}
    )


def check_digest(carried: Mapping[str, str]) -> str:
    """Give the digest by which the smoke check among these carried files names itself in its reports."""
    files = {path.removeprefix(f"{CHECK}/"): text for path, text in carried.items() if path.startswith(f"{CHECK}/")}
    return f"sha256:{digest(sums_text((path, digest(text)) for path, text in files.items()))}"


@cache
def multi_node_program() -> str:
    """The program that checks several nodes together, which torchrun starts on each of them."""
    return (_CARRIED / "multi_node.py").read_text(encoding="utf-8")


def build_scripts() -> tuple[str, ...]:
    """Name the scripts that builds of images run."""
    return tuple(sorted(f"{BUILD_SCRIPTS}/{path.name}" for path in (_CARRIED / BUILD_SCRIPTS).glob("*.sh")))


@cache
def build_digest() -> str:
    """Give a short digest of these scripts."""
    return digest("".join(carried_files()[name] for name in build_scripts()))[:8]


@cache
def carried_files() -> Mapping[str, str]:
    """Give all carried files, by path."""
    services = sorted(f"{_SERVICES}{path.name}" for path in (_CARRIED / _SERVICES).glob("*.sh"))
    names = (*_ALWAYS, ENVIRONMENT_FILE, FETCH_VARIANTS, *services)
    names = (*names, *build_scripts())
    found = {name: (_CARRIED / name).read_text(encoding="utf-8") for name in names}
    return MappingProxyType({**found, **check_files()})


def carried_names(scripts: Collection[str]) -> Iterator[str]:
    """Name the carried files of images that have these scripts: services', or what only some specs need. What starts an
    image starts each service whose script is there.
    """
    services = any(script.startswith(_SERVICES) for script in scripts)
    for name in carried_files():
        if name in _ALWAYS or name in scripts or name.startswith(f"{CHECK}/") or (services and name == OF_SERVICES):
            yield name
