"""A resolution by uv: one `uv pip compile`, with a project, a configuration and preferences written for it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from envspec.lock.toml_text import string, value
from envspec.net.fetch import give_up_seconds
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement
from envspec.resolve.pip.direct import DirectFiles, with_hash
from envspec.resolve.pip.edges import requirement_of
from envspec.resolve.pip.pins import complete_metadata
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.uv.answer import Found, read_pylock
from envspec.resolve.uv.errors import PROJECT, failure, offline_failure
from envspec.resolve.uv.program import Uv

_BUILD_SECONDS = 1200
"""Seconds that uv waits for the METADATA of a source that must be built for it."""


@dataclass(frozen=True)
class UvIndex:
    """An index for uv. `explicit` ones serve only the packages that name them, which are `packages`."""

    name: str
    url: str
    explicit: bool = False
    default: bool = False
    cacheable: bool = True
    packages: frozenset[str] = frozenset()


@dataclass(frozen=True)
class UvCompile:
    """One run of uv for a request.

    indexes          in uv's order
    folder           empty: for uv's input
    label            the targets' names, for messages
    proxy_host       of the index proxy: the only network that uv has
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
    proxy_host: str
    preferences: Preferences = field(default_factory=Preferences)
    direct: DirectFiles = field(default_factory=dict)
    torch_backend: str | None = None
    no_pre_releases: Sequence[str] = ()


def compile_request(asked: UvCompile) -> tuple[Found, ...]:
    """Solve a request with uv. Raises Unsatisfiable, IndexFailure or ToolError."""
    uv, request, folder = asked.uv, asked.request, asked.folder
    indexes, direct, torch_backend, label = asked.indexes, asked.direct, asked.torch_backend, asked.label
    answer = folder / "pylock.answer.toml"
    project = _project(request, indexes, direct, for_ever=uv.offline)
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    settings = uv.settings if torch_backend else uv.settings_cut_off(asked.proxy_host)
    # a rule of the configuration's own would outweigh --refresh
    age = 365000000 if uv.offline else None if uv.fresh else 600
    configuration = _configuration(settings, request, indexes, direct, age)
    (folder / "uv.toml").write_text(configuration, encoding="utf-8")
    if asked.preferences.versions or asked.preferences.commits:
        answer.write_text(_preferences(asked.preferences, request), encoding="utf-8")
    command = [
        "pip", "compile", "pyproject.toml", "--config-file", "uv.toml",
        "--python", sys.executable, "--python-version", request.full_python, "--python-platform", request.uv_platform,
        "--format", "pylock.toml", "--output-file", answer.name, "--no-header", "--quiet",
        # sources of indexes are shown as wheels; git and direct URLs remain, which uv builds where it may
        "--only-binary", ":all:", *(f"--no-binary={name}" for name in _sources_for_uv(request)),
        *(f"--prerelease-package={name}=disallow" for name in asked.no_pre_releases),
    ]  # fmt: skip
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
        own = sorted({package for index in indexes if index.explicit for package in index.packages})
        command += ["--refresh"] if uv.fresh else [f"--refresh-package={name}" for name in own]
    # the proxy waits, tries again and gives up by the user's limits, and builds what may be built before it answers
    patience = give_up_seconds(uv.env, uv.longest) + (_BUILD_SECONDS if request.allow_source else 0)
    more = {"UV_HTTP_TIMEOUT": f"{patience:.0f}"}
    if uv.offline and torch_backend:
        command.append("--offline")
    elif uv.offline:
        more |= uv.cut_off(asked.proxy_host)
    result = uv.run(command, cwd=folder, more=more)
    if result.returncode:
        default = next((index.url for index in indexes if index.default), None)
        error = failure(result.returncode, result.stderr, label=label, offline=uv.offline, index=default)
        raise offline_failure(error, label) if uv.offline else error
    return read_pylock(answer.read_text(encoding="utf-8"))


def _sources_for_uv(request: Request) -> list[str]:
    """List the sources that may be built and aren't of an index."""
    own = {requirement_name(text) for text in request.addressed if "@" in text}
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


def _project(request: Request, indexes: Sequence[UvIndex], direct: DirectFiles, *, for_ever: bool) -> str:
    lines = ["[project]", f'name = "{PROJECT}"', 'version = "0"', f'requires-python = ">={request.full_python}"']
    asked = (with_hash(requirement, direct) for requirement in request.requirements)
    lines += ["dependencies = [", *(f"  {string(requirement)}," for requirement in asked), "]"]
    sources = sorted((package, index.name) for index in indexes for package in index.packages)
    if sources:
        lines.append("[tool.uv.sources]")
        lines += [f"{string(package)} = {{ index = {string(index)} }}" for package, index in sources]
    for index in indexes:
        if index.explicit:
            lines += [
                "[[tool.uv.index]]",
                f"name = {string(index.name)}",
                f"url = {string(index.url)}",
                "explicit = true",
            ]
            if for_ever and index.cacheable:
                lines.append('cache-control = { api = "max-age=365000000", files = "max-age=365000000, immutable" }')
    return "\n".join(lines) + "\n"


def _configuration(
    settings: Mapping[str, Any],
    request: Request,
    indexes: Sequence[UvIndex],
    direct: DirectFiles,
    age: int | None,
) -> str:
    """Write uv's configuration. A cached page counts as fresh for `age` seconds, or for as long as it says."""
    lines = [f"{key} = {value(item)}" for key, item in settings.items()]
    if request.exclude_newer:
        lines.append(f"exclude-newer = {string(request.exclude_newer)}")
    if request.exempt:
        bounds = {name: moment or False for name, moment in request.exempt}
        lines.append(f"exclude-newer-package = {value(bounds)}")
    for index in indexes:
        if index.explicit:
            continue
        lines += ["[[index]]", f"name = {string(index.name)}", f"url = {string(index.url)}"]
        if index.default:
            lines.append("default = true")
        if index.cacheable and age is not None:
            # PyPI's own rules (pages live ten minutes, files never change), for mirrors that don't pass them on
            lines.append(f'cache-control = {{ api = "max-age={age}", files = "max-age=365000000, immutable" }}')
    lines += _metadata_lines(request, direct)
    return "\n".join(lines) + "\n"


def _metadata_lines(request: Request, direct: DirectFiles) -> list[str]:
    """Write the METADATA of files by URL for uv, which then asks for none of them; and what the spec states of packages
    from git, which uv would build: it takes this word for wheels too, so that of an index's package stays with the
    index proxy."""
    addresses = {
        requirement_name(text)
        for text in (*request.addressed, *(line for one in request.metadata for line in one.dependencies))
        if " @ " in text
    }
    lines = [
        line
        for one in request.metadata
        if one.name in addresses and one.name not in direct and one.exact
        for line in (
            "[[dependency-metadata]]",
            f"name = {string(one.name)}",
            f"version = {string(one.exact)}",
            f"requires-dist = {value(one.dependencies)}",
            f"provides-extra = {value(one.extras)}",
        )
    ]
    for name, one in sorted(direct.items()):
        metadata, _ = complete_metadata((one.metadata, None), request)
        requires = [with_hash(str(requirement_of(line)), direct) for line in metadata.requires_dist]
        lines += [
            "[[dependency-metadata]]",
            f"name = {string(name)}",
            f"version = {string(metadata.version)}",
            f"requires-dist = {value(requires)}",
            f"provides-extra = {value(list(metadata.provides_extra))}",
        ]
        if metadata.requires_python:
            lines.append(f"requires-python = {string(metadata.requires_python)}")
    return lines


def _preferences(preferences: Preferences, request: Request) -> str:
    """Write versions and commits as a pylock, which uv reads from its output file and keeps if it can."""
    lines = ['lock-version = "1.0"', 'created-by = "envspec"']
    for name, version in sorted(preferences.versions.items()):
        lines += ["[[packages]]", f"name = {string(name)}", f"version = {string(version)}"]
    for text, commit in sorted(preferences.commits.items()):
        if text in request.addressed:
            url, revision = _git_address(text)
            asked = f", requested-revision = {string(revision)}" if revision else ""
            vcs = f'{{ type = "git", url = {string(url)}{asked}, commit-id = {string(commit)} }}'
            lines += ["[[packages]]", f"name = {string(requirement_name(text))}", f"vcs = {vcs}"]
    return "\n".join(lines) + "\n"


def _git_address(requirement: str) -> tuple[str, str]:
    """Split a git requirement into repository and revision (empty if it names none)."""
    parts = urlsplit(str(parse_requirement(requirement).url).removeprefix("git+"))
    path, _, revision = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), revision
