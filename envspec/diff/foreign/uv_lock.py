"""uv.lock (version 1): universal, with the edges and their markers; the project's own packages are its roots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from envspec.diff.foreign.names import index_name
from envspec.diff.foreign.shape import artifact, digest, file_name, optional, sequence, string, strings, table, tables
from envspec.diff.foreign.universal import Entry, Universal
from envspec.lock.inputs import canonical_name, without_credentials
from envspec.lock.model import Artifact, GitSource

KNOWS = frozenset({"direct", "edges", "index", "files"})

_LOCAL = ("virtual", "editable", "directory", "path")


def read(data: Mapping[str, Any]) -> Universal:
    """The document's packages. Raises Malformed."""
    packages = tables(data.get("package"), "package")
    roots: dict[str, None] = {}
    for package in packages:
        if _is_local(package):
            roots.update(dict.fromkeys(_requirements(package, every_extra=True)))
    direct = {canonical_name(re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0]) for text in roots}
    return Universal(
        tuple(_entry(package, direct) for package in packages if not _is_local(package)),
        roots=tuple(roots),
        prune=True,
        python=optional(data.get("requires-python"), "requires-python"),
    )


def _is_local(package: Mapping[str, Any]) -> bool:
    return any(key in table(package.get("source"), "source") for key in _LOCAL)


def _entry(package: Mapping[str, Any], direct: set[str]) -> Entry:
    name = canonical_name(string(package.get("name"), "name"))
    source = table(package.get("source"), f"the source of {name}")
    git = _git(string(source["git"], "git")) if "git" in source else None
    url = without_credentials(string(source["url"], "url")) if "url" in source else None
    index = "git" if git else "url" if url else index_name(optional(source.get("registry"), "registry"))
    return Entry(
        name,
        string(package.get("version", "0"), f"the version of {name}"),
        index,
        () if git else tuple(_files(package)),
        tuple(_requirements(package, every_extra=False)),
        strings(package.get("resolution-markers"), "resolution-markers"),
        name in direct,
        git,
        url,
    )


def _files(package: Mapping[str, Any]) -> Iterator[Artifact]:
    listed = [
        *tables(package.get("wheels"), "wheels"),
        *([table(package["sdist"], "sdist")] if "sdist" in package else []),
    ]
    for one in listed:
        where = next((one[key] for key in ("url", "path", "filename") if key in one), "")
        yield artifact(file_name(string(where, "url")), digest(optional(one.get("hash"), "hash")), one.get("size"))


def _git(text: str) -> GitSource:
    """`https://host/repo.git?subdirectory=x&rev=v1#commit`."""
    url, _, commit = text.partition("#")
    base, _, query = url.partition("?")
    found = re.search(r"(?:^|&)subdirectory=([^&]+)", query)
    return GitSource(without_credentials(base), commit, found[1] if found else None)


def _requirements(package: Mapping[str, Any], *, every_extra: bool) -> Iterator[str]:
    """The package's edges as PEP 508 lines. With `every_extra`, those of its extras and groups as if asked for."""
    for one in tables(package.get("dependencies"), "dependencies"):
        yield _requirement(one)
    for extra, listed in table(package.get("optional-dependencies"), "optional-dependencies").items():
        for one in tables(sequence(listed, extra), extra):
            yield _requirement(one) if every_extra else _requirement(one, extra)
    if every_extra:
        for group, listed in table(package.get("dev-dependencies"), "dev-dependencies").items():
            for one in tables(sequence(listed, group), group):
                yield _requirement(one)


def _requirement(one: Mapping[str, Any], extra: str | None = None) -> str:
    name = string(one.get("name"), "a dependency's name")
    extras = strings(one.get("extra"), "extra")
    markers = [f"({string(one['marker'], 'marker')})"] if "marker" in one else []
    markers += [f"extra == '{extra}'"] if extra else []
    text = f"{name}[{','.join(extras)}]" if extras else name
    return f"{text}; {' and '.join(markers)}" if markers else text
