"""pixi.toml: conda and PyPI dependencies, system requirements, the default feature of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.diff.foreign.shape import optional, sequence, string, strings, table
from envspec.draft.environment_yml import match_spec
from envspec.draft.gather import Gathered, has_project
from envspec.draft.python_tools import dependency
from envspec.errors import Place
from envspec.spec.schema import PLATFORMS

_READ = (
    *("project", "workspace", "dependencies", "pypi-dependencies", "pypi-options", "system-requirements", "feature"),
    *("environments", "target", "activation", "tasks", "$schema"),
)


def read(data: Mapping[str, Any], path: Path, gathered: Gathered) -> None:
    """Read a parsed file, or [tool.pixi] of a pyproject.toml. Raises Malformed."""
    place = Place(str(path))
    for key in data:
        if key not in _READ:
            gathered.note(f"[{key}] is left out: a spec has no such table", place)
    workspace = table(data.get("workspace", data.get("project")), "workspace")
    gathered.description = gathered.description or optional(workspace.get("description"), "description")
    for channel in sequence(workspace.get("channels"), "channels"):
        named = table(channel, "a channel").get("channel") if isinstance(channel, dict) else channel
        gathered.channels[string(named, "a channel")] = None
    for platform in strings(workspace.get("platforms"), "platforms"):
        if platform in PLATFORMS:
            gathered.platforms[platform] = None
        else:
            gathered.note(f"the platform {platform} is left out: envspec has {', '.join(PLATFORMS)}", place)
    system = table(data.get("system-requirements"), "system-requirements")
    if "cuda" in system:
        gathered.cuda_version(string(system["cuda"], "cuda"), place)
    for key in system:
        if key != "cuda":
            gathered.note(f"system-requirements.{key} is left out: targets have glibc and driver", place)
    _dependencies(data, gathered, place)
    _options(table(data.get("pypi-options"), "pypi-options"), gathered, place)
    environment = table(table(data.get("activation"), "activation").get("env"), "activation.env")
    gathered.variables.update({key: string(value, key) for key, value in environment.items()})
    for kind in ("feature", "target"):
        for name, part in table(data.get(kind), kind).items():
            asked = [
                one for key in ("dependencies", "pypi-dependencies") for one in table(table(part, name).get(key), key)
            ]
            gathered.note(f"the {kind} {name} is left out: {', '.join(asked) or 'it asks for nothing'}", place)
    if data.get("tasks"):
        gathered.note("the tasks are left out: a spec has none", place)


def _dependencies(data: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    for name, value in table(data.get("dependencies"), "dependencies").items():
        one = value if isinstance(value, dict) else {"version": value}
        version = optional(one.get("version"), "version") or "*"
        channel = optional(one.get("channel"), "channel")
        text = name if version == "*" else f"{name} {_conda(version)}"
        match_spec(f"{channel}::{text}" if channel else text, gathered, place)
        for key in one:
            if key not in ("version", "channel"):
                gathered.note(f"{name}: {key} is left out", place)
    for name, value in table(data.get("pypi-dependencies"), "pypi-dependencies").items():
        if isinstance(value, dict) and "path" in value:
            folder = string(value["path"], "path")
            own = (Path(place.file).parent / folder, strings(value.get("extras"), "extras"))
            if has_project(own[0]) and (gathered.project is None or Path(gathered.project[0]) == own[0]):
                gathered.project = (str(own[0]), own[1])
                continue
        if (found := dependency(name, value, gathered, place)) is None:
            continue
        gathered.requirement(found, place)
        if isinstance(value, dict) and "index" in value:
            index = gathered.index(string(value["index"], "index"), place)
            if index:
                gathered.sources[name] = index


def _conda(version: str) -> str:
    """Write pixi's bare version as the match spec that it means."""
    return f"=={version}" if version[0].isdigit() and not version.endswith("*") else version


def _options(options: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    for key, value in options.items():
        if key == "index-url":
            gathered.index(string(value, key), place)
        elif key == "extra-index-urls":
            for url in strings(value, key):
                gathered.index(url, place)
        elif key == "find-links":
            for one in sequence(value, key):
                link = one.get("url", one.get("path", "")) if isinstance(one, dict) else one
                gathered.flat_index(string(link, key), place)
        elif key == "no-build-isolation" and isinstance(value, list):
            gathered.unisolated.update(dict.fromkeys(strings(value, key)))
        elif key == "dependency-overrides":
            for name, bound in table(value, key).items():
                if (found := dependency(name, bound, gathered, place)) is not None:
                    gathered.override(found, place)
        else:
            gathered.note(f"pypi-options.{key} is left out: a spec has no such key", place)
