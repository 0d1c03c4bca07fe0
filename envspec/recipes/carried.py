"""The carried files: envspec's files in every image and environment, the same for every target of a spec.

They are package data, written verbatim: the smoke check, the preflight, the start scripts, the spec's services.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from envspec.recipes.plan import SUMS
from envspec.recipes.sums import digest, sums_text

CHECK = "check"
"""The folder of the smoke check among the carried files, which `python -I` runs."""

_CARRIED = Path(__file__).parents[1] / "carried"
_ALWAYS = ("bytecode.py", "preflight.py", "entrypoint.sh", "healthcheck.sh")
_OF_SERVICES = "services/common.sh"
_OF_PACKAGES = f"{CHECK}/envspec_check/checks/stack/packages/"


@cache
def check_files() -> Mapping[str, str]:
    """Read the files of the smoke check, by path among the carried files."""
    program = _CARRIED / CHECK
    return MappingProxyType(
        {
            f"{CHECK}/{path.relative_to(program).as_posix()}": path.read_text(encoding="utf-8")
            for path in sorted(program.rglob("*.py"))
        }
    )


def checked_package(path: str) -> str | None:
    """Name the one package that a file of the smoke check is about. None for a file that every target needs."""
    name = path.removeprefix(_OF_PACKAGES).removesuffix(".py")
    return name if name != "__init__" and path == f"{_OF_PACKAGES}{name}.py" else None


@cache
def multi_node_program() -> str:
    """The program that checks several nodes together, which torchrun starts on each of them."""
    return (_CARRIED / "multi_node.py").read_text(encoding="utf-8")


def carried_files(scripts: tuple[str, ...], locked: Container[str]) -> Mapping[str, str]:
    """Give all carried files by path, and the digests of them all: the given services' scripts, and of the smoke check
    what targets with the `locked` packages need.
    """
    packages = filter(None, map(checked_package, check_files()))
    return _carried_files(scripts, frozenset(name for name in packages if name in locked))


@cache
def _carried_files(scripts: tuple[str, ...], checked: frozenset[str]) -> Mapping[str, str]:
    names = [*_ALWAYS, *scripts, *([_OF_SERVICES] if scripts else [])]
    found = {name: (_CARRIED / name).read_text(encoding="utf-8") for name in names}
    found.update((path, text) for path, text in check_files().items() if checked_package(path) in {None, *checked})
    return MappingProxyType({**found, SUMS: sums_text((path, digest(text)) for path, text in found.items())})
