"""pyproject.toml: [project] and dependency groups, uv's tables, Poetry's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envspec.base.errors import Place
from envspec.draft import pixi_toml
from envspec.draft.gather import Gathered, all_of, dependency, pep440
from envspec.draft.requirements_txt import RequirementsReader
from envspec.lock.formats.foreign.shape import Malformed, optional, sequence, string, strings, table, tables
from envspec.packages.python_range import specifier_of_alternatives
from envspec.packages.requirement import canonical_name, is_requirement, parse_requirement

_PYTORCH = ("torch", "torchaudio", "torchvision")
_UV_ELSEWHERE = (
    *(
        "package",
        "managed",
        "default-groups",
        "workspace",
        "cache-keys",
        "link-mode",
        "build-backend",
        "dev-dependencies",
    ),
    *("sources", "index", "index-url", "extra-index-url", "find-links", "override-dependencies", "exclude-newer"),
    *("constraint-dependencies", "no-build-isolation-package", "required-version", "pip"),
)
"""Keys of [tool.uv] that are read below, or that say nothing about an environment."""
_UV_INSTEAD = {
    "conflicts": "each target chooses its own extras and groups",
    "dependency-metadata": "[pip] metadata states what a source requires",
    "exclude-newer-package": "[env] exclude-newer-package names packages with the end of their exception",
    "environments": "the targets say the platforms",
    "extra-build-dependencies": "[pip] build-dependencies says what a build needs",
    "required-environments": "the targets say the platforms",
}


_OTHERS = {
    "pdm": ("source", "dev-dependencies", "resolution"),
    "hatch": ("envs",),
    "rye": ("sources", "dev-dependencies"),
}
"""What other tools say of an environment, in tables that aren't read."""


def read(data: Mapping[str, Any], path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read a parsed file. `pip` reads the lists that stand for dynamic dependencies. Raises Malformed."""
    place = Place(str(path))
    tool = table(data.get("tool"), "tool")
    if "project" in data:
        _project(data, path, gathered, pip)
    elif "poetry" not in tool and "pixi" not in tool:
        raise Malformed("it has neither [project] nor the tables of Poetry or pixi")
    if "poetry" in tool:
        _poetry(table(tool["poetry"], "tool.poetry"), gathered, place)
    if "uv" in tool:
        _uv(table(tool["uv"], "tool.uv"), gathered, place)
    for name, keys in _OTHERS.items():
        for key in keys:
            if key in table(tool.get(name), f"tool.{name}"):
                gathered.note(f"tool.{name}.{key} is left out: envspec doesn't read it", place)
    if "pixi" in tool:
        pixi_toml.read("", table(tool["pixi"], "tool.pixi"), path, gathered)


def _project(data: Mapping[str, Any], path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    place = Place(str(path))
    project = table(data["project"], "project")
    gathered.description = gathered.description or optional(project.get("description"), "description")
    gathered.name = gathered.name or optional(project.get("name"), "name")
    gathered.claim("python", optional(project.get("requires-python"), "requires-python") or "", place)
    own_extras = table(project.get("optional-dependencies"), "optional-dependencies")
    extras = {canonical_name(name): strings(requirements, name) for name, requirements in own_extras.items()}
    own_name = canonical_name(optional(project.get("name"), "name") or "")
    _own(strings(project.get("dependencies"), "dependencies"), own_name, extras, gathered, place)
    dynamic = strings(project.get("dynamic"), "dynamic")
    if "dependencies" in dynamic:
        lists = _dynamic_lists(data, path)
        for list_path in lists:
            pip.file(list_path)
        if not (gathered.own or lists):
            raise Malformed("its dependencies are dynamic: only a build tells them; begin with its requirements.txt")
        gathered.note("the dependencies are dynamic, so the spec lists them and doesn't name the project", place)
    elif twice := [name for name, count in Counter(map(canonical_name, own_extras)).items() if count > 1]:
        problem = f"more than one extra is called {', '.join(twice)}, and uv builds no such project"
        gathered.note(f"{problem}, so the spec lists its requirements and doesn't name the project", place)
    else:
        gathered.project = gathered.project or (str(path.parent), ())
    for key, kind in (("optional-dependencies", "extra"), ("dependency-groups", "group")):
        listed = table((project if kind == "extra" else data).get(key), key)
        for name, requirements in listed.items():
            taken = gathered.project[1] if gathered.project else ()
            if kind == "group" or canonical_name(name) not in map(canonical_name, taken):
                lines = [line for line in sequence(requirements, name) if isinstance(line, str)]
                gathered.extra(f"{kind} {name}", lines)
                continue
            _own(strings(requirements, name), own_name, extras, gathered, place)


def _dynamic_lists(data: Mapping[str, Any], path: Path) -> list[Path]:
    """List the files that setuptools reads the dependencies of a project from."""
    section: Any = data
    for key in ("tool", "setuptools", "dynamic", "dependencies"):
        section = table(section.get(key), key)
    files = section.get("file")
    return [path.parent / file for file in ([files] if isinstance(files, str) else strings(files, "file"))]


def _own(
    requirements: Sequence[str], project: str, extras: dict[str, tuple[str, ...]], gathered: Gathered, place: Place
) -> None:
    """Take what the project asks for. Where it names itself, what these extras of its own ask for is meant: no index
    is asked for the project."""
    for line in requirements:
        parsed = parse_requirement(line) if is_requirement(line) else None
        if parsed is None or canonical_name(parsed.name) != project:
            gathered.requirement(line, place, gathered.own)
            continue
        if parsed.marker:
            gathered.note(f"the marker of {line!r} is left out: it names the project itself", place)
        for extra in sorted(map(canonical_name, parsed.extras)):
            if extra not in extras:
                gathered.note(f"{line!r} is left out: the project has no extra {extra}", place)
                continue
            more, extras[extra] = extras[extra], ()  # each is read once, also in a circle
            _own(more, project, extras, gathered, place)


def _uv(uv: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    for key in uv:
        if key not in _UV_ELSEWHERE:
            gathered.note(f"tool.uv.{key} is left out: {_UV_INSTEAD.get(key, 'a spec has no such key')}", place)
    names: dict[str, str | None] = {}
    indexes: dict[str, Mapping[str, Any]] = {}
    for index_table in tables(uv.get("index"), "tool.uv.index"):
        if name := optional(index_table.get("name"), "name"):
            indexes[name] = index_table
        if not name or not index_table.get("explicit"):
            names[name or string(index_table.get("url"), "url")] = _uv_index(index_table, gathered, place)
    for key in ("index-url", "extra-index-url"):
        listed = uv.get(key)
        for url in [listed] if isinstance(listed, str) else strings(listed, key):
            gathered.index(url, place, first=key == "index-url")
    for url in strings(uv.get("find-links"), "find-links"):
        gathered.flat_index(url, place)
    for name, source in table(uv.get("sources"), "tool.uv.sources").items():
        _uv_source(name, source, indexes, names, gathered, place)
    for text in strings(uv.get("constraint-dependencies"), "constraint-dependencies"):
        gathered.constraint(text, place)
    for text in strings(uv.get("override-dependencies"), "override-dependencies"):
        gathered.override(text, place)
    if left := strings(uv.get("dev-dependencies"), "dev-dependencies"):
        gathered.note(f"tool.uv.dev-dependencies are left out: {', '.join(left)}", place)
    gathered.unisolated.update(
        dict.fromkeys(strings(uv.get("no-build-isolation-package"), "no-build-isolation-package"))
    )
    newer = uv.get("exclude-newer")
    gathered.exclude_newer = None if newer is None else str(newer)
    if "pip" in uv:
        gathered.note("tool.uv.pip is left out: it's about `uv pip` alone", place)


def _uv_index(index_table: Mapping[str, Any], gathered: Gathered, place: Place) -> str | None:
    url, name = string(index_table.get("url"), "url"), optional(index_table.get("name"), "name")
    if index_table.get("format") == "flat":
        return gathered.flat_index(url, place, name)
    return gathered.index(url, place, name, first=index_table.get("default") is True)


def _uv_source(
    name: str,
    source: Any,
    indexes: Mapping[str, Mapping[str, Any]],
    names: dict[str, str | None],
    gathered: Gathered,
    place: Place,
) -> None:
    """Take one entry of [tool.uv.sources]. An explicit index counts where a source names it."""
    sources = tables(source, name) if isinstance(source, list) else [table(source, name)]
    for number, source_table in enumerate(sources):
        index = optional(source_table.get("index"), "index")
        if kind := next((key for key in ("extra", "group") if source_table.get(key)), None):
            gathered.note(
                f"{name}: its source is left out, since it holds for the {kind} {source_table[kind]} alone", place
            )
            if index is not None and index in indexes and index not in names:
                _uv_index(indexes[index], gathered, place)
            continue
        if "path" in source_table or source_table.get("workspace"):
            keys = [key for key in gathered.own if key[0] == canonical_name(name)]
            extras = {extra for key in keys for extra in parse_requirement(gathered.own.pop(key)).extras}
            dependency(name, {**source_table, "extras": sorted(extras)}, gathered, place)
            continue
        if index is None:
            _uv_address(name, source_table, gathered, place)
            continue
        if index not in indexes:
            raise Malformed(f"tool.uv.sources.{name} names the index {index!r}, which isn't in tool.uv.index")
        if index not in names:
            names[index] = _uv_index(indexes[index], gathered, place)
        known = names[index]
        if known and (known != "pypi" or name.lower() not in _PYTORCH) and number == 0:
            gathered.sources[name] = known
            if source_table.get("marker"):
                gathered.note(f"{name}: the marker of its index is left out: {source_table['marker']}", place)
    if len(sources) > 1 and "index" in sources[0] and name.lower() not in _PYTORCH:
        gathered.note(f"{name} has {len(sources)} sources: the first is taken", place)


def _uv_address(name: str, source: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    """Take a source that is a repository or a file, for each requirement of the project on the package.

    A marker of the source's own leaves the requirement as it is besides: it counts where the marker doesn't hold.
    """
    requirements = [
        requirement
        for requirement in map(parse_requirement, gathered.own.values())
        if canonical_name(requirement.name) == canonical_name(name)
    ]
    marker = optional(source.get("marker"), "marker")
    requirement_text = dependency(
        name, {key: value for key, value in source.items() if key != "marker"}, gathered, place
    )
    if requirement_text is None:
        return
    address = requirement_text.partition(" @ ")[2]
    if not requirements:
        gathered.note(f"{name}: its source is left out, since only an extra or a group asks for it: {address}", place)
    for requirement in requirements:
        extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        where = all_of(str(requirement.marker or ""), marker)
        if marker is None:
            gathered.own.pop((canonical_name(requirement.name), str(requirement.marker or "")), None)
            if requirement.specifier:
                text = f"{name}: the bound {requirement.specifier} holds only where the spec names the project"
                gathered.note(f"{text}, since it comes from a URL", place)
        gathered.requirement(f"{name}{extras} @ {address}{f' ; {where}' if where else ''}", place)


def _poetry(poetry: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    gathered.description = gathered.description or optional(poetry.get("description"), "description")
    gathered.name = gathered.name or optional(poetry.get("name"), "name")
    names: dict[str, str | None] = {}
    for source in tables(poetry.get("source"), "tool.poetry.source"):
        name = string(source.get("name"), "name")
        url = optional(source.get("url"), "url")
        is_first = source.get("priority") in ("default", "primary") or source.get("default") is True
        names[name] = gathered.index(url, place, name, first=is_first) if url else "pypi"
    for name, value in table(poetry.get("dependencies"), "tool.poetry.dependencies").items():
        if name.lower() == "python":
            text = string(value, name)
            alternatives = [pep440(part.strip()) for part in re.split(r"\|\|?", text)]
            specifier = specifier_of_alternatives(
                [alternative for alternative in alternatives if alternative is not None]
            )
            # a bound without a release says that there is none
            gathered.claim("python", "<0" if specifier is None else specifier, place, text)
            continue
        for constraint in value if isinstance(value, list) else [value]:
            if isinstance(constraint, dict) and constraint.get("optional"):
                gathered.note(f"{name} is left out: it's optional, for an extra", place)
            else:
                _poetry_dependency(name, constraint, names, gathered, place)
    groups = table(poetry.get("group"), "tool.poetry.group")
    for name, group in groups.items():
        listed = table(table(group, name).get("dependencies"), "dependencies")
        gathered.extra(f"group {name}", listed)
        gathered.note(f"the group {name} is left out: {', '.join(listed) or 'it is empty'}", place)
    dev = table(poetry.get("dev-dependencies"), "tool.poetry.dev-dependencies")
    if dev:
        gathered.note(f"the development dependencies are left out: {', '.join(dev)}", place)


def _poetry_dependency(
    name: str, value: Any, names: Mapping[str, str | None], gathered: Gathered, place: Place
) -> None:
    requirement = dependency(name, value, gathered, place)
    if requirement is None:
        return
    gathered.requirement(requirement, place)
    source = optional(value.get("source"), "source") if isinstance(value, dict) else None
    index = names.get(source or "")
    if index and (index != "pypi" or name.lower() not in _PYTORCH):
        gathered.sources[name] = index
