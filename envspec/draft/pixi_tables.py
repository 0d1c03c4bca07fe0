"""The requirements of pixi's features: conda and PyPI dependencies, and the options of PyPI's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.base.errors import Place
from envspec.draft.environment_yml import match_spec
from envspec.draft.gather import Gathered, dependency, has_project
from envspec.review.diff.foreign.shape import optional, sequence, string, strings, table


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
        one = table(channel, "a channel") if isinstance(channel, dict) else {"channel": channel}
        name = string(one.get("channel"), "a channel")
        gathered.channels[name] = None
        if "priority" in one:
            gathered.note(f"the priority of {name} is left out: a spec's channels count in their order", place)


def dependencies(data: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    """Read the tables of dependencies."""
    for name, value in table(data.get("dependencies"), "dependencies").items():
        one = value if isinstance(value, dict) else {"version": value}
        if {"git", "path", "url"} & one.keys():
            gathered.note(f"{name} is left out: it is built from a source, and a spec takes channels' packages", place)
            continue
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
            gathered.index(string(value, key), place, first=True)
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
        elif key != "no-build" or value is not True:  # a spec's own way
            gathered.note(f"pypi-options.{key} is left out: a spec has no such key", place)
