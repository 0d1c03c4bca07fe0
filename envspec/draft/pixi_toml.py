"""pixi.toml: a workspace's platforms and environments as targets, and what their features ask for.

A workspace with one environment on plain platforms asks for packages alone: its targets are chosen as for every other
file. Any other has a target for each environment and platform.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import Place
from envspec.draft.environment_yml import match_spec
from envspec.draft.gather import Gathered, dependency, has_project
from envspec.draft.lines import at
from envspec.draft.model import NewTarget
from envspec.facts.virtual_packages import ARCHSPEC
from envspec.lock.formats.foreign.shape import optional, sequence, string, strings, table
from envspec.lock.formats.intent import MARK
from envspec.spec.forms import PLATFORMS

# The platforms of a pixi.toml: subdirs, and what their machines have.


_FAMILIES = {"linux": ("linux", "unix"), "osx": ("osx", "macos", "unix"), "win": ("win",)}
_CPU = {named: cpu for cpu, named in ARCHSPEC.items()}


class Platform(Struct, frozen=True):
    """One of a workspace's platforms. `system`: cuda, capability, glibc and cpu, as a target says them."""

    name: str
    subdir: str
    system: Mapping[str, str] = field(default_factory=dict)

    def is_selected_by(self, selector: str) -> bool:
        """Return whether `[target.SELECTOR]` holds on it."""
        family = _FAMILIES[self.subdir.partition("-")[0]]
        return selector in (self.subdir, *family) or fnmatchcase(self.name, selector)

    def with_system(self, system: Mapping[str, str]) -> Platform:
        return replace(self, system={**self.system, **system})


def platforms(workspace: Mapping[str, Any], gathered: Gathered, place: Place) -> tuple[Platform, ...]:
    """Read a workspace's platforms; what no target can be becomes a note. Raises Malformed."""
    supported = []
    for platform in sequence(workspace.get("platforms"), "platforms"):
        entry = platform if isinstance(platform, dict) else {"platform": platform}
        subdir = string(entry.get("platform", entry.get("name")), "a platform")
        if subdir not in PLATFORMS:
            gathered.note(f"the platform {subdir} is left out: envspec has {', '.join(PLATFORMS)}", at(subdir, place))
            continue
        system = {key: value for key, value in table(entry, "a platform").items() if key not in ("name", "platform")}
        name = optional(entry.get("name"), "name") or default_name(subdir, system)
        supported.append(Platform(name, subdir, requirements(system, f"the platform {name}", gathered, place)))
    return tuple(supported)


def default_name(subdir: str, system: Mapping[str, Any]) -> str:
    """Return the name that pixi gives a platform without one."""
    words = [subdir]
    for key in ("cuda", "archspec", "glibc", "linux", "macos", "osx", "windows"):
        if isinstance(system.get(key), str):
            words += [key.replace("osx", "macos"), re.sub(r"[^A-Za-z0-9]+", "-", system[key])]
    return "-".join(words)


def requirements(system: Mapping[str, Any], what: str, gathered: Gathered, place: Place) -> dict[str, str]:
    """Read what machines have: the keys of a platform, or a table `[system-requirements]`."""
    machine = {}
    for key, value in system.items():
        given = value if isinstance(value, dict) else {}
        if key == "cuda":
            machine["cuda"] = string(given.get("driver", None if given else value), "cuda")
            if "arch" in given:
                machine["capability"] = string(given["arch"], "arch")
        elif key in ("glibc", "libc") and given.get("family", "glibc") == "glibc":
            machine["glibc"] = string(given.get("version", None if given else value), key)
        elif key == "archspec" and isinstance(value, str) and value in _CPU:
            machine["cpu"] = _CPU[value]
        else:
            gathered.note(f"{what}: {key} is left out: a target has no such key", place)
    return machine


def of_features(features: Sequence[Mapping[str, Any]], known: Sequence[Platform]) -> tuple[Platform, ...]:
    """Return the platforms of an environment: those that each of its features has."""
    common = tuple(known)
    for feature in features:
        if "platforms" in feature:
            names = {string(name, "a platform") for name in sequence(feature["platforms"], "platforms")}
            # a subdir's name means each of its platforms, unless one has that very name
            aliases = names - {platform.name for platform in known}
            common = tuple(platform for platform in common if platform.name in names or platform.subdir in aliases)
    return common


# The requirements of pixi's features: conda and PyPI dependencies, and the options of PyPI's.


def feature(data: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    """Read a feature's dependencies and options: a file's own tables are a feature too. Raises Malformed."""
    channels(data, gathered, place)
    dependencies(data, gathered, place)
    _options(table(data.get("pypi-options"), "pypi-options"), gathered, place)
    for key in ("constraints", "host-dependencies", "build-dependencies"):
        if names := list(table(data.get(key), key)):
            gathered.note(f"[{key}] is left out: {', '.join(names)}", place)


def channels(data: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    """Read the channels of a workspace or of a feature."""
    for channel in sequence(data.get("channels"), "channels"):
        channel_table = table(channel, "a channel") if isinstance(channel, dict) else {"channel": channel}
        name = string(channel_table.get("channel"), "a channel")
        gathered.channel(name, place)
        if "priority" in channel_table:
            gathered.note(f"the priority of {name} is left out: a spec's channels count in their order", place)


def dependencies(data: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    """Read the tables of dependencies."""
    tables_place = place
    for name, value in table(data.get("dependencies"), "dependencies").items():
        place = at(name, tables_place)
        dependency_table = value if isinstance(value, dict) else {"version": value}
        if {"git", "path", "url"} & dependency_table.keys():
            gathered.note(f"{name} is left out: it is built from a source, and a spec takes channels' packages", place)
            continue
        version = optional(dependency_table.get("version"), "version") or "*"
        channel = optional(dependency_table.get("channel"), "channel")
        text = name if version == "*" else f"{name} {_conda(version)}"
        match_spec(f"{channel}::{text}" if channel else text, gathered, place)
        for key in dependency_table:
            if key not in ("version", "channel"):
                gathered.note(f"{name}: {key} is left out", place)
    for name, value in table(data.get("pypi-dependencies"), "pypi-dependencies").items():
        place = at(name, tables_place)
        if isinstance(value, dict) and "path" in value:
            folder = string(value["path"], "path")
            own = (Path(place.file).parent / folder, strings(value.get("extras"), "extras"))
            if has_project(own[0]) and (gathered.project is None or Path(gathered.project[0]) == own[0]):
                gathered.project = (str(own[0]), own[1])
                continue
        if (requirement := dependency(name, value, gathered, place)) is None:
            continue
        gathered.requirement(requirement, place)
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
            gathered.index(string(value, key), place, first=True)
        elif key == "extra-index-urls":
            for url in strings(value, key):
                gathered.index(url, place)
        elif key == "find-links":
            for link_value in sequence(value, key):
                link = link_value.get("url", link_value.get("path", "")) if isinstance(link_value, dict) else link_value
                gathered.flat_index(string(link, key), place)
        elif key == "no-build-isolation" and isinstance(value, list):
            gathered.unisolated.update(dict.fromkeys(strings(value, key)))
        elif key == "dependency-overrides":
            for name, bound in table(value, key).items():
                if (override := dependency(name, bound, gathered, place)) is not None:
                    gathered.override(override, place)
        elif key != "no-build" or value is not True:  # a spec's own way
            gathered.note(f"pypi-options.{key} is left out: a spec has no such key", place)


_READ = (
    *("project", "workspace", "dependencies", "pypi-dependencies", "pypi-options", "system-requirements", "feature"),
    *("environments", "target", "activation", "tasks", "constraints", "$schema"),
)
_OF_WORKSPACES = (
    *("name", "version", "description", "authors", "license", "license-file", "readme", "homepage", "repository"),
    *("documentation", "channels", "platforms", "exclude-newer", "requires-pixi"),
)
"""Keys of [workspace] that are read, or that say nothing about an environment."""


class _Environment(Struct, frozen=True):
    """An environment: the features that it has, its own content last."""

    name: str
    features: tuple[Mapping[str, Any], ...]


def read(text: str, data: Mapping[str, Any], path: Path, gathered: Gathered) -> None:
    """Read a parsed file, or [tool.pixi] of a pyproject.toml; `text` is the file's. Raises Malformed."""
    place = Place(str(path))
    for key in data:
        if key not in _READ:
            gathered.note(f"[{key}] is left out: a spec has no such table", at(key, place))
    workspace = table(data.get("workspace", data.get("project")), "workspace")
    gathered.description = gathered.description or optional(workspace.get("description"), "description")
    newer = optional(workspace.get("exclude-newer"), "exclude-newer")
    gathered.exclude_newer = gathered.exclude_newer or (newer and _span(newer))
    for key in workspace:
        if key not in _OF_WORKSPACES:
            gathered.note(f"workspace.{key} is left out: a spec has no such key", at(key, place))
    channels(workspace, gathered, place)
    known = platforms(workspace, gathered, place)
    environments = _environments(data, text.startswith(MARK), gathered, place)
    activation = table(data.get("activation"), "activation")
    variables = table(activation.get("env"), "activation.env")
    for key, value in variables.items():
        gathered.variable(key, string(value, key), place)
    _note_activation({"scripts": activation.get("scripts")}, gathered, place)
    for selected in _target_tables(data):
        _note_activation(table(selected.get("activation"), "activation"), gathered, place)
    if data.get("tasks"):
        gathered.note("the tasks are left out: a spec has none", place)
    by_platform = any(map(_asks, (t for e in environments for part in e.features for t in _target_tables(part))))
    if len(environments) > 1 or by_platform or any(platform.system for platform in known):
        _targets(environments, known, gathered, place)
        return
    gathered.platforms.update(dict.fromkeys(platform.subdir for platform in known))
    for environment in environments:
        for part in environment.features:
            feature(part, gathered, place)
            system = requirements(_system(part), "system-requirements", gathered, place)
            if "cuda" in system:
                gathered.claim("cuda-driver", system.pop("cuda"), place)
            for key in system:
                gathered.note(f"system-requirements: {key} is left out: add it to the target", place)
            _note_target_parts(part, known, gathered, place)


def _span(text: str) -> str:
    """Write pixi's duration (`7d`) as a spec has it."""
    span = re.fullmatch(r"([0-9]+) *(h|d|w)[a-z]*", text)
    return f"{span[1]} {_SPANS[span[2]]}" if span else text


_SPANS = {"h": "hours", "d": "days", "w": "weeks"}


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
        names = [
            package
            for key in ("dependencies", "pypi-dependencies")
            for package in table(table(selected, name).get(key), key)
        ]
        gathered.note(f"the target {name} is left out: {', '.join(names) or 'it asks for nothing'}", place)


def _environments(
    data: Mapping[str, Any], is_export: bool, gathered: Gathered, place: Place
) -> tuple[_Environment, ...]:
    """List the environments that ask for something; the default one has the file's own tables."""
    own = {
        key: data[key]
        for key in (*_ASKS, "pypi-options", "system-requirements", "target", "constraints")
        if key in data
    }
    features = {name: table(value, name) for name, value in table(data.get("feature"), "feature").items()}
    for feature_table in features.values():
        for part in (feature_table, *_target_tables(feature_table)):
            _note_activation(table(part.get("activation"), "activation"), gathered, place)
    environments = dict(table(data.get("environments"), "environments"))
    environments.setdefault("default", [])
    used: set[str] = set()
    listed = []
    for name, value in environments.items():
        given = value if isinstance(value, dict) else {"features": value}
        names = strings(given.get("features"), f"the features of {name}")
        used.update(names)
        if is_export:
            # an export's pins: `lock` chooses anew
            names = tuple(
                feature_name for feature_name in names if feature_name != "pins" and not feature_name.endswith("-pins")
            )
        for feature_name in names:
            if feature_name not in features:
                gathered.note(f"the environment {name} has no feature {feature_name}: there is none", place)
        inline = {
            key: entry for key, entry in given.items() if key not in ("features", "solve-group", "no-default-feature")
        }
        parts = (own, *(features[feature_name] for feature_name in names if feature_name in features), inline)
        environment = _Environment(name, parts[1:] if given.get("no-default-feature") is True else parts)
        if name != "default" or any(map(_asks, environment.features)):
            listed.append(environment)
    if is_export:
        gathered.note("the lock's pins are left out: `envspec lock` chooses anew", place)
    for name in features.keys() - used:
        packages = [package for key in _ASKS for package in table(features[name].get(key), key)]
        gathered.note(f"the feature {name} is left out, since no environment has it: {', '.join(packages)}", place)
    return tuple(listed)


_Asked = TypeVar("_Asked")
_ASKS = ("dependencies", "pypi-dependencies")


def _asks(part: Mapping[str, Any]) -> bool:
    return any(table(section.get(key), key) for section in (part, *_target_tables(part)) for key in _ASKS)


def _target_tables(part: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [table(target_table, name) for name, target_table in table(part.get("target"), "target").items()]


def _targets(environments: Iterable[_Environment], known: Sequence[Platform], gathered: Gathered, place: Place) -> None:
    targets: list[tuple[NewTarget, Gathered]] = []
    for environment in environments:
        of = of_features(environment.features, known)
        for platform in of:
            target_gathered = gathered.beside()
            for part in environment.features:
                platform = platform.with_system(requirements(_system(part), environment.name, gathered, place))
                feature(part, target_gathered, place)
                for selector, selected in table(part.get("target"), "target").items():
                    if platform.is_selected_by(selector):
                        dependencies(table(selected, selector), target_gathered, place)
            is_shared = len({platform.subdir for platform in of}) < len(of)
            named = f"{environment.name}-{platform.name if is_shared else platform.subdir}"
            name = environment.name if len(of) == 1 else named
            targets.append((_target(name, platform, target_gathered, place), target_gathered))
        if not of:
            gathered.note(f"the environment {environment.name} is left out: it has no platform of envspec's", place)
    _join([target_gathered for _, target_gathered in targets], gathered, place)
    pip = _common([list(target_gathered.pip.items()) for _, target_gathered in targets])
    conda = _common([list(target_gathered.conda) for _, target_gathered in targets])
    gathered.pip.update(pip)
    gathered.conda.update(dict.fromkeys(conda))
    gathered.targets = tuple(
        replace(
            target,
            pip=tuple(text for key, text in target_gathered.pip.items() if (key, text) not in pip),
            conda=tuple(conda_spec for conda_spec in target_gathered.conda if conda_spec not in conda),
        )
        for target, target_gathered in targets
    )


def _target(name: str, platform: Platform, gathered: Gathered, place: Place) -> NewTarget:
    system = platform.system
    gathered.claim("cuda-driver", system.get("cuda", ""), place)
    capability = system.get("capability")
    return NewTarget(
        name,
        platform.subdir,
        gpus=(f"sm_{capability.replace('.', '')}",) if capability else (),
        glibc=system.get("glibc"),
        cpu=system.get("cpu"),
        claims=tuple(claim for claim in gathered.claims if claim.about.startswith("cuda")),
    )


def _common(each: Sequence[Sequence[_Asked]]) -> tuple[_Asked, ...]:
    """Return what all have, in the first's order."""
    return tuple(text for text in (each[0] if each else ()) if all(text in texts for texts in each))


def _join(each: Sequence[Gathered], gathered: Gathered, place: Place) -> None:
    """Take what a spec says once of what the targets say."""
    for target_gathered in each:
        gathered.claims.update({bound: None for bound in target_gathered.claims if bound.about.startswith("python")})
        for key, text in target_gathered.overrides.items():
            if gathered.overrides.setdefault(key, text) != text:
                gathered.note(
                    f"the override {text!r} is left out: another environment has {gathered.overrides[key]!r}", place
                )
        for name, index in target_gathered.sources.items():
            if gathered.sources.setdefault(name, index) != index:
                gathered.note(
                    f"{name} of {index} is left out: another environment has it of {gathered.sources[name]}", place
                )
        gathered.unisolated.update(target_gathered.unisolated)
        gathered.project = gathered.project or target_gathered.project
