"""The carried files: envspec's files in every image and environment, the same for every target of a spec.

They are package data, written verbatim: the smoke check, the preflight, the start scripts, the spec's services.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from envspec.recipes.plan import SUMS
from envspec.recipes.sums import digest, sums_text
from envspec.record import dataclass, replace

CHECK = "check"
"""The folder of the smoke check among the carried files, which `python -I` runs."""

_CARRIED = Path(__file__).parents[1] / "carried"
_ALWAYS = ("bytecode.py", "preflight.py", "entrypoint.sh", "healthcheck.sh")
_SERVICES = "services/"
_OF_SERVICES = f"{_SERVICES}common.sh"
_IN_PART = {
    f"{CHECK}/envspec_check/checks/stack/packages": "package",
    f"{CHECK}/envspec_check/workloads": "workload",
    f"{CHECK}/envspec_check/checks/gpu": "gpu",
}
"""The folders of the smoke check of which an export carries what its targets need, and what their modules are of."""
_OF_PREFLIGHT = tuple(f"envspec_check.{name}" for name in ("capability", "lock", "nvml"))
_FOR_ALL = {"__init__", "base", "wide"}


@dataclass(frozen=True)
class CheckNeeds:
    """What the targets of a spec need of the smoke check: checks of the `packages` that they lock, the `workload` that
    they train, and those of GPUs where one has CUDA.
    """

    packages: frozenset[str]
    workload: str
    gpu: bool

    def covers(self, path: str) -> bool:
        """Say whether a file of the smoke check is carried."""
        kind, name = part_of(path) or (None, "")
        if kind == "package":
            return name in self.packages
        return kind is None or (self.gpu if kind == "gpu" else name == self.workload)


def part_of(path: str) -> tuple[str, str] | None:
    """Say what a file of the smoke check is about, as its kind and its name: ("package", "timm"), ("workload", "llm"),
    ("gpu", "health"). None for a file that every target needs.
    """
    folder, _, file = path.rpartition("/")
    name = file.removesuffix(".py")
    return (_IN_PART[folder], name) if folder in _IN_PART and name not in _FOR_ALL else None


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


def check_digest(carried: Mapping[str, str]) -> str:
    """Give the digest by which the smoke check among these carried files names itself in its reports."""
    files = {path.removeprefix(f"{CHECK}/"): text for path, text in carried.items() if path.startswith(f"{CHECK}/")}
    return f"sha256:{digest(sums_text((path, digest(text)) for path, text in files.items()))}"


_IMPORT = re.compile(r"^ *from (envspec_check[\w.]*) import (.+)", re.MULTILINE)


def _reached(files: Mapping[str, str]) -> dict[str, str]:
    """Keep of the smoke check's files what is imported, directly or by others, by its program or by the parts that are
    imported by name where they are there.
    """
    modules = {path.removeprefix(f"{CHECK}/").removesuffix(".py").replace("/", "."): path for path in files}
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    todo = ["__main__", *_OF_PREFLIGHT, *(name for name, path in modules.items() if part_of(path))]
    kept: set[str] = set()
    while todo:
        name = todo.pop()
        if name in kept or name not in modules:
            continue
        kept.add(name)
        parent = name.rpartition(".")[0]
        imports = _IMPORT.findall(files[modules[name]])
        named = (f"{module}.{word.strip(',')}" for module, words in imports for word in words.split())
        todo += [parent, *(module for module, _ in imports), *named]
    return {modules[name]: files[modules[name]] for name in modules if name in kept}


@cache
def multi_node_program() -> str:
    """The program that checks several nodes together, which torchrun starts on each of them."""
    return (_CARRIED / "multi_node.py").read_text(encoding="utf-8")


def carried_files(scripts: tuple[str, ...], needed: CheckNeeds) -> Mapping[str, str]:
    """Give all carried files by path, and the digests of them all: the given scripts, which are services' or what only
    some specs need, and what is needed of the smoke check.
    """
    packages = {name for kind, name in filter(None, map(part_of, check_files())) if kind == "package"}
    return _carried_files(scripts, replace(needed, packages=needed.packages & packages))


@cache
def _carried_files(scripts: tuple[str, ...], needed: CheckNeeds) -> Mapping[str, str]:
    services = any(script.startswith(_SERVICES) for script in scripts)
    names = [*_ALWAYS, *scripts, *([_OF_SERVICES] if services else [])]
    found = {name: (_CARRIED / name).read_text(encoding="utf-8") for name in names}
    found.update(_reached({path: text for path, text in check_files().items() if needed.covers(path)}))
    return MappingProxyType(_summed(found))


def without_services(carried: Mapping[str, str], scripts: Collection[str]) -> dict[str, str]:
    """Give carried files without these scripts of services: what starts an image starts each service whose script is
    there.
    """
    left = {path: text for path, text in carried.items() if path not in scripts and path != SUMS}
    if [path for path in left if path.startswith(_SERVICES)] == [_OF_SERVICES]:
        del left[_OF_SERVICES]
    return _summed(left)


def _summed(files: Mapping[str, str]) -> dict[str, str]:
    """Add the list of the files' digests."""
    return {**files, SUMS: sums_text((path, digest(text)) for path, text in files.items())}
