"""environment.yml: match specs, and the lines of its pip section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.base.errors import Place
from envspec.draft.gather import Gathered
from envspec.draft.requirements_txt import RequirementsReader
from envspec.packages.names import conda_name
from envspec.review.diff.foreign.shape import sequence, string, strings, table
from envspec.spec.schema import PLATFORMS

_SELECTORS = ("cudatoolkit", "pytorch-cuda", "cuda-version")
"""Packages that are there to choose a CUDA: the target's `cuda` does."""
_TOOLKITS = ("cuda", "cuda-toolkit", "cuda-runtime")
_LABEL = re.compile(r"nvidia/label/cuda-([0-9.]+)")
_KEYS = ("name", "channels", "dependencies", "variables", "platforms")
_EXPORTED_LINE = re.compile(r"([\w.-]+)=([^=\s]+)=([^=\s]+)")
_EXPORTED = re.compile(r"=?=([^=,|*<>!~\s]+)=([^=\s]+)")


def read(data: Mapping[str, Any], path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read a parsed file. `pip` reads the pip section. Raises Malformed."""
    place = Place(str(path))
    for key in data:
        if key not in _KEYS:
            gathered.note(f"{key} is left out: a spec has no such key", place)
    for channel in strings(data.get("channels"), "channels"):
        _channel(channel, gathered, place)
    for platform in strings(data.get("platforms"), "platforms"):
        if platform in PLATFORMS:
            gathered.platforms[platform] = None
        else:
            gathered.note(f"the platform {platform} is left out: envspec has {', '.join(PLATFORMS)}", place)
    for key, value in table(data.get("variables"), "variables").items():
        gathered.variables[key] = str(value) if isinstance(value, bool) else string(value, key)
    builds = 0
    for one in sequence(data.get("dependencies"), "dependencies"):
        if isinstance(one, dict):
            for line in strings(one.get("pip"), "pip"):
                pip.lines(line, path, first=0)
            for key, more in one.items():
                if key != "pip":
                    listed = more if isinstance(more, list) else [more]
                    gathered.note(f"{key} is left out: {', '.join(map(str, listed))}", place)
        else:
            builds += match_spec(string(one, "a dependency"), gathered, place)
    if builds:
        count = f"{builds} package{'s' if builds > 1 else ''}"
        gathered.note(f"the builds of {count} are left out: the lock has its own for each target", place)


def read_list(text: str, path: Path, gathered: Gathered) -> None:
    """Read the lines of `conda list --export`: name=version=build, and pypi as the build of pip's packages."""
    for number, line in enumerate(text.splitlines(), 1):
        if not (found := _EXPORTED_LINE.fullmatch(line.strip())):
            continue
        if found[3].startswith("pypi_"):
            gathered.requirement(f"{found[1]}=={found[2]}", Place(str(path), number))
        else:
            match_spec(f"{found[1]}={found[2]}={found[3]}", gathered, Place(str(path), number))
    gathered.note("the builds are left out: the lock has its own for each target", Place(str(path)))


def _channel(channel: str, gathered: Gathered, place: Place) -> None:
    if label := _LABEL.search(channel):
        gathered.cuda_version(label[1], place)
    if channel == "nodefaults":
        gathered.note("the channel nodefaults is left out: envspec takes the channels of the spec alone", place)
    else:
        gathered.channels[channel] = None


def match_spec(text: str, gathered: Gathered, place: Place) -> bool:
    """Take a match spec, in the form that a spec has; say whether it named a build, which is left out."""
    name = conda_name(text)
    channel, separator, rest = text.strip().rpartition("::")
    bound = rest.lstrip()[len(name) :].strip()
    if label := _LABEL.search(channel):
        gathered.cuda_version(label[1], place)
    if name == "python":
        gathered.python_version(bound, place)
        return False
    if name in _SELECTORS:
        gathered.cuda_version(bound, place)
        return False
    if name == "cpuonly":
        gathered.build_of("cpu")
        return False
    if name == "pip":
        gathered.note("pip is left out: an environment needs none to be installed", place)
        return False
    if name in _TOOLKITS and re.search(r"[0-9]\.[0-9]", bound):
        gathered.cuda_version(bound, place)
    exact = _EXPORTED.fullmatch(bound.replace(" ", ""))
    gathered.conda[f"{channel}{separator}{_with_bound(name, f'=={exact[1]}' if exact else bound)}"] = None
    return bool(exact)


def _with_bound(name: str, bound: str) -> str:
    """Write `numpy=1.26` as `numpy 1.26.*`: without `=`, which means another thing to pip."""
    bound = re.sub(r"\s+", " ", bound)
    fuzzy = re.fullmatch(r"= ?([0-9][0-9A-Za-z.]*?)(?:\.\*)?", bound)
    if fuzzy:
        return f"{name} {fuzzy[1]}.*"
    if bound in ("", "*"):
        return name
    return f"{name} {re.sub(r' *, *', ',', bound)}"
