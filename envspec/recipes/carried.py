"""The carried files: envspec's files in every image and environment, the same for every target of a spec.

They are package data, written verbatim: the smoke check, the preflight, the start scripts, the spec's services.
"""

from __future__ import annotations

from collections.abc import Mapping
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


@cache
def multi_node_program() -> str:
    """The program that checks several nodes together, which torchrun starts on each of them."""
    return (_CARRIED / "multi_node.py").read_text(encoding="utf-8")


@cache
def carried_files(scripts: tuple[str, ...]) -> Mapping[str, str]:
    """Give all carried files by path, with the given services' scripts, and the digests of them all."""
    names = [*_ALWAYS, *scripts, *([_OF_SERVICES] if scripts else [])]
    found = {name: (_CARRIED / name).read_text(encoding="utf-8") for name in names}
    found.update(check_files())
    return MappingProxyType({**found, SUMS: sums_text((path, digest(text)) for path, text in found.items())})
