"""pixi.lock (versions 4 to 7): a target for each environment and platform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envspec.base.redact import without_credentials
from envspec.lock.model import GitSource, Lock, Pin
from envspec.packages.requirement import canonical_name
from envspec.review.diff.foreign.shape import (
    Malformed,
    artifact,
    channel_name,
    conda_file,
    file_name,
    index_name,
    lock_of,
    optional,
    string,
    strings,
    table,
    tables,
)

KNOWS = frozenset({"edges", "index", "files", "licence"})


def read(data: Mapping[str, Any]) -> Lock:
    """Return what is installed in each environment on each platform, without local folders. Raises Malformed."""
    described = {_url(one): one for one in tables(data.get("packages"), "packages")}
    environments = table(data.get("environments"), "environments")
    targets: dict[tuple[str, str], list[Pin]] = {}
    for name, environment in environments.items():
        for platform, listed in table(table(environment, name).get("packages"), "packages").items():
            pins = {}
            for one in tables(listed, platform):
                url = _url(one)
                if "://" in url:
                    pin = _pin("pip" if "pypi" in one else "conda", url, described.get(url, one))
                    pins[pin.kind, pin.name] = pin
            target = platform if len(environments) == 1 else f"{name}/{platform}"
            targets[target, platform] = list(pins.values())
    return lock_of(targets)


def _url(one: Mapping[str, Any]) -> str:
    """Return a package's URL. Versions 4 and 5 have `kind` and `url`, later ones `conda: URL` or `pypi: URL`."""
    for key in ("conda", "pypi", "url", "path"):
        if key in one:
            return string(one[key], key)
    raise Malformed("a package has neither a conda nor a pypi URL")


def _pin(kind: str, url: str, one: Mapping[str, Any]) -> Pin:
    hashes = {key: one.get(key) for key in ("sha256", "md5")}
    if kind == "pip":
        name = canonical_name(string(one.get("name"), "name"))
        version = string(one.get("version", "0"), f"the version of {name}")
        edges = strings(one.get("requires_dist"), "requires_dist")
        if url.startswith("git+"):
            base, _, commit = url.removeprefix("git+").partition("#")
            git = GitSource(without_credentials(base.partition("?")[0]), commit)
            return Pin("pip", name, version, "git", None, edges, git=git)
        return Pin("pip", name, version, index_name(url), artifact(url, hashes, one.get("size")), edges)
    try:
        name, version, build = conda_file(file_name(url))
    except ValueError:
        raise Malformed(f"{file_name(url)!r} isn't the name of a conda package's file") from None
    return Pin(
        "conda",
        name.lower(),
        version,
        channel_name(url),
        artifact(url, hashes, one.get("size")),
        strings(one.get("depends"), "depends"),
        licence=optional(one.get("license"), "license"),
        build=build,
    )
