"""pylock.toml (PEP 751) of one target. The format gives every file a URL, so the caller brings them."""

from __future__ import annotations

from collections.abc import Mapping

from envspec.errors import InternalError
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin
from envspec.lock.toml_text import inline_strings, string
from envspec.packages.marker_environment import marker_environment

PylockUrls = Mapping[tuple[str, str], str]
"""(index name, file name) -> URL."""


def pylock_toml(lock: Lock, target: LockedTarget, urls: PylockUrls) -> str:
    """The text of a `pylock.toml` with the pip packages of `target`, which installs only where the target runs.

    `urls` says where each artifact is that comes from an index. Raises InternalError when it leaves one out.
    """
    inputs = target.inputs
    environment = marker_environment(inputs.platform, inputs.python)
    where = " and ".join(f"{key} == '{environment[key]}'" for key in ("sys_platform", "platform_machine"))
    out = [
        f"# {lock.name}, target {target.name}.\n",
        'lock-version = "1.0"\n',
        f"environments = {inline_strings([where])}\n",
        f'requires-python = "=={inputs.python}.*"\n',
        'created-by = "envspec"\n',
    ]
    pins = sorted((pin for pin in target.pins if pin.kind == "pip"), key=lambda pin: pin.name)
    if not pins:
        # The specification wants the array even when nothing is in it.
        out.append("packages = []\n")
    for pin in pins:
        out.append(f"\n[[packages]]\nname = {string(pin.name)}\n")
        out.extend(_source(pin, urls))
    return "".join(out)


def _source(pin: Pin, urls: PylockUrls) -> list[str]:
    if pin.git:
        # No version: PEP 751 allows one only where the file says it for certain, which a source tree doesn't.
        folder = f", subdirectory = {string(pin.git.subdirectory)}" if pin.git.subdirectory else ""
        return [
            f'vcs = {{ type = "git", url = {string(pin.git.url)}, commit-id = {string(pin.git.commit)}{folder} }}\n'
        ]
    artifact = pin.artifact
    if artifact is None:
        raise InternalError(f"{pin.name} {pin.version} has no file")
    version = f"version = {string(pin.version)}\n"
    if pin.url:
        archive = f"archive = {{ {_fields(pin.url, artifact)} }}\n"
        return [version, archive] if pin.is_wheel else [archive]
    url = urls.get((pin.index, artifact.file))
    if url is None:
        raise InternalError(f'no URL was given for {artifact.file} of the index "{pin.index}"')
    fields = f"name = {string(artifact.file)}, {_fields(url, artifact)}"
    return [version, f"wheels = [{{ {fields} }}]\n" if pin.is_wheel else f"sdist = {{ {fields} }}\n"]


def _fields(url: str, artifact: Artifact) -> str:
    size = "" if artifact.size is None else f", size = {artifact.size}"
    return f'url = {string(url)}{size}, hashes = {{ sha256 = "{artifact.sha256}" }}'
