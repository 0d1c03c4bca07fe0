"""cog.yaml: what its `build` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.base.errors import Place
from envspec.draft.dockerfile import excerpt
from envspec.draft.gather import Gathered
from envspec.draft.lines import at
from envspec.draft.requirements_txt import RequirementsReader
from envspec.lock.formats.foreign.shape import optional, string, strings, table

_BUILD = ("gpu", "cuda", "cudnn", "python_version", "python_requirements", "python_packages", "system_packages")


def read(data: Mapping[str, Any], path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read a parsed file. `pip` reads the requirements. Raises Malformed."""
    place = Place(str(path))
    build = table(data.get("build"), "build")
    for key in data:
        if key not in ("build", "environment"):
            gathered.note(f"{key} is left out: it stays with Cog", at(key, place))
    for key in build:
        if key not in _BUILD:
            shown = [excerpt(str(step)) for step in (build[key] if isinstance(build[key], list) else [])]
            why = "a spec runs no commands, and Cog's own options stay with it"
            gathered.note(f"build.{key} is left out: {'; '.join([*shown, why])}", at(key, place))
    if version := optional(build.get("python_version"), "python_version"):
        gathered.claim("python-version", version, place)
    cuda = optional(build.get("cuda"), "cuda")
    if not build.get("gpu"):
        gathered.build_of("cpu", place)
    elif cuda:
        gathered.cuda_version(cuda, place)
    else:
        gathered.note("gpu: Cog chooses a CUDA by torch; choose the target's with --cuda or --gpu", place)
    if "cudnn" in build:
        gathered.note("build.cudnn is left out: torch brings its own", place)
    if name := optional(build.get("python_requirements"), "python_requirements"):
        pip.lines(f"-r {name}", path, first=0)
    for line in strings(build.get("python_packages"), "python_packages"):
        pip.lines(line, path, first=0)
    gathered.apt.update(dict.fromkeys(strings(build.get("system_packages"), "system_packages")))
    for assignment in strings(data.get("environment"), "environment"):
        key, _, value = string(assignment, "environment").partition("=")
        gathered.variable(key, value, place)
