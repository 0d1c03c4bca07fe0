"""conda-lock.yml, version 1: the format that conda-lock installs and that micromamba, pixi and rattler read.

Its schema is conda-lock's own (`conda_lock.lockfile.v1.models`), which refuses unknown keys. The further demands of the
other readers (`used_env_vars`, a non-empty `sources`, URLs with a scheme, `build`) are met, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from envspec.lock.conda_files import (
    HOST_VARIABLE,
    FileUrls,
    artifact_of,
    conda_pins,
    describe,
    hostless_urls,
    pip_pins,
    url_of,
)
from envspec.lock.formats.requirements import MARK
from envspec.lock.formats.yaml_text import inline_strings, string
from envspec.lock.inputs import fingerprint
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.packages.edges import Markers, Overrides, effective
from envspec.packages.names import conda_name
from envspec.packages.requirement import canonical_name, published_requirement

FILE_NAME = "conda-lock.yml"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


def without_md5(target: LockedTarget) -> list[Pin]:
    """Return the conda packages that the format can't hold: it demands an MD5, and a few channels give none."""
    return [pin for pin in conda_pins(target) if artifact_of(pin).md5 is None]


def committed_conda_lock(lock: Lock, target: LockedTarget) -> str:
    """Return the text that stands beside the lock: the conda packages, with a variable for the host of their
    channels."""
    rest = " The pip packages are in requirements.txt." if pip_pins(target) else ""
    header = [
        f"{MARK}../envspec.lock. Not for editing: run `envspec lock`.",
        f"# {describe(lock, target)} The conda packages.{rest}",
        "#",
        "# A lock doesn't name hosts. Say which one your channels are on:",
        f"#   {HOST_VARIABLE}=host.of.your.channels conda-lock install --prefix PREFIX {FILE_NAME}",
        "# Other tools want URLs: `envspec export --format conda-lock` writes them, and the pip packages.",
    ]
    urls = hostless_urls(lock, target)
    packages = [_conda(pin, target, urls) for pin in conda_pins(target)]
    return _text(header, lock, target, packages, hostless=True)


def conda_lock(lock: Lock, target: LockedTarget, urls: FileUrls) -> str:
    """Return the text with both halves and the URLs of the user's own channels and indexes.

    `urls` has the URL of each artifact from an index. Raises InternalError when one is missing.
    """
    header = [f"# {describe(lock, target)}", "#", f"#   conda-lock install --prefix PREFIX {FILE_NAME}"]
    packages = [_conda(pin, target, urls) for pin in conda_pins(target)]
    packages += [_pip(pin, target, urls) for pin in pip_pins(target)]
    return _text(header, lock, target, packages, hostless=False)


def _text(header: list[str], lock: Lock, target: LockedTarget, packages: list[str], *, hostless: bool) -> str:
    platform = target.inputs.platform
    digest = fingerprint(lock.inputs, target.inputs).removeprefix("sha256:")
    channels = "".join(
        f"\n  - url: {string(channel)}"
        # conda-lock says which of these isn't set before it starts
        f"\n    used_env_vars: {inline_strings([HOST_VARIABLE] if hostless and '://' not in channel else [])}"
        for channel in lock.inputs.channels
    )
    return "\n".join(
        [
            *header,
            "version: 1",
            "metadata:",
            "  content_hash:",
            f"    {string(platform)}: {string(digest)}",
            f"  channels:{channels or ' []'}",
            f"  platforms: {inline_strings([platform])}",
            f"  sources: {inline_strings(['../envspec.lock' if hostless else 'envspec.lock'])}",
            "package:",
            *(packages or ["  []"]),
            "",
        ]
    )


def _conda(pin: Pin, target: LockedTarget, urls: FileUrls) -> str:
    artifact = artifact_of(pin)
    return _package(
        pin,
        target,
        conda_dependencies(pin.dependencies),
        url_of(pin, urls),
        {"md5": artifact.md5, "sha256": artifact.sha256},
        [] if pin.build is None else [f"  build: {string(pin.build)}"],
    )


def _pip(pin: Pin, target: LockedTarget, urls: FileUrls) -> str:
    url = url_of(pin, urls)
    # conda-lock installs what has a `source` without looking at its hash, so only git requirements have one.
    source = ["  source:", "    type: url", f"    url: {string(url)}"] if pin.git else []
    sha256 = None if pin.git else artifact_of(pin).sha256
    return _package(pin, target, _pip_dependencies(pin, target), url, {"sha256": sha256}, source)


def _package(
    pin: Pin,
    target: LockedTarget,
    dependencies: Mapping[str, str],
    url: str,
    hashes: Mapping[str, str | None],
    more: list[str],
) -> str:
    requires = "".join(f"\n    {string(name)}: {string(dependencies[name])}" for name in sorted(dependencies))
    digests = "".join(f"\n    {kind}: {string(digest)}" for kind, digest in hashes.items() if digest is not None)
    return "\n".join(
        [
            f"- name: {string(pin.name)}",
            f"  version: {string(pin.version)}",
            f"  manager: {pin.kind}",
            f"  platform: {string(target.inputs.platform)}",
            f"  dependencies:{requires or ' {}'}",
            f"  url: {string(url)}",
            f"  hash:{digests or ' {}'}",
            "  category: main",
            "  optional: false",
            *more,
        ]
    )


def conda_dependencies(depends: Iterable[str]) -> dict[str, str]:
    """Return a record's `depends` as one constraint a name, joined where it names a package more than once.

    The format has no place for conditions, so a dependency with one (`; if …`) is left out, and so is one without a
    name.
    """
    constraints: dict[str, str] = {}
    for text in depends:
        name, constraint = conda_name(text), ""
        if not _NAME.fullmatch(name) or ";" in text:
            continue
        constraint = " ".join(text.rpartition("::")[2].lstrip()[len(name) :].split())
        constraints[name] = _join(constraints[name], constraint) if name in constraints else constraint
    return constraints


def _join(first: str, second: str) -> str:
    """Return both constraints as one: versions with a comma, and the build string of the one that has it.

    Two different build strings, or brackets, can't be joined; then the first constraint stands.
    """
    if first == second or second in ("", "*") or "[" in first + second:
        return first
    if first in ("", "*"):
        return second
    (version, build), (other_version, other_build) = _split(first), _split(second)
    if build and other_build and build != other_build:
        return first
    versions = list(dict.fromkeys(v for v in (version, other_version) if v != "*"))
    if len(versions) > 1:
        # a comma binds closer than a bar
        versions = [f"({v})" if "|" in v else v for v in versions]
    return " ".join(filter(None, (",".join(versions) or "*", build or other_build)))


def _split(constraint: str) -> tuple[str, str]:
    version, _, build = constraint.partition(" ")
    return version, build


def _pip_dependencies(pin: Pin, target: LockedTarget) -> dict[str, str]:
    """Return the requirements that hold for the target without extras: name and specifier."""
    markers = Markers(target.inputs.platform, target.inputs.full_python)
    overrides = Overrides(requirement for requirement, _ in target.inputs.overrides)
    specifiers_by_name: dict[str, set[str]] = {}
    for line in pin.dependencies:
        for text, _ in effective(line, (), markers, overrides):
            requirement = published_requirement(text)
            specifiers = {str(specifier) for specifier in requirement.specifier}
            specifiers_by_name.setdefault(canonical_name(requirement.name), set()).update(specifiers)
    return {name: ",".join(sorted(specifiers)) for name, specifiers in specifiers_by_name.items()}
