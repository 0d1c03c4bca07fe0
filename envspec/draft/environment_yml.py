"""environment.yml: match specs, and the lines of its pip section."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envspec.base.errors import Place
from envspec.draft.gather import Gathered
from envspec.draft.requirements_txt import RequirementsReader
from envspec.lock.formats.foreign.shape import sequence, string, strings, table
from envspec.packages.names import conda_name
from envspec.spec.forms import PLATFORMS

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
        gathered.variable(key, str(value) if isinstance(value, bool) else string(value, key), place)
    builds = 0
    for dependency in sequence(data.get("dependencies"), "dependencies"):
        if isinstance(dependency, dict):
            for line in strings(dependency.get("pip"), "pip"):
                pip.lines(line, path, first=0)
            for key, more in dependency.items():
                if key != "pip":
                    listed = more if isinstance(more, list) else [more]
                    gathered.note(f"{key} is left out: {', '.join(map(str, listed))}", place)
        else:
            builds += match_spec(string(dependency, "a dependency"), gathered, place)
    if builds:
        count = f"{builds} package{'s' if builds > 1 else ''}"
        gathered.note(f"the builds of {count} are left out: the lock has its own for each target", place)


def read_list(text: str, path: Path, gathered: Gathered) -> None:
    """Read the lines of `conda list --export`: name=version=build, and pypi as the build of pip's packages."""
    for number, line in enumerate(text.splitlines(), 1):
        if not (match := _EXPORTED_LINE.fullmatch(line.strip())):
            continue
        if match[3].startswith("pypi_"):
            gathered.requirement(f"{match[1]}=={match[2]}", Place(str(path), number))
        else:
            match_spec(f"{match[1]}={match[2]}={match[3]}", gathered, Place(str(path), number))
    gathered.note("the builds are left out: the lock has its own for each target", Place(str(path)))


def _channel(channel: str, gathered: Gathered, place: Place) -> None:
    if label := _LABEL.search(channel):
        gathered.cuda_version(label[1], place)
    if channel == "nodefaults":
        gathered.note("the channel nodefaults is left out: envspec takes the channels of the spec alone", place)
    else:
        gathered.channel(channel, place)


def move_from_ended(text: str, path: Path, gathered: Gathered) -> None:
    """Take what came from channels that have ended, or mean other channels on each machine, from where it is now:
    PyTorch's packages by pip at the same versions, others from conda-forge. Each is told with its line in `text`."""
    ended = [
        channel for channel in gathered.channels if channel in ("pytorch", "defaults", "anaconda", "main", "nvidia")
    ]
    specs_by_name = {conda_name(conda_spec): conda_spec for conda_spec in gathered.conda}
    first = next(iter(gathered.channels), None)
    for name, package in _BY_PIP.items():
        spec = specs_by_name.get(name, "")
        if spec.startswith("pytorch::") or (spec and "::" not in spec and first and first in ended):
            bound = re.sub(r"^(?=[0-9])", "==", spec.rpartition("::")[2][len(name) :].replace(" ", ""))
            place = _place_of(rf"\b{name}(?![-\w])", text, path, last=True)
            del gathered.conda[spec]
            gathered.requirement(f"{package}{bound}", place)
            gathered.note(
                f"{spec} is {package}{bound} of pip: PyTorch ended its conda channel with release 2.5.1", place
            )
    for channel in ended:
        is_used = any(conda_spec.startswith(f"{channel}::") for conda_spec in gathered.conda)
        if is_used or (channel == "nvidia" and any(map(_OF_NVIDIA.match, gathered.conda))):
            continue
        del gathered.channels[channel]
        gathered.channels.setdefault("conda-forge")
        place = _place_of(rf"\b{channel}\b", text, path)
        gathered.note(f"the channel {channel} is left out for conda-forge: {_ENDED.get(channel, _ANACONDA)}", place)


_BY_PIP = {"pytorch": "torch", "torchvision": "torchvision", "torchaudio": "torchaudio"}
_OF_NVIDIA = re.compile(r"cuda|lib(?:cu|np|nv)")
_ANACONDA = "it means Anaconda's channels, others on each machine, whose terms bind organisations"
_ENDED = {
    "pytorch": "PyTorch ended it with release 2.5.1",
    "nvidia": "no package of the file needs it; the target's CUDA comes with torch",
}


def _place_of(pattern: str, text: str, path: Path, *, last: bool = False) -> Place:
    lines = [number for number, line in enumerate(text.splitlines(), 1) if re.search(pattern, line)]
    return Place(str(path), (lines or [0])[-1 if last else 0])


def match_spec(text: str, gathered: Gathered, place: Place) -> bool:
    """Take a match spec, in the form that a spec has; say whether it named a build, which is left out."""
    text = gathered.without_credentials(text, place)
    name = conda_name(text)
    channel, separator, rest = text.strip().rpartition("::")
    bound = rest.lstrip()[len(name) :].strip()
    if label := _LABEL.search(channel):
        gathered.cuda_version(label[1], place)
    if name == "python":
        gathered.python_of_match_spec(bound, place)
        return False
    if name in _SELECTORS:
        gathered.cuda_of_match_spec(bound, place)
        return False
    if name == "cpuonly":
        gathered.build_of("cpu", place)
        return False
    if name == "pip":
        gathered.note("pip is left out: an environment needs none to be installed", place)
        return False
    if name in _TOOLKITS and bound.strip(" *"):
        gathered.cuda_of_match_spec(bound, place)
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
