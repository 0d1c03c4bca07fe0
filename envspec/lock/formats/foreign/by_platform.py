"""Files with a solution for each platform, or for one that they don't name: a target each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envspec.base.redact import without_credentials
from envspec.lock.formats.foreign import requirements
from envspec.lock.formats.foreign.shape import (
    Malformed,
    artifact,
    channel_name,
    conda_file,
    file_name,
    index_name,
    lock_of,
    optional,
    sequence,
    string,
    strings,
    subdir,
    table,
    tables,
)
from envspec.lock.formats.foreign.side import LoosePin
from envspec.lock.formats.foreign.universal import DEFAULT_PYTHON, Environment
from envspec.lock.model import GitSource, Lock, Pin
from envspec.packages.names import conda_name
from envspec.packages.requirement import canonical_name

# pixi.lock (versions 4 to 7): a target for each environment and platform.


def read_pixi(data: Mapping[str, Any]) -> Lock:
    """Return the packages of each environment on each platform, without local folders. Raises Malformed."""
    described = {_url(package): package for package in tables(data.get("packages"), "packages")}
    environments = table(data.get("environments"), "environments")
    targets: dict[tuple[str, str], list[Pin]] = {}
    for name, environment in environments.items():
        for platform, listed in table(table(environment, name).get("packages"), "packages").items():
            pins = {}
            for package in tables(listed, platform):
                url = _url(package)
                if "://" in url:
                    pin = _pixi_pin("pip" if "pypi" in package else "conda", url, described.get(url, package))
                    pins[pin.kind, pin.name] = pin
            target = platform if len(environments) == 1 else f"{name}/{platform}"
            targets[target, platform] = list(pins.values())
    return lock_of(targets)


def _url(package: Mapping[str, Any]) -> str:
    """Return a package's URL. Versions 4 and 5 have `kind` and `url`, later ones `conda: URL` or `pypi: URL`."""
    for key in ("conda", "pypi", "url", "path"):
        if key in package:
            return string(package[key], key)
    raise Malformed("a package has neither a conda nor a pypi URL")


def _pixi_pin(kind: str, url: str, package: Mapping[str, Any]) -> Pin:
    hashes = {key: package.get(key) for key in ("sha256", "md5")}
    if kind == "pip":
        name = canonical_name(string(package.get("name"), "name"))
        version = string(package.get("version", "0"), f"the version of {name}")
        edges = strings(package.get("requires_dist"), "requires_dist")
        if url.startswith("git+"):
            base, _, commit = url.removeprefix("git+").partition("#")
            git = GitSource(without_credentials(base.partition("?")[0]), commit)
            return Pin("pip", name, version, "git", None, edges, git=git)
        return Pin("pip", name, version, index_name(url), artifact(url, hashes, package.get("size")), edges)
    try:
        name, version, build = conda_file(file_name(url))
    except ValueError:
        raise Malformed(f"{file_name(url)!r} isn't the name of a conda package's file") from None
    return Pin(
        "conda",
        name.lower(),
        version,
        channel_name(url),
        artifact(url, hashes, package.get("size")),
        strings(package.get("depends"), "depends"),
        licence=optional(package.get("license"), "license"),
        build=build,
    )


# conda-lock.yml (version 1): a target for each platform, conda and pip packages.


def read_conda_lock(data: Mapping[str, Any]) -> Lock:
    """Return the packages of each platform. Raises Malformed."""
    platforms: dict[str, dict[tuple[str, str], Pin]] = {}
    for package in tables(data.get("package"), "package"):
        pin = _conda_lock_pin(package)
        platforms.setdefault(string(package.get("platform"), "platform"), {})[pin.kind, pin.name] = pin
    return lock_of({(platform, platform): pins.values() for platform, pins in platforms.items()})


def _conda_lock_pin(package: Mapping[str, Any]) -> Pin:
    name, version = string(package.get("name"), "name"), string(package.get("version"), "version")
    url = string(package.get("url", ""), "url")
    file = artifact(url, table(package.get("hash"), "hash"))
    requires = {
        key: string(text, "a dependency") for key, text in table(package.get("dependencies"), "dependencies").items()
    }
    if package.get("manager") == "pip":
        edges = tuple(f"{key} {_pep508(text)}".rstrip() for key, text in requires.items())
        return Pin("pip", canonical_name(name), version, index_name(url), file, edges)
    build = optional(package.get("build"), "build")
    if build is None:
        try:
            build = conda_file(file_name(url))[2]
        except ValueError:
            build = None
    edges = tuple(f"{key} {text}".rstrip() for key, text in requires.items())
    return Pin("conda", name.lower(), version, channel_name(url), file, edges, build=build)


def _pep508(text: str) -> str:
    """Return a version specifier in pip's form; conda-lock writes `*` for none."""
    return "" if text.strip() == "*" else text


# Explicit lists (`@EXPLICIT`, CEP 23): the URLs of a platform's conda packages, and conda-lock's `# pip` lines.


_PLATFORM = re.compile(r"^# platform: (\S+)", re.MULTILINE)
_PIP = re.compile(r"# pip (?P<name>[A-Za-z0-9._-]+) @ (?P<url>\S+)")


def read_explicit(text: str) -> Lock:
    """Return the listed packages. The platform is from the list's comment, else from its files. Raises Malformed."""
    pins: list[Pin] = []
    subdirs: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PIP.match(line):
            pins.append(_pip(match["name"], match["url"]))
            continue
        line = line.strip()
        if not line or line.startswith(("#", "@")):
            continue
        url, _, digest = line.partition("#")
        pins.append(_conda(url, digest, number))
        subdirs.add(subdir(url))
    comment = _PLATFORM.search(text)
    platform = comment[1] if comment else next(iter(sorted(subdirs - {"noarch"})), "noarch")
    return lock_of({(platform, platform): pins})


def _conda(url: str, digest: str, number: int) -> Pin:
    file = file_name(url)
    try:
        name, version, build = conda_file(file)
    except ValueError:
        raise Malformed(f"line {number}: {file[:80]!r} isn't a conda package") from None
    hashes = {"sha256": digest.removeprefix("sha256:")} if digest.startswith("sha256:") else {"md5": digest or None}
    return Pin("conda", name.lower(), version, channel_name(url), artifact(url, hashes), build=build)


def _pip(name: str, url: str) -> Pin:
    bare, _, fragment = without_credentials(url).partition("#")
    file = file_name(bare)
    hash_match = re.search(r"sha256=([0-9a-f]{64})", fragment)
    version = re.sub(r"\.(?:tar\.(?:gz|bz2|xz)|zip)$", "", file).rpartition("-")[2]
    if file.endswith(".whl"):
        version = file.partition("-")[2].partition("-")[0]
    return Pin(
        "pip",
        canonical_name(name),
        version or "0",
        index_name(bare),
        artifact(file, {"sha256": hash_match[1] if hash_match else None}),
    )


# environment.yml: a list of requirements. An exported one (`name=version=build`) pins all of them.


_EXPORTED = re.compile(r"=?=([^=,|*<>!~\s]+)(?:=([^=\s]+))?")


def read_environment(data: Mapping[str, Any]) -> tuple[Lock, bool]:
    """Return the requested packages, and whether the file pins everything, builds included. Raises Malformed."""
    pins: list[Pin] = []
    pip: list[str] = []
    for dependency in sequence(data.get("dependencies"), "dependencies"):
        if isinstance(dependency, dict):
            pip += [string(line, "a requirement of pip") for line in sequence(dependency.get("pip"), "pip")]
        else:
            pins.append(_environment_pin(string(dependency, "a dependency")))
    complete = bool(pins) and all(pin.build for pin in pins)
    if pip:
        lock, _ = requirements.read("\n".join(pip), (Environment("", "linux-64", DEFAULT_PYTHON),))
        pins += lock.targets[0].pins
    return lock_of({("", ""): pins}), complete


def _environment_pin(text: str) -> Pin:
    name = conda_name(text)
    constraint = text.rpartition("::")[2].lstrip()[len(name) :].strip()
    exact = _EXPORTED.fullmatch(constraint.replace(" ", ""))
    if exact and (exact[2] or constraint.startswith("==")):
        return Pin("conda", name, exact[1], "", None, build=exact[2])
    return LoosePin("conda", name, "", "", None, specifier=" ".join(constraint.split()) or "*")
