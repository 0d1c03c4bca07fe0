"""conda-<subdir>.lock: the files of one target as an explicit list (CEP 23), which tools install without a solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from envspec.lock.conda_files import (
    HOST_VARIABLE,
    FileUrls,
    artifact_of,
    conda_pins,
    describe,
    hostless_urls,
    in_link_order,
    pip_pins,
    url_of,
)
from envspec.lock.formats.requirements import MARK
from envspec.lock.model import Lock, LockedTarget, Pin


def file_name(platform: str) -> str:
    """Return the file's name: `conda-linux-64.lock`."""
    return f"conda-{platform}.lock"


def committed_explicit(lock: Lock, target: LockedTarget) -> str:
    """Return the text that stands beside the lock: the conda packages, with a variable for the host of their
    channels."""
    name = file_name(target.inputs.platform)
    header = [
        f"{MARK}../envspec.lock. Not for editing: run `envspec lock`.",
        f"# {describe(lock, target)} The conda packages.",
        "#",
        "# conda tools want a host in each line, which a lock doesn't name. Put in that of your channels:",
        f"#   sed 's|[$]{{{HOST_VARIABLE}}}|host.of.your.channels|' {name} > explicit.txt",
        "#   micromamba create --prefix PREFIX --file explicit.txt     # conda, mamba: the same",
        *(["# Then the pip packages, as requirements.txt says."] if pip_pins(target) else []),
    ]
    urls = hostless_urls(lock, target)
    # a line of their own between packages, not an empty one: git merges two branches that bump neighbours
    lines = (line for pin in in_link_order(conda_pins(target)) for line in (f"# {pin.name}:", _line(pin, urls)))
    return _text(header, target, lines)


def with_rows(lock: Lock, target: LockedTarget, with_row: Callable[[Pin, str], str]) -> str:
    """Return the list without a head, each line with the addition of `with_row`, which tools don't want: two targets
    with the same conda packages have the same text."""
    urls = hostless_urls(lock, target)
    pins = in_link_order(conda_pins(target))
    return _text([], target, (line for pin in pins for line in ("#", f"# {pin.name}", with_row(pin, _line(pin, urls)))))


def explicit(lock: Lock, target: LockedTarget, urls: FileUrls) -> str:
    """Return the text with the URLs of the user's own channels, and the pip packages in the comments that conda-lock
    reads.

    `urls` has the URL of each artifact from an index. Raises InternalError when one is missing.
    """
    name = file_name(target.inputs.platform)
    header = [
        f"# {describe(lock, target)}",
        "#",
        f"#   conda-lock install --prefix PREFIX {name}           # both halves",
        f"#   micromamba create --prefix PREFIX --file {name}     # the conda packages; conda, mamba: the same",
    ]
    pip = (f"# pip {_requirement(pin, urls)}" for pin in pip_pins(target))
    conda = (_line(pin, urls) for pin in in_link_order(conda_pins(target)))
    return _text(header, target, (*conda, *pip))


def _text(header: list[str], target: LockedTarget, lines: Iterable[str]) -> str:
    # mamba, conda-lock and rattler read the platform from exactly this comment; rattler stops at an empty line.
    return "\n".join([*header, f"# platform: {target.inputs.platform}", "@EXPLICIT", *lines]) + "\n"


def _line(pin: Pin, urls: FileUrls) -> str:
    return f"{url_of(pin, urls)}#{_hash(pin)}"


def _hash(pin: Pin) -> str:
    """Return the MD5, which every conda tool takes; where a channel gives none, SHA-256 as newer ones take it."""
    artifact = artifact_of(pin)
    return artifact.md5 or f"sha256:{artifact.sha256}"


def _requirement(pin: Pin, urls: FileUrls) -> str:
    """Return a pip package in the form that `conda-lock render --kind explicit` gives it."""
    url = url_of(pin, urls)
    if pin.git:
        return f"{pin.name} @ {url}"
    return f"{pin.name} @ {url}{'&' if '#' in url else '#'}sha256={artifact_of(pin).sha256}"
