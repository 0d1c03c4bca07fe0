"""A resolution by uv: one `uv pip compile`, with a project, a configuration and preferences written for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.facts.cuda_stack import NOT_FOR_METADATA
from envspec.lock.toml_text import lines
from envspec.net.fetch import give_up_seconds
from envspec.net.index_proxy.server import IndexProxy
from envspec.packages.edges import Markers
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.resolve.pip.direct import DirectFiles, with_hash
from envspec.resolve.pip.edges import requirement_of
from envspec.resolve.pip.pins import complete_metadata
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.uv.answer import Found, last_error, read_pylock
from envspec.resolve.uv.conflict import PROJECT
from envspec.resolve.uv.errors import failure, offline_failure
from envspec.resolve.uv.program import Uv

_FOR_EVER = 365000000
"""Seconds."""
_BUILD_SECONDS = 1200
"""Seconds that uv waits for the METADATA of a source that must be built for it."""


class UvIndex(Struct, frozen=True):
    """An index for uv. `packages` are those of a named index: an `explicit` one serves only those that name it."""

    name: str
    url: str
    explicit: bool = False
    default: bool = False
    cacheable: bool = True
    packages: frozenset[str] = frozenset()


class UvCompile(Struct, frozen=True):
    """One run of uv for a request.

    indexes          in uv's order
    folder           empty: for uv's input
    label            the targets' names, for messages
    proxy            the index proxy: the only network that uv has
    preferences      the versions to prefer
    direct           the files that are named by their URL
    torch_backend    ("cu126") lets uv take the torch family from the live PyTorch index it knows, with its own network
    no_pre_releases  packages that may have none
    """

    uv: Uv
    request: Request
    indexes: Sequence[UvIndex]
    folder: Path
    label: str
    proxy: IndexProxy
    preferences: Preferences = field(default_factory=Preferences)
    direct: DirectFiles = field(default_factory=dict)
    torch_backend: str | None = None
    no_pre_releases: Sequence[str] = ()


def compile_request(run: UvCompile) -> tuple[Found, ...]:
    """Solve a request with uv. Raises Unsatisfiable, IndexFailure or ToolError."""
    uv, request, folder = run.uv, run.request, run.folder
    indexes = [replace(index, url=run.proxy.with_login(index.url)) for index in run.indexes]
    direct, torch_backend, label = run.direct, run.torch_backend, run.label
    answer = folder / "pylock.answer.toml"
    project = _project(request, indexes, direct, for_ever=uv.offline)
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    settings = uv.settings if torch_backend else uv.settings_cut_off(run.proxy.host)
    # a rule of the configuration's own would outweigh --refresh
    age = _FOR_EVER if uv.offline else None if uv.fresh else 600
    configuration = _configuration(settings, request, indexes, direct, age)
    (folder / "uv.toml").write_text(configuration, encoding="utf-8")
    if run.preferences.versions or run.preferences.commits:
        answer.write_text(_preferences(run.preferences, request, run.indexes), encoding="utf-8")
    command = [
        "pip", "compile", "pyproject.toml", "--config-file", "uv.toml",
        "--python", sys.executable, "--python-version", request.full_python, "--python-platform", request.uv_platform,
        "--format", "pylock.toml", "--output-file", answer.name, "--no-header", "--quiet",
        # sources of indexes are shown as wheels; git and direct URLs remain, which uv builds where it may
        "--only-binary", ":all:", *(f"--no-binary={name}" for name in sources_for_uv(request)),
        *(f"--prerelease-package={name}=disallow" for name in run.no_pre_releases),
    ]  # fmt: skip
    if sources_for_uv(request):
        (folder / "build.txt").write_text("".join(f"{name}<0\n" for name in NOT_FOR_METADATA), encoding="utf-8")
        command += ["--build-constraints", "build.txt"]
    if request.constraints:
        (folder / "constraints.txt").write_text("\n".join(request.constraints) + "\n", encoding="utf-8")
        command += ["--constraints", "constraints.txt"]
    if overrides := _overrides(request, direct):
        (folder / "overrides.txt").write_text("\n".join(overrides) + "\n", encoding="utf-8")
        command += ["--overrides", "overrides.txt"]
    if torch_backend:
        command += ["--torch-backend", torch_backend]
    if not uv.offline:
        # a team's own index has what was published a moment ago; uv sends the ETags of the pages that it has
        own = sorted({package for index in indexes for package in index.packages})
        command += ["--refresh"] if uv.fresh else [f"--refresh-package={name}" for name in own]
    # the proxy waits, tries again and gives up by the user's limits, and builds what may be built before it answers
    patience = give_up_seconds(uv.env, uv.longest) + (_BUILD_SECONDS if request.allow_source else 0)
    # a log would quote what packages say beside uv's own errors
    more = {"UV_HTTP_TIMEOUT": f"{patience:.0f}", "RUST_LOG": ""}
    if uv.offline and torch_backend:
        command.append("--offline")
    elif uv.offline:
        more |= uv.cut_off(run.proxy.host)
    result = uv.run(command, cwd=folder, more=more)
    if result.returncode:
        message = last_error(result.stderr)
        default = next((index.url for index in run.indexes if index.default), None)
        error = failure(result.returncode, message, label=label, offline=uv.offline, index=default)
        raise offline_failure(error, label) if uv.offline else error
    return read_pylock(answer.read_text(encoding="utf-8"))


def sources_for_uv(request: Request) -> list[str]:
    """List the sources that may be built and come from no index: the spec names their address for this target. An
    address that it names for another target doesn't count: a package could name any address, and its code would run
    before envspec refuses it."""
    markers = Markers(request.platform, request.full_python)
    own = {requirement_name(text) for text in request.addressed if "@" in text and markers.hold(text)}
    return [name for name in request.allow_source if name in own]


def _overrides(request: Request, direct: DirectFiles) -> list[str]:
    """List the spec's overrides, and the files by URL that a package from git may require too: uv reads its METADATA
    itself, where no URL has a hash, and would fetch them for one. What this overrides is judged with the lock."""
    own = [with_hash(text, direct) for text in request.overrides]
    if not any("git+" in text for text in request.addressed):
        return own
    overridden = set(map(requirement_name, request.overrides))
    files = [text for text in request.requirements if requirement_name(text) not in overridden]
    return [*own, *(with_hash(text, direct) for text in files if with_hash(text, direct) != text)]


def _cache_control(pages: int) -> dict[str, str]:
    """Give PyPI's own rules for a cache, for mirrors that don't pass them on: files never change. `pages` is the age up
    to which those count as fresh, in seconds."""
    return {"api": f"max-age={pages}", "files": f"max-age={_FOR_EVER}, immutable"}


def _project(request: Request, indexes: Sequence[UvIndex], direct: DirectFiles, *, for_ever: bool) -> str:
    python = f">={request.full_python}"
    dependencies = [with_hash(requirement, direct) for requirement in request.requirements]
    project = {"name": PROJECT, "version": "0", "requires-python": python, "dependencies": dependencies}
    sources = sorted((package, index.name) for index in indexes if index.explicit for package in index.packages)
    explicit = [
        {"name": index.name, "url": index.url, "explicit": True}
        | ({"cache-control": _cache_control(_FOR_EVER)} if for_ever and index.cacheable else {})
        for index in indexes
        if index.explicit
    ]
    uv = {"sources": {package: {"index": index} for package, index in sources}, "index": explicit}
    return lines({"project": project, "tool": {"uv": uv}})


def _configuration(
    settings: Mapping[str, Any],
    request: Request,
    indexes: Sequence[UvIndex],
    direct: DirectFiles,
    age: int | None,
) -> str:
    """Write uv's configuration. A cached page counts as fresh for `age` seconds, or for as long as it says."""
    bounds = {name: moment or False for name, moment in request.exempt}
    implicit = [
        {"name": index.name, "url": index.url}
        | ({"default": True} if index.default else {})
        | ({"cache-control": _cache_control(age)} if index.cacheable and age is not None else {})
        for index in indexes
        if not index.explicit
    ]
    return lines(
        {
            **settings,
            **({"exclude-newer": request.exclude_newer} if request.exclude_newer else {}),
            **({"exclude-newer-package": bounds} if bounds else {}),
            "index": implicit,
            "dependency-metadata": [*_metadata(request, direct)],
        }
    )


def _metadata(request: Request, direct: DirectFiles) -> Iterator[dict[str, Any]]:
    """Yield the METADATA of files by URL for uv, which then asks for none of them; and what the spec states of packages
    from git, which uv would build: it takes this word for wheels too, so that of an index's package stays with the
    index proxy."""
    addresses = {
        requirement_name(text)
        for text in (*request.addressed, *(line for entry in request.metadata for line in entry.dependencies))
        if " @ " in text
    }
    for row in request.metadata:
        if row.name in addresses and row.name not in direct and row.exact:
            requires: Sequence[str] = row.dependencies
            yield {"name": row.name, "version": row.exact, "requires-dist": requires, "provides-extra": row.extras}
    for name, file in sorted(direct.items()):
        metadata, _ = complete_metadata((file.metadata, None), request)
        requires = [with_hash(str(requirement_of(line)), direct) for line in metadata.requires_dist]
        python = {"requires-python": metadata.requires_python} if metadata.requires_python else {}
        extras = list(metadata.provides_extra)
        yield {"name": name, "version": metadata.version, "requires-dist": requires, "provides-extra": extras, **python}


def _preferences(preferences: Preferences, request: Request, indexes: Sequence[UvIndex]) -> str:
    """Write versions and commits as a pylock, which uv reads from its output file and keeps if it can: of a package
    that names its index, what that index stands beside."""
    explicit = {name: {"index": index.url} for index in indexes if index.explicit for name in index.packages}
    packages: list[dict[str, Any]] = [
        {"name": name, "version": version, **explicit.get(name, {})}
        for name, version in sorted(preferences.versions.items())
    ]
    for text, commit in sorted(preferences.commits.items()):
        if text in request.addressed:
            url, revision = _git_address(text)
            requested = {"requested-revision": revision} if revision else {}
            vcs = {"type": "git", "url": url, **requested, "commit-id": commit}
            packages.append({"name": requirement_name(text), "vcs": vcs})
    return lines({"lock-version": "1.0", "created-by": "envspec", "packages": packages})


def _git_address(requirement: str) -> tuple[str, str]:
    """Split a git requirement into repository and revision (empty if it names none)."""
    parts = urlsplit(str(parse_requirement(requirement).url).removeprefix("git+"))
    path, _, revision = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), revision
