"""pyproject.toml: [project] and dependency groups, uv's tables, Poetry's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from envspec.base.errors import EnvspecError, Place
from envspec.draft import pixi_toml
from envspec.draft.environment_yml import match_spec
from envspec.draft.gather import Gathered, all_of, dependency, has_project, pep440
from envspec.draft.lines import at
from envspec.draft.requirements_txt import RequirementsReader
from envspec.lock.formats.foreign.shape import (
    Malformed,
    optional,
    sequence,
    string,
    strings,
    table,
    tables,
    text_of,
    toml_of,
)
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
    "pdm": ("dev-dependencies", "resolution"),
    "hatch": ("envs",),
    "rye": ("sources", "dev-dependencies"),
}
"""What other tools say of an environment, in tables that aren't read."""


def read(data: Mapping[str, Any], path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read a parsed file. `pip` reads the lists that stand for dynamic dependencies. Raises Malformed."""
    place = Place(str(path))
    tool = table(data.get("tool"), "tool")
    uv = table(tool.get("uv"), "tool.uv")
    members = _members(table(uv.get("workspace"), "tool.uv.workspace"), path.parent)
    gathered.members = gathered.members or members
    if "project" in data:
        _project(data, path, gathered, pip)
    elif not {"poetry", "pixi", "conda-lock"} & tool.keys():
        if not (members or "dependency-groups" in data):
            raise Malformed("it has neither [project] nor the tables of Poetry or pixi")
        # a root that is no project itself: `uv sync --all-packages` installs its members
        _groups(data, gathered, place)
        for name, folder in members.items():
            gathered.folder(name, folder, (), place)
    if "poetry" in tool:
        _poetry(table(tool["poetry"], "tool.poetry"), gathered, place)
    if "uv" in tool:
        _uv(uv, members, gathered, place)
    for source in tables(table(tool.get("pdm"), "tool.pdm").get("source"), "tool.pdm.source"):
        index_name = optional(source.get("name"), "name")
        gathered.index(string(source.get("url"), "url"), place, index_name, first=index_name == "pypi")
    if "conda-lock" in tool:
        _conda_lock(table(tool["conda-lock"], "tool.conda-lock"), gathered, place)
    for name, keys in _OTHERS.items():
        for key in keys:
            if key in table(tool.get(name), f"tool.{name}"):
                gathered.note(f"tool.{name}.{key} is left out: envspec doesn't read it", place)
    if "pixi" in tool:
        pixi_toml.read("", table(tool["pixi"], "tool.pixi"), path, gathered)


def _conda_lock(conda_lock: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    """Take what conda-lock's own table asks for. Its versions are Poetry's, where they are bare conda's."""
    pixi_toml.channels(conda_lock, gathered, place)
    gathered.platforms.update(
        dict.fromkeys(platform.subdir for platform in pixi_toml.platforms(conda_lock, gathered, place))
    )
    for url in strings(conda_lock.get("pip-repositories"), "pip-repositories"):
        gathered.index(url, place)
    for name, value in table(conda_lock.get("dependencies"), "tool.conda-lock.dependencies").items():
        entry = value if isinstance(value, dict) else {"version": value}
        if entry.get("source") == "pypi" or {"git", "url", "path"} & entry.keys():
            if requirement := dependency(name, {**entry, "source": None}, gathered, at(name, place)):
                gathered.requirement(requirement, at(name, place))
            continue
        version, channel = (optional(entry.get(key), key) for key in ("version", "channel"))
        bound = version if not version or version[:1].isdigit() else pep440(version)
        match_spec(f"{f'{channel}::' if channel else ''}{name} {bound or '*'}", gathered, at(name, place))
    for key in conda_lock.keys() - {"channels", "platforms", "dependencies", "pip-repositories"}:
        gathered.note(f"tool.conda-lock.{key} is left out: a spec has no such key", at(key, place))


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
        if not (gathered.own or lists or "poetry" in table(data.get("tool"), "tool")):
            text = "its dependencies are dynamic: only a build tells them; begin with its requirements.txt"
            gathered.note(text, place)
        else:
            gathered.note("the dependencies are dynamic, so the spec lists them and doesn't name the project", place)
    elif twice := [name for name, count in Counter(map(canonical_name, own_extras)).items() if count > 1]:
        problem = f"more than one extra is called {', '.join(twice)}, and uv builds no such project"
        gathered.note(f"{problem}, so the spec lists its requirements and doesn't name the project", place)
    else:
        gathered.project = gathered.project or (str(path.parent), ())
    if "optional-dependencies" in dynamic:
        gathered.note("the extras are dynamic, and left out: only a build tells them", place)
    for name, requirements in own_extras.items():
        taken = gathered.project[1] if gathered.project else ()
        if canonical_name(name) in map(canonical_name, taken):
            _own(strings(requirements, name), own_name, extras, gathered, place)
        else:
            gathered.extra(f"extra {name}", strings(requirements, name))
    _groups(data, gathered, place)


def _groups(data: Mapping[str, Any], gathered: Gathered, place: Place) -> None:
    """Remember the requirements of the dependency groups (PEP 735), with those of the groups that they include."""
    groups = table(data.get("dependency-groups"), "dependency-groups")
    for name in groups:
        try:
            gathered.extra(f"group {name}", _group(name, groups, {}))
        except Malformed as error:
            gathered.note(f"the group {name} is left out: {error}", at(name, place))


def _group(name: str, groups: Mapping[str, Any], known: dict[str, tuple[str, ...] | None]) -> tuple[str, ...]:
    """List the requirements of a group, each once: two that include one another's groups double what packaging's own
    reader lists. Raises Malformed."""
    own = next((group for group in groups if canonical_name(group) == canonical_name(name)), None)
    if own is None:
        raise Malformed(f"there is no group {name}")
    if own not in known:
        known[own] = None
        lines: dict[str, None] = {}
        for entry in sequence(groups[own], name):
            if isinstance(entry, dict):
                included = string(entry.get("include-group"), "include-group")
                lines.update(dict.fromkeys(_group(included, groups, known)))
            else:
                lines[string(entry, name)] = None
        known[own] = tuple(lines)
    requirements = known[own]
    if requirements is None:
        raise Malformed(f"it includes itself by {name}")
    return requirements


def _members(workspace: Mapping[str, Any], root: Path) -> dict[str, Path]:
    """List the members of a uv workspace below its root, by the names of their projects."""
    excluded = {folder for pattern in strings(workspace.get("exclude"), "exclude") for folder in _below(root, pattern)}
    members: dict[str, Path] = {}
    for pattern in strings(workspace.get("members"), "members"):
        for folder in _below(root, pattern):
            if folder not in excluded and has_project(folder) and len(members) < _MOST_MEMBERS:
                members[_name_of(folder)] = folder
    return members


_MOST_MEMBERS = 100


def _below(root: Path, pattern: str) -> list[Path]:
    if pattern in ("", ".") or pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
        return []
    return sorted(root.glob(pattern))


def _name_of(folder: Path) -> str:
    """Return the name of a folder's project, the folder's own where its file doesn't say or can't be read."""
    try:
        name = table(toml_of(text_of(folder / "pyproject.toml")).get("project"), "project").get("name")
    except (EnvspecError, Malformed):
        name = None
    return canonical_name(name if isinstance(name, str) else folder.name)


def _dynamic_lists(data: Mapping[str, Any], path: Path) -> list[Path]:
    """List the files that setuptools, or hatch with its hook for them, reads the dependencies of a project from."""

    def files(*keys: str) -> list[str]:
        section: Any = data
        for key in keys[:-1]:
            section = table(section.get(key), key)
        value = section.get(keys[-1])
        return [value] if isinstance(value, str) else list(strings(value, keys[-1]))

    names = files("tool", "setuptools", "dynamic", "dependencies", "file")
    names += files("tool", "hatch", "metadata", "hooks", "requirements_txt", "files")
    return [path.parent / file for file in names]


def _own(
    requirements: Sequence[str], project: str, extras: dict[str, tuple[str, ...]], gathered: Gathered, place: Place
) -> None:
    """Take what the project asks for. Where it names itself, what these extras of its own ask for is meant: no index
    is entry for the project."""
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


def _uv(uv: Mapping[str, Any], members: Mapping[str, Path], gathered: Gathered, place: Place) -> None:
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
        _uv_source(name, source, _UvPlaces(indexes, names, members), gathered, place)
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
    of_pip = table(uv.get("pip"), "tool.uv.pip")
    if backend := optional(of_pip.get("torch-backend"), "torch-backend"):
        gathered.torch_backend(backend, place)
    if keys := [key for key in of_pip if key != "torch-backend"]:
        gathered.note(f"tool.uv.pip is left out: {', '.join(keys)}: it's about `uv pip` alone", place)
    if default := uv.get("default-groups"):
        groups = "all" if isinstance(default, str) else ", ".join(strings(default, "default-groups"))
        gathered.note(f"default-groups ({groups}) are left out: project = {{ path, groups }} takes groups", place)


def _uv_index(
    index_table: Mapping[str, Any], gathered: Gathered, place: Place, part: str = "", marker: str = ""
) -> str | None:
    url, name = string(index_table.get("url"), "url"), optional(index_table.get("name"), "name")
    if index_table.get("format") == "flat":
        return gathered.flat_index(url, place, name)
    return gathered.index(url, place, name, first=index_table.get("default") is True, part=part, marker=marker)


class _UvPlaces(Struct, frozen=True):
    """The indexes of a file by their names there, their names in the spec, and the workspace's members."""

    indexes: Mapping[str, Mapping[str, Any]]
    names: dict[str, str | None]
    members: Mapping[str, Path]


def _uv_source(name: str, source: Any, places: _UvPlaces, gathered: Gathered, place: Place) -> None:
    """Take one entry of [tool.uv.sources]. An explicit index counts where a source names it; one of PyTorch's that
    holds by a marker, an extra or a group says the CUDA of the targets for which it does."""
    sources = tables(source, name) if isinstance(source, list) else [table(source, name)]
    for source_table in sources:
        index, marker = (optional(source_table.get(key), key) for key in ("index", "marker"))
        kind = next((key for key in ("extra", "group") if source_table.get(key)), None)
        part = f"{kind} {string(source_table[kind], kind)}" if kind else ""
        if index is None and part:
            gathered.note(f"{name}: its source is left out, since it holds for the {part} alone", place)
            continue
        if "path" in source_table or source_table.get("workspace"):
            keys = [key for key in gathered.own if key[0] == canonical_name(name)]
            extras = sorted({extra for key in keys for extra in parse_requirement(gathered.own.pop(key)).extras})
            member = places.members.get(canonical_name(name)) if source_table.get("workspace") else None
            if member:
                gathered.folder(name, member, extras, place)
            else:
                dependency(name, {**source_table, "extras": extras}, gathered, place)
            continue
        if index is None:
            _uv_address(name, source_table, gathered, place)
            continue
        if index not in places.indexes:
            raise Malformed(f"tool.uv.sources.{name} names the index {index!r}, which isn't in tool.uv.index")
        known = _uv_index(places.indexes[index], gathered, place, part, marker or "")
        if not known or (known == "pypi" and name.lower() in _PYTORCH):
            continue
        if part or (name in gathered.sources and not marker):
            why = f"it holds for the {part} alone" if part else "it has another one"
            gathered.note(f"{name}: its index {index} is left out: {why}", at(name, place))
        elif marker:
            gathered.sources_by_marker[name, known, marker] = None
        else:
            gathered.sources[name] = known


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
    table_place = place
    for name, value in table(poetry.get("dependencies"), "tool.poetry.dependencies").items():
        place = at(name, table_place)
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
