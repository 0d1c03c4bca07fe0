"""pixi.toml: a workspace's platforms and environments as targets, and what their features ask for.

A workspace with one environment on plain platforms asks for packages alone: its targets are chosen as for every other
file. Any other has a target for each environment and platform.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from envspec.base.errors import Place
from envspec.draft.gather import Gathered
from envspec.draft.model import NewTarget
from envspec.draft.pixi_platforms import Platform, of_features, platforms, requirements
from envspec.draft.pixi_tables import channels, dependencies, feature
from envspec.facts import torch_builds
from envspec.lock.formats.intent import MARK
from envspec.packages.version_numbers import numbers
from envspec.review.diff.foreign.shape import optional, string, strings, table

_READ = (
    *("project", "workspace", "dependencies", "pypi-dependencies", "pypi-options", "system-requirements", "feature"),
    *("environments", "target", "activation", "tasks", "constraints", "$schema"),
)
_OF_WORKSPACES = (
    *("name", "version", "description", "authors", "license", "license-file", "readme", "homepage", "repository"),
    *("documentation", "channels", "platforms", "exclude-newer", "requires-pixi"),
)
"""Keys of [workspace] that are read, or that say nothing about an environment."""


@dataclass(frozen=True)
class _Environment:
    """An environment: the features that it has, its own content last."""

    name: str
    features: tuple[Mapping[str, Any], ...]


def read(text: str, data: Mapping[str, Any], path: Path, gathered: Gathered) -> None:
    """Read a parsed file, or [tool.pixi] of a pyproject.toml; `text` is the file's. Raises Malformed."""
    place = Place(str(path))
    for key in data:
        if key not in _READ:
            gathered.note(f"[{key}] is left out: a spec has no such table", place)
    workspace = table(data.get("workspace", data.get("project")), "workspace")
    gathered.description = gathered.description or optional(workspace.get("description"), "description")
    gathered.exclude_newer = gathered.exclude_newer or optional(workspace.get("exclude-newer"), "exclude-newer")
    for said in workspace:
        if said not in _OF_WORKSPACES:
            gathered.note(f"workspace.{said} is left out: a spec has no such key", place)
    channels(workspace, gathered, place)
    known = platforms(workspace, gathered, place)
    environments = _environments(data, text.startswith(MARK), gathered, place)
    activation = table(data.get("activation"), "activation")
    variables = table(activation.get("env"), "activation.env")
    gathered.variables.update({key: string(value, key) for key, value in variables.items()})
    _note_activation({"scripts": activation.get("scripts")}, gathered, place)
    for selected in _target_tables(data):
        _note_activation(table(selected.get("activation"), "activation"), gathered, place)
    if data.get("tasks"):
        gathered.note("the tasks are left out: a spec has none", place)
    if len(environments) > 1 or any(one.system for one in known):
        _targets(environments, known, gathered, place)
        return
    gathered.platforms.update(dict.fromkeys(one.subdir for one in known))
    for environment in environments:
        for part in environment.features:
            feature(part, gathered, place)
            system = requirements(_system(part), "system-requirements", gathered, place)
            if "cuda" in system:
                gathered.cuda_version(system.pop("cuda"), place)
            for key in system:
                gathered.note(f"system-requirements: {key} is left out: add it to the target", place)
            _note_target_parts(part, known, gathered, place)


def _note_activation(activation: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    """Tell what is left out of an [activation] that isn't the file's own: a spec's variables are those of all
    targets."""
    names = [*strings(activation.get("scripts"), "scripts"), *table(activation.get("env"), "activation.env")]
    for name in names:
        gathered.note(f"activation: {name} is left out: a spec has no scripts, and variables for all targets", place)


def _system(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return table(part.get("system-requirements"), "system-requirements")


def _note_target_parts(part: Mapping[str, Any], known: Sequence[Platform], gathered: Gathered, place: Place) -> None:
    for name, selected in table(part.get("target"), "target").items():
        asked = [
            one for key in ("dependencies", "pypi-dependencies") for one in table(table(selected, name).get(key), key)
        ]
        gathered.note(f"the target {name} is left out: {', '.join(asked) or 'it asks for nothing'}", place)


def _environments(
    data: Mapping[str, Any], is_export: bool, gathered: Gathered, place: Place
) -> tuple[_Environment, ...]:
    """List the environments that ask for something; the default one has the file's own tables."""
    own = {
        key: data[key]
        for key in (*_ASKS, "pypi-options", "system-requirements", "target", "constraints")
        if key in data
    }
    features = {name: table(one, name) for name, one in table(data.get("feature"), "feature").items()}
    for feature_table in features.values():
        for part in (feature_table, *_target_tables(feature_table)):
            _note_activation(table(part.get("activation"), "activation"), gathered, place)
    said = dict(table(data.get("environments"), "environments"))
    said.setdefault("default", [])
    used: set[str] = set()
    found = []
    for name, value in said.items():
        given = value if isinstance(value, dict) else {"features": value}
        names = strings(given.get("features"), f"the features of {name}")
        used.update(names)
        if is_export:
            # an export's pins: `lock` chooses anew
            names = tuple(one for one in names if one != "pins" and not one.endswith("-pins"))
        for one in names:
            if one not in features:
                gathered.note(f"the environment {name} has no feature {one}: there is none", place)
        inline = {
            key: one for key, one in given.items() if key not in ("features", "solve-group", "no-default-feature")
        }
        parts = (own, *(features[one] for one in names if one in features), inline)
        environment = _Environment(name, parts[1:] if given.get("no-default-feature") is True else parts)
        if name != "default" or any(map(_asks, environment.features)):
            found.append(environment)
    if is_export:
        gathered.note("the lock's pins are left out: `envspec lock` chooses anew", place)
    for name in features.keys() - used:
        asked = [one for key in _ASKS for one in table(features[name].get(key), key)]
        gathered.note(f"the feature {name} is left out, since no environment has it: {', '.join(asked)}", place)
    return tuple(found)


_Asked = TypeVar("_Asked")
_ASKS = ("dependencies", "pypi-dependencies")


def _asks(part: Mapping[str, Any]) -> bool:
    return any(table(one.get(key), key) for one in (part, *_target_tables(part)) for key in _ASKS)


def _target_tables(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [table(one, name) for name, one in table(part.get("target"), "target").items()]


def _targets(environments: Iterable[_Environment], known: Sequence[Platform], gathered: Gathered, place: Place) -> None:
    found: list[tuple[NewTarget, Gathered]] = []
    for environment in environments:
        of = of_features(environment.features, known)
        for platform in of:
            asked = gathered.beside()
            for part in environment.features:
                platform = platform.having(requirements(_system(part), environment.name, gathered, place))
                feature(part, asked, place)
                for selector, selected in table(part.get("target"), "target").items():
                    if platform.is_selected_by(selector):
                        dependencies(table(selected, selector), asked, place)
            several = len({one.subdir for one in of}) < len(of)
            named = f"{environment.name}-{platform.name if several else platform.subdir}"
            name = environment.name if len(of) == 1 else named
            found.append((_target(name, platform, asked, place), asked))
        if not of:
            gathered.note(f"the environment {environment.name} is left out: it has no platform of envspec's", place)
    _join([one for _, one in found], gathered, place)
    pip = _common([list(one.pip.items()) for _, one in found])
    conda = _common([list(one.conda) for _, one in found])
    gathered.pip.update(pip)
    gathered.conda.update(dict.fromkeys(conda))
    gathered.targets = tuple(
        replace(
            target,
            pip=tuple(text for key, text in asked.pip.items() if (key, text) not in pip),
            conda=tuple(one for one in asked.conda if one not in conda),
        )
        for target, asked in found
    )


def _target(name: str, platform: Platform, asked: Gathered, place: Place) -> NewTarget:
    said = platform.system
    if "cuda" in said:
        asked.cuda_version(_with_minor(said["cuda"], platform.subdir), place)
    cuda = max((one for one in asked.cuda if one != "cpu"), key=numbers, default=None)
    capability = said.get("capability")
    return NewTarget(
        name,
        platform.subdir,
        cuda,
        (f"sm_{capability.replace('.', '')}",) if capability and cuda else (),
        glibc=said.get("glibc"),
        cpu=said.get("cpu"),
    )


def _with_minor(cuda: str, subdir: str) -> str:
    """Return a CUDA; for a major alone, the newest that torch has builds for."""
    minors = (one.cuda for one in torch_builds.builds(platform=subdir) if one.cuda and one.trust != "planned")
    same = [one for one in minors if one.startswith(f"{cuda}.")]
    return max(same, key=numbers) if cuda.isdigit() and same else cuda


def _common(each: Sequence[Sequence[_Asked]]) -> tuple[_Asked, ...]:
    """Return what all have, in the first's order."""
    return tuple(one for one in (each[0] if each else ()) if all(one in others for others in each))


def _join(each: Sequence[Gathered], gathered: Gathered, place: Place) -> None:
    """Take what a spec says once of what the targets say."""
    pythons = dict.fromkeys(one.python for one in each if one.python)
    if len(pythons) > 1:
        gathered.note(f"Python {', '.join(pythons)}: a spec has one, and this one the first", place)
    for one in each:
        gathered.python = gathered.python or one.python
        gathered.requires_python = gathered.requires_python or one.requires_python
        for key, text in one.overrides.items():
            if gathered.overrides.setdefault(key, text) != text:
                gathered.note(
                    f"the override {text!r} is left out: another environment has {gathered.overrides[key]!r}", place
                )
        for name, index in one.sources.items():
            if gathered.sources.setdefault(name, index) != index:
                gathered.note(
                    f"{name} of {index} is left out: another environment has it of {gathered.sources[name]}", place
                )
        gathered.unisolated.update(one.unisolated)
        gathered.project = gathered.project or one.project
