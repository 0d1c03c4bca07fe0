"""environment.yml of one target: its conda packages pinned to builds, its pip packages to hashes.

For `conda env create`, `mamba env create` and `micromamba create`. They write the list under `pip` into a requirements
file and run `pip install -U -r` on it, so its lines are those of a requirements file, hashes included.
docs/conda-files.md has the limits.
"""

from __future__ import annotations

from shlex import quote

from envspec.lock.conda_files import FileUrls, artifact_of, channel_of, conda_pins, describe, own_url, pip_pins, url_of
from envspec.lock.formats.yaml_text import dump
from envspec.lock.model import Lock, LockedTarget, Pin

FILE_NAME = "environment.yml"

_PYPI = "pypi"
_WHEELS = "wheels"
_VARIANT_NOTE = f"""\
# Some of the pip packages are variant wheels (PEP 825), of which pip takes none from an index: put the folder
# {_WHEELS} of an unpacked bundle beside this file."""


def wants_url(pin: Pin) -> bool:
    """Return whether a package stands by its URL: a line can't say which index a name is from, so only PyPI's go by
    name. So do variants, whose files pip takes under plain names alone, from a folder."""
    return pin.kind == "pip" and pin.index not in (_PYPI, "git", "url") and not _is_variant(pin)


def _is_variant(pin: Pin) -> bool:
    return pin.artifact is not None and pin.artifact.variant is not None


def conda_environment(lock: Lock, target: LockedTarget, urls: FileUrls) -> str:
    """Return the text. Channels stand by the name that the spec has for them, which tools resolve with the user's
    settings.

    `urls` has the URL of each artifact that `wants_url`. Raises InternalError when one is missing.
    """
    name = f"{lock.name}-{target.name}"
    pip = pip_pins(target)
    from_git = [pin for pin in pip if pin.git]
    hashed = [pin for pin in pip if not pin.git]
    # Without `nodefaults`, conda adds its default channels, which have licence terms of their own.
    channels = [*lock.inputs.channels, "nodefaults"]
    has_variants = any(map(_is_variant, hashed))
    # pip takes the option from the environment alone: a requirements file has none
    past = "PIP_IGNORE_REQUIRES_PYTHON=1 " if target.is_past_requires_python else ""
    packages: list[object] = [_match_spec(lock, pin) for pin in conda_pins(target)]
    options = [f"--find-links {_WHEELS}"] if has_variants else []
    if hashed:
        packages.append({"pip": [*options, *(_requirement(pin, urls) for pin in hashed)]})
    head = [
        f"# {describe(lock, target)}",
        "#",
        f"#   {past}conda env create --file {FILE_NAME}     # micromamba create, mamba env create: the same",
        *_git_note(from_git, name, urls, past),
        *([_VARIANT_NOTE] if has_variants else []),
    ]
    document = {"name": name, "channels": channels, "dependencies": packages}
    return "\n".join([*head, dump(document, short=0)])


def _match_spec(lock: Lock, pin: Pin) -> str:
    channel, _ = channel_of(pin)
    own = own_url(channel, lock.inputs.channels)
    build = "" if pin.build is None else f"={pin.build}"
    # A channel given by its URL has a different name in each tool; `channels` names it for all packages.
    return f"{'' if own else f'{channel}::'}{pin.name}={pin.version}{build}"


def _requirement(pin: Pin, urls: FileUrls) -> str:
    by_url = pin.url is not None or wants_url(pin)
    what = f"{pin.name} @ {url_of(pin, urls)}" if by_url else f"{pin.name}=={pin.version}"
    return f"{what} --hash=sha256:{artifact_of(pin).sha256}"


def _git_note(pins: list[Pin], name: str, urls: FileUrls, past: str) -> list[str]:
    if not pins:
        return []

    install = f"#   {past}conda run --name {name} pip install --no-deps"
    commands = (f"{install} {quote(f'{pin.name} @ {url_of(pin, urls)}')}" for pin in pins)
    return ["# pip refuses a git requirement beside hashes, so afterwards:", *commands]
