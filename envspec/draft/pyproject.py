"""pyproject.toml: [project] and dependency groups, uv's tables, Poetry's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.diff.foreign.shape import Malformed, optional, string, strings, table, tables
from envspec.draft import pixi_toml
from envspec.draft.gather import Gathered
from envspec.draft.python_tools import dependency, pep440
from envspec.errors import Place

_PYTORCH = ("torch", "torchaudio", "torchvision")
_UV_ELSEWHERE = (
    *(
        "package",
        "managed",
        "default-groups",
        "workspace",
        "cache-keys",
        "link-mode",
        "build-backend",
        "dev-dependencies",
    ),
    *("sources", "index", "index-url", "extra-index-url", "find-links", "override-dependencies", "exclude-newer"),
    *("constraint-dependencies", "no-build-isolation-package", "required-version", "pip"),
)
"""Keys of [tool.uv] that are read below, or that say nothing about an environment."""
_UV_INSTEAD = {
    "conflicts": "each target chooses its own extras and groups",
    "dependency-metadata": "[pip] metadata states what a source requires",
    "environments": "the targets say the platforms",
    "extra-build-dependencies": "[pip] build-dependencies says what a build needs",
    "required-environments": "the targets say the platforms",
}


def read(data: Mapping[str, Any], path: Path, gathered: Gathered) -> None:
    """Read a parsed file. Raises Malformed."""
    place = Place(str(path))
    tool = table(data.get("tool"), "tool")
    if "project" in data:
        _project(data, path, gathered, place)
    elif "poetry" not in tool and "pixi" not in tool:
        raise Malformed("it has neither [project] nor the tables of Poetry or pixi")
    if "poetry" in tool:
        _poetry(table(tool["poetry"], "tool.poetry"), gathered, place)
    if "uv" in tool:
        _uv(table(tool["uv"], "tool.uv"), gathered, place)
    if "pixi" in tool:
        pixi_toml.read("", table(tool["pixi"], "tool.pixi"), path, gathered)


def _project(data: Mapping[str, Any], path: Path, gathered: Gathered, place: Place) -> None:
    project = table(data["project"], "project")
    gathered.description = gathered.description or optional(project.get("description"), "description")
    gathered.requires_python = gathered.requires_python or optional(project.get("requires-python"), "requires-python")
    for one in strings(project.get("dependencies"), "dependencies"):
        gathered.requirement(one, place, gathered.own)
    dynamic = strings(project.get("dynamic"), "dynamic")
    if "dependencies" in dynamic:
        if not gathered.own:
            raise Malformed("its dependencies are dynamic: only a build tells them; begin with its requirements.txt")
        gathered.note("the dependencies are dynamic: only a build of the project tells them", place)
    gathered.project = gathered.project or (str(path.parent), ())
    for key, kind in (("optional-dependencies", "extra"), ("dependency-groups", "group")):
        listed = table((project if kind == "extra" else data).get(key), key)
        for name, asked in listed.items():
            if kind == "group" or name not in gathered.project[1]:
                gathered.available[f"{kind} {name}"] = None
                continue
            for one in strings(asked, name):
                gathered.requirement(one, place, gathered.own)


def _uv(uv: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    for key in uv:
        if key not in _UV_ELSEWHERE:
            gathered.note(f"tool.uv.{key} is left out: {_UV_INSTEAD.get(key, 'a spec has no such key')}", place)
    names: dict[str, str | None] = {}
    urls: dict[str, str] = {}
    for one in tables(uv.get("index"), "tool.uv.index"):
        url, name = string(one.get("url"), "url"), optional(one.get("name"), "name")
        if name:
            urls[name] = url
        if not name or not one.get("explicit"):
            names[name or url] = gathered.index(url, place, name)
    for key in ("index-url", "extra-index-url"):
        listed = uv.get(key)
        for url in [listed] if isinstance(listed, str) else strings(listed, key):
            gathered.index(url, place)
    for url in strings(uv.get("find-links"), "find-links"):
        gathered.flat_index(url, place)
    for name, source in table(uv.get("sources"), "tool.uv.sources").items():
        _uv_source(name, source, urls, names, gathered, place)
    for text in strings(uv.get("constraint-dependencies"), "constraint-dependencies"):
        gathered.constraint(text, place)
    for text in strings(uv.get("override-dependencies"), "override-dependencies"):
        gathered.override(text, place)
    for text in strings(uv.get("dev-dependencies"), "dev-dependencies"):
        gathered.note(f"{text!r} of tool.uv.dev-dependencies is left out: it's for development", place)
    gathered.unisolated.update(
        dict.fromkeys(strings(uv.get("no-build-isolation-package"), "no-build-isolation-package"))
    )
    newer = uv.get("exclude-newer")
    gathered.exclude_newer = None if newer is None else str(newer)
    if "pip" in uv:
        gathered.note("tool.uv.pip is left out: it's about `uv pip` alone", place)


def _uv_source(
    name: str,
    source: Any,
    urls: Mapping[str, str],
    names: dict[str, str | None],
    gathered: Gathered,
    place: Place,
) -> None:
    """Take one entry of [tool.uv.sources]. An explicit index counts where a source names it."""
    several = tables(source, name) if isinstance(source, list) else [table(source, name)]
    for number, one in enumerate(several):
        index = optional(one.get("index"), "index")
        if "path" in one or one.get("workspace"):
            gathered.note(f"{name} comes from its index: a spec takes one local project", place)
            continue
        if index is None:
            if number == 0 and (
                found := dependency(name, {k: v for k, v in one.items() if k != "marker"}, gathered, place)
            ):
                gathered.requirement(found, place)
            continue
        if index not in urls:
            raise Malformed(f"tool.uv.sources.{name} names the index {index!r}, which isn't in tool.uv.index")
        if index not in names:
            names[index] = gathered.index(urls[index], place, index)
        known = names[index]
        if known and name.lower() not in _PYTORCH and number == 0:
            gathered.sources[name] = known
    if len(several) > 1 and name.lower() not in _PYTORCH:
        gathered.note(f"{name} has {len(several)} sources: the first is taken", place)


def _poetry(poetry: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    gathered.description = gathered.description or optional(poetry.get("description"), "description")
    names: dict[str, str | None] = {}
    for one in tables(poetry.get("source"), "tool.poetry.source"):
        name = string(one.get("name"), "name")
        url = optional(one.get("url"), "url")
        names[name] = gathered.index(url, place, name) if url else "pypi"
    for name, value in table(poetry.get("dependencies"), "tool.poetry.dependencies").items():
        if name.lower() == "python":
            python = pep440(string(value, name))
            gathered.requires_python = gathered.requires_python or python
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict) and one.get("optional"):
                gathered.note(f"{name} is left out: it's optional, for an extra", place)
            else:
                _poetry_dependency(name, one, names, gathered, place)
    groups = table(poetry.get("group"), "tool.poetry.group")
    for name, group in groups.items():
        listed = table(table(group, name).get("dependencies"), "dependencies")
        gathered.note(f"the group {name} is left out: {', '.join(listed) or 'it is empty'}", place)
    dev = table(poetry.get("dev-dependencies"), "tool.poetry.dev-dependencies")
    if dev:
        gathered.note(f"the development dependencies are left out: {', '.join(dev)}", place)


def _poetry_dependency(
    name: str, value: Any, names: Mapping[str, str | None], gathered: Gathered, place: Place
) -> None:
    found = dependency(name, value, gathered, place)
    if found is None:
        return
    gathered.requirement(found, place)
    source = optional(value.get("source"), "source") if isinstance(value, dict) else None
    index = names.get(source or "")
    if index and not re.fullmatch("|".join(_PYTORCH), name.lower()):
        gathered.sources[name] = index
