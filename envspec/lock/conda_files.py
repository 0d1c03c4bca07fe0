"""The common part of the conda files beside a lock: the packages, the address of each file, and the order of
linking."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import quote

from envspec.base.errors import InternalError
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin
from envspec.packages.names import channel_name, conda_name

FileUrls = Mapping[tuple[str, str], str]
"""(index name, file name) → URL."""

HOST_VARIABLE = "CONDA_CHANNEL_HOST"
"""The environment variable that stands where a committed file would name a host. conda-lock reads it itself."""

_URL_SAFE = "!+~"
"""The characters that conda's own URLs leave unquoted in a file's name besides letters, digits and `_.-`."""


def conda_pins(target: LockedTarget) -> list[Pin]:
    """Return the target's conda packages by name."""
    return sorted((pin for pin in target.pins if pin.kind == "conda"), key=lambda pin: pin.name)


def pip_pins(target: LockedTarget) -> list[Pin]:
    """Return the target's pip packages by name."""
    return sorted((pin for pin in target.pins if pin.kind == "pip"), key=lambda pin: pin.name)


def artifact_of(pin: Pin) -> Artifact:
    """Return the file of a package that isn't from git. Raises InternalError when there is none."""
    if pin.artifact is None:
        raise InternalError(f"{pin.name} {pin.version} has no file")
    return pin.artifact


def channel_of(pin: Pin) -> tuple[str, str]:
    """Return the name of the channel that a conda package is from, and its subdir: ("conda-forge", "noarch")."""
    channel, _, subdir = pin.index.rpartition("/")
    return channel, subdir


def url_in_channel(base: str, pin: Pin) -> str:
    """Return the URL of a conda package in the channel whose URL is `base`."""
    return f"{base.rstrip('/')}/{channel_of(pin)[1]}/{quote(artifact_of(pin).file, safe=_URL_SAFE)}"


def urls_in_channels(pins: Iterable[Pin], channels: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return the URLs of conda packages; `channels` has the URL of each channel by its name."""
    return {(pin.index, artifact_of(pin).file): url_in_channel(channels[channel_of(pin)[0]], pin) for pin in pins}


def own_url(channel: str, channels: Iterable[str]) -> str | None:
    """Return the URL of a channel that the spec gives by its URL; None for one that it gives by name."""
    return next((url for url in channels if "://" in url and channel_name(url) == channel), None)


def hostless_urls(lock: Lock, target: LockedTarget) -> dict[tuple[str, str], str]:
    """Return the URLs of the conda packages, with HOST_VARIABLE for the host unless the spec gives the channel by
    URL."""
    pins = conda_pins(target)
    names = {channel_of(pin)[0] for pin in pins}
    channels = {n: own_url(n, lock.inputs.channels) or f"https://${{{HOST_VARIABLE}}}/{n}" for n in names}
    return urls_in_channels(pins, channels)


def url_of(pin: Pin, urls: FileUrls) -> str:
    """Return the URL of a package's file or commit. Raises InternalError when it's from an index and `urls` has
    none."""
    if pin.git:
        return f"git+{pin.git.address}"
    file = artifact_of(pin).file
    url = pin.url or urls.get((pin.index, file))
    if url is None:
        raise InternalError(f'no URL was given for {file} of the index "{pin.index}"')
    return url


def in_link_order(pins: Iterable[Pin]) -> list[Pin]:
    """Return the packages in the order of linking: each after its dependencies, otherwise by name. A cycle is cut at
    its first package.

    Tools link an explicit list as it stands, and a package's scripts may use its dependencies.
    """
    by_name = {pin.name: pin for pin in sorted(pins, key=lambda pin: pin.name)}
    entered: set[str] = set()
    ordered: list[Pin] = []

    def enter(name: str) -> tuple[Pin, Iterator[str]]:
        entered.add(name)
        return by_name[name], iter(sorted(map(conda_name, by_name[name].dependencies)))

    for name in by_name:
        # Not recursive: a chain of dependencies may be longer than Python's stack.
        stack = [] if name in entered else [enter(name)]
        while stack:
            pin, rest = stack[-1]
            following = next((name for name in rest if name in by_name and name not in entered), None)
            if following is None:
                stack.pop()
                ordered.append(pin)
            else:
                stack.append(enter(following))
    return ordered


def describe(lock: Lock, target: LockedTarget) -> str:
    """Return the subject of a target's file as a sentence: `mm-v2.9, target cpu: Python 3.12 on linux-64.`"""
    inputs = target.inputs
    cuda = f", CUDA {inputs.cuda}" if inputs.cuda else ""
    return f"{lock.name}, target {target.name}: Python {inputs.python} on {inputs.platform}{cuda}."
