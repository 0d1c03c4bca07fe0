"""A running environment, a venv's or conda's prefix, by its installers' records: none of its code is run.

Asked for are the match specs in conda-meta's history; and of pip what nothing else there requires, or what an installer
marked as asked for (REQUESTED), by the version that is installed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from msgspec import Struct

from envspec.base.documents import Unreadable, read_json
from envspec.base.errors import InputError, NotPlain, Place
from envspec.base.plain_files import read_plain
from envspec.draft.claims import settle
from envspec.draft.environment_yml import match_spec
from envspec.draft.gather import Gathered
from envspec.draft.model import Draft
from envspec.lock.formats.foreign.shape import Malformed, channel_name, optional, string, strings, table
from envspec.packages.conda import version_and_build
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.requirement import canonical_name, is_requirement

_HELPERS = ("pip", "setuptools", "wheel")
"""What environments have in any case."""
_HISTORY = re.compile(r"^# (update|remove) specs: (\[.*\])$", re.MULTILINE)
_LABEL = re.compile(r"\+(?:cpu|cu[0-9]+)$")
_MOST = 4 * 2**20
"""Bytes of a record that is read."""


class _Dist(Struct, frozen=True):
    """A pip package of the environment. `source` is its direct_url.json."""

    name: str
    version: str
    requires: frozenset[str]
    requested: bool
    installer: str
    source: dict[str, Any] | None

    @property
    def is_local(self) -> bool:
        source = self.source or {}
        return "dir_info" in source or str(source.get("url")).startswith("file:")


def read_prefix(prefix: Path) -> Draft:
    """Read what an environment was made for. Raises InputError for a folder that is none."""
    gathered, place = Gathered(), Place(str(prefix))
    conda = prefix / "conda-meta"
    folders = sorted({*prefix.glob("lib/python3.*/site-packages"), *prefix.glob("Lib/site-packages")})
    if not folders and not conda.is_dir():
        hint = "name a virtual environment's folder, or a conda prefix"
        raise InputError("this is no environment", hint=hint, place=place)
    by_conda = _conda(conda, gathered) if conda.is_dir() else frozenset()
    _python(prefix, folders, gathered)
    if len(folders) > 1:
        gathered.note(f"{len(folders)} Pythons: {folders[-1].parent.name} is read", place)
    dists = [dist for dist in _dists(folders[-1:], gathered) if dist.installer != "conda" and dist.name not in by_conda]
    roots = _roots(dists)
    for dist in sorted(roots, key=lambda dist: dist.name):
        if dist.source is None:
            gathered.requirement(f"{dist.name}=={dist.version}", place)
        else:
            try:
                _source(dist, gathered, place)
            except Malformed as error:
                gathered.note(f"{dist.name} is left out: {error} in its direct_url.json", place)
    for dist in dists:
        if dist.name == "torch" and (label := _LABEL.search(dist.version)):
            gathered.build_of(label[0][1:], place)
    return gathered.draft()


def _python(prefix: Path, folders: Iterable[Path], gathered: Gathered) -> None:
    config = _text(prefix / "pyvenv.cfg") or ""
    match = re.search(r"^version(?:_info)?\s*=\s*(3\.[0-9]+)", config, re.MULTILINE)
    named = [folder.parent.name.removeprefix("python") for folder in folders if folder.parent.name.startswith("python")]
    if match or named:
        gathered.claim("python-version", match[1] if match else named[-1], Place(str(prefix)))


def _roots(dists: Iterable[_Dist]) -> list[_Dist]:
    """List what nothing else requires, and what was asked for by name where installers say so."""
    dists = [dist for dist in dists if dist.name not in _HELPERS]
    # what a folder of this machine needs is asked for in its place: no spec can name it
    required = {name for dist in dists for name in dist.requires if name != dist.name and not dist.is_local}
    # whoever installs a whole lock asks for everything by name: such marks say nothing
    marked = not all(dist.requested for dist in dists)
    return [dist for dist in dists if dist.name not in required or (marked and dist.requested)]


def _dists(folders: Iterable[Path], gathered: Gathered) -> Iterator[_Dist]:
    seen: set[str] = set()
    for dist in distributions(path=[str(folder) for folder in folders]):
        try:
            read_dist = _dist(dist)
        except (Unreadable, Malformed, UnicodeDecodeError, OSError) as error:
            gathered.note(f"a package's records can't be read: {error}")
            continue
        if read_dist.name not in seen:
            seen.add(read_dist.name)
            yield read_dist


def _dist(dist: Distribution) -> _Dist:
    text = dist.read_text("direct_url.json")
    return _Dist(
        canonical_name(string(dist.metadata["Name"], "its name")),
        string(dist.metadata["Version"], "its version"),
        _requires(dist),
        dist.read_text("REQUESTED") is not None,
        (dist.read_text("INSTALLER") or "").strip(),
        dict(table(read_json(text), "direct_url.json")) if text else None,
    )


def _requires(dist: Distribution) -> frozenset[str]:
    """List what a package requires without any extra."""
    return frozenset(
        requirement_name(text) for text in dist.requires or () if is_requirement(text) and "extra ==" not in text
    )


def _source(dist: _Dist, gathered: Gathered, place: Place) -> None:
    """Take a package that came from a URL, git or a folder."""
    source = dist.source or {}
    url = string(source.get("url"), "url")
    vcs, folder = table(source.get("vcs_info"), "vcs_info"), optional(source.get("subdirectory"), "subdirectory")
    if dist.is_local:
        kind = "editable" if table(source.get("dir_info"), "dir_info").get("editable") else "from a folder or a file"
        gathered.note(f"{dist.name} {dist.version} is left out: it is installed {kind} of this machine", place)
    elif vcs and vcs.get("vcs") != "git":
        gathered.note(f"{dist.name} {dist.version} is left out: its version control is no git", place)
    else:
        at = f"git+{url}@{string(vcs.get('commit_id'), 'commit_id')}" if vcs else url
        gathered.requirement(f"{dist.name} @ {at}{f'#subdirectory={folder}' if folder else ''}", place)


def _conda(folder: Path, gathered: Gathered) -> frozenset[str]:
    """Take what was asked of conda; gives the names of the packages that conda installed."""
    place = Place(str(folder / "history"))
    requested: dict[str, str] = {}
    for kind, listed in _HISTORY.findall(_text(folder / "history") or ""):
        for text in _parse_list(listed):
            name = conda_name(text)
            requested.pop(name, None)
            if kind == "update":
                channel, separator, _ = text.rpartition("::")
                # without a bracket's other keys: a spec's match specs have a version and a build
                bracket = f"{channel}{separator}{name} {version_and_build(text)[0]}".strip()
                requested[name] = bracket if "[" in text else text
    names: set[str] = set()
    needed: set[str] = set()
    versions: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            record = table(read_json(_text(path) or ""), path.name)
            name, version = string(record.get("name"), "name"), string(record.get("version"), "version")
            needed |= {text.split()[0] for text in strings(record.get("depends"), "depends") if text.split()}
            url = optional(record.get("url"), "url")
        except (Unreadable, Malformed) as error:
            gathered.note(f"{path.name} isn't read: {error}", place)
            continue
        names.add(name)
        versions[name] = version
        if url:
            gathered.channels[channel_name(url).partition("/")[0]] = None
    for text in requested.values() or [f"{name} =={versions[name]}" for name in sorted(names - needed)]:
        match_spec(text, gathered, place)
    if "python" in versions:
        gathered.claim("python-version", ".".join(versions["python"].split(".")[:2]), place)
    if "cuda-version" in versions and not settle(tuple(gathered.claims)).cuda:
        gathered.cuda_version(versions["cuda-version"], place)
    return frozenset(names)


def _parse_list(text: str) -> list[str]:
    """Read a list of conda's history, which is Python's."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return []
    return [element for element in value if isinstance(element, str)] if isinstance(value, list) else []


def _text(path: Path) -> str | None:
    try:
        return read_plain(path, _MOST, links_out=True).decode(errors="replace")
    except (OSError, NotPlain):
        return None
