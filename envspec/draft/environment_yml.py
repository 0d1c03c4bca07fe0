"""environment.yml: match specs, and the lines of its pip section."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from envspec.base.errors import Place
from envspec.base.texts import plural
from envspec.draft.gather import Gathered
from envspec.draft.lines import at, located_yaml
from envspec.draft.requirements_txt import RequirementsReader
from envspec.lock.formats.foreign.shape import sequence, string, strings, table, yaml_of
from envspec.packages.conda import version_and_build
from envspec.packages.names import conda_name
from envspec.spec.forms import PLATFORMS

_SELECTORS = ("cudatoolkit", "pytorch-cuda", "cuda-version")
"""Packages that are there to choose a CUDA: the target's `cuda` does."""
_TOOLKITS = ("cuda", "cuda-toolkit", "cuda-runtime")
_LABEL = re.compile(r"nvidia/label/cuda-([0-9.]+)")
_KEYS = ("name", "channels", "dependencies", "variables", "platforms")
_CUDA_OF_BUILD = re.compile(r"cuda_?([0-9]{1,2}\.[0-9]|[0-9]{2,3})(?![0-9])")
"""The CUDA of a build string: `py3.10_cuda11.8_cudnn8.7.0_0`, `cuda118_py310h1234_300`."""
_EXPORTED_LINE = re.compile(r"([\w.-]+)=([^=\s]+)=([^=\s]+)")
_EXPORTED = re.compile(r"=?=([^=,|*<>!~\s]+)=([^=\s]+)")


def read(text: str, path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read a file's text. `pip` reads the pip section. Raises Malformed."""
    place = Place(str(path))
    platforms = strings(yaml_of(text).get("platforms"), "platforms")
    data = located_yaml(
        _select(text, [name for name in platforms if name in PLATFORMS] or ["linux-64"], path, gathered)
    )
    for key in data:
        if key not in _KEYS:
            gathered.note(f"{key} is left out: a spec has no such key", at(key, place))
    for channel in strings(data.get("channels"), "channels"):
        _channel(channel, gathered, place)
    for platform in strings(data.get("platforms"), "platforms"):
        if platform in PLATFORMS:
            gathered.platforms[str(platform)] = None
        else:
            gathered.note(
                f"the platform {platform} is left out: envspec has {', '.join(PLATFORMS)}", at(platform, place)
            )
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
                    gathered.note(f"{key} is left out: {', '.join(map(str, listed))}", at(key, place))
        else:
            builds += match_spec(string(dependency, "a dependency"), gathered, place)
    if builds >= _EXPORT:
        _leave_out_of_export(gathered, place)
    elif builds:
        _note_builds(builds, gathered, place)


_EXPORT = 8
"""Packages with their builds that make a file an export: people name the build of one or two."""
_OF_EXPORTS = (
    *(
        "_libgcc_mutex",
        "_openmp_mutex",
        "_sysroot_linux-64_curr_repodata_hack",
        "blas",
        "ld_impl_linux-64",
        "libgcc-ng",
    ),
    *("libgomp", "libstdcxx-ng", "pytorch-mutex", "torchtriton"),
)
"""Packages that solvers add by themselves, in builds and versions that only the channels of the export have."""


def _leave_out_of_export(gathered: Gathered, place: Place) -> None:
    """Leave out of an export of a whole environment what was there for the solver's channels alone."""
    left = [text for text in gathered.conda if conda_name(text) in _OF_EXPORTS]
    for text in left:
        del gathered.conda[text]
    without = f", without {', '.join(map(conda_name, left))} and all builds" if left else ", without its builds"
    text = f"this is the export of an environment: all of its packages are taken{without}"
    gathered.note(f"{text}; `conda env export --from-history` lists what was asked for", place)


def _note_builds(count: int, gathered: Gathered, place: Place) -> None:
    gathered.note(f"the builds of {plural(count, 'package')} are left out: the lock has its own for each target", place)


_SELECTOR = re.compile(r"(.+?)\s*(#.*)\[([^\[\]]+)\][^()]*$")
"""A line for some platforms, as conda-lock reads it (src_parser/selectors.py)."""
_SELECTED: Mapping[str, tuple[str, ...]] = {
    "linux-64": ("linux64", "unix", "linux"), "linux-aarch64": ("aarch64", "unix", "linux"),
    "osx-64": ("osx64", "osx", "unix"), "osx-arm64": ("arm64", "osx", "unix"), "win-64": ("win", "win64"),
}  # fmt: skip


_LONGEST = 1_000
"""The length of a line, in characters, that has a selector: honest ones have a tenth."""


def _select(text: str, platforms: Sequence[str], path: Path, gathered: Gathered) -> str:
    """Return the text with only the lines that are for all of the platforms; others become notes."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        is_plain = line.lstrip().startswith("#") or len(line) > _LONGEST
        match = None if is_plain else _SELECTOR.match(line)
        if match is None:
            continue
        chosen = [platform for platform in platforms if match[3] in _SELECTED[platform]]
        if chosen == list(platforms):
            continue
        for_some = f"add it to the targets for {', '.join(chosen)}" if chosen else f"it's for [{match[3]}]"
        gathered.note(f"{match[1].strip(' -')} is left out: {for_some}", Place(str(path), number + 1))
        lines[number] = ""
    return "\n".join(lines)


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
    place = at(channel, place)
    if label := _LABEL.search(channel):
        gathered.cuda_version(label[1], place)
    if channel == "nodefaults":
        gathered.note("the channel nodefaults is left out: envspec takes the channels of the spec alone", place)
    else:
        gathered.channel(channel, place)


def move_from_ended(path: Path, gathered: Gathered) -> None:
    """Take what came from channels that have ended, or mean other channels on each machine, from where it is now:
    PyTorch's packages by pip at the same versions, others from conda-forge. Each is told with its line."""
    ended = [
        channel for channel in gathered.channels if channel in ("pytorch", "defaults", "anaconda", "main", "nvidia")
    ]
    specs_by_name = {conda_name(conda_spec): conda_spec for conda_spec in gathered.conda}
    first = next(iter(gathered.channels), None)
    moved: dict[str, Place] = {}
    for name, package in _BY_PIP.items():
        spec = specs_by_name.get(name, "")
        if spec.startswith("pytorch::") or (spec and "::" not in spec and first and first in ended):
            bound = re.sub(r"^(?=[0-9])", "==", spec.rpartition("::")[2][len(name) :].replace(" ", ""))
            place = gathered.line_of(spec) or Place(str(path))
            del gathered.conda[spec]
            gathered.requirement(f"{package}{bound}", place)
            moved[f"{spec} is {package}{bound}"] = place
    if moved:
        text = f"{', '.join(moved)} of pip: PyTorch ended its conda channel with release 2.5.1"
        gathered.note(text, next(iter(moved.values())))
    left: dict[str, list[str]] = {}
    for channel in ended:
        is_used = any(conda_spec.startswith(f"{channel}::") for conda_spec in gathered.conda)
        if is_used or (channel == "nvidia" and any(map(_OF_NVIDIA.match, gathered.conda))):
            continue
        del gathered.channels[channel]
        gathered.channels.setdefault("conda-forge")
        left.setdefault(_ENDED.get(channel, _ANACONDA), []).append(channel)
    if left:
        channels = [channel for channels in left.values() for channel in channels]
        word = "channel" if len(channels) == 1 else "channels"
        why = "; ".join(reason if len(left) == 1 else f"{', '.join(of)}: {reason}" for reason, of in left.items())
        place = gathered.line_of(channels[0]) or Place(str(path))
        text = (
            f"the {word} {', '.join(channels)} {'is' if len(channels) == 1 else 'are'} left out for conda-forge: {why}"
        )
        gathered.note(text, place)


_BY_PIP = {"pytorch": "torch", "torchvision": "torchvision", "torchaudio": "torchaudio"}
_OF_NVIDIA = re.compile(r"cuda|lib(?:cu|np|nv)")
_ANACONDA = "it means Anaconda's channels, others on each machine, whose terms bind organisations"
_ENDED = {
    "pytorch": "PyTorch ended it with release 2.5.1",
    "nvidia": "no package of the file needs it; the target's CUDA comes with torch",
}


def match_spec(text: str, gathered: Gathered, place: Place) -> bool:
    """Take a match spec, in the form that a spec has; say whether it named a build, which is left out."""
    place = at(text, place)
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
    if name == "pip":  # an environment needs none to be installed
        gathered.count_line(place)
        return False
    if name in _TOOLKITS and bound.strip(" *"):
        gathered.cuda_of_match_spec(bound, place)
    exact = _EXPORTED.fullmatch(bound.replace(" ", ""))
    if (build := version_and_build(text)[1]) and (named := _CUDA_OF_BUILD.search(build)):
        gathered.cuda_version(named[1] if "." in named[1] else f"{named[1][:-1]}.{named[1][-1]}", place)
    conda_spec = f"{channel}{separator}{_with_bound(name, f'=={exact[1]}' if exact else bound)}"
    gathered.conda[conda_spec] = None
    gathered.count_line(place, conda_spec)
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
