"""The pyproject.toml of a source: its build system (PEP 517, PEP 518), and its requirements (PEP 621). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envspec.base.documents import Unreadable, read_toml
from envspec.packages.requirement import canonical_name

Requirements = tuple[tuple[str, ...], tuple[str, ...]]
"""Requirements as METADATA has them, and the extras."""

LEGACY = "setuptools.build_meta:__legacy__"
"""The backend of a source that names none (PEP 517)."""
SETUPTOOLS = ("setuptools.build_meta", LEGACY)
DEFAULT_REQUIRES = ("setuptools>=40.8.0", "wheel")
"""The build requirements of a source that declares none (PEP 518): the bound is older than any release in use."""


_BINDING = {"dependencies", "optional-dependencies", "requires-python"}


def read_project(text: str) -> dict[str, Any]:
    """Read a pyproject.toml; an empty table where it is none."""
    try:
        return read_toml(text)
    except Unreadable:
        return {}


def table_of(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Give a table inside a document by its path; an empty one where there is none."""
    for name in names:
        below = document.get(name)
        document = below if isinstance(below, dict) else {}
    return document


def build_backend(project: Mapping[str, Any]) -> str:
    """Read `[build-system] build-backend` of a pyproject.toml's table."""
    return str(table_of(project, "build-system").get("build-backend", LEGACY))


def build_requires(project: Mapping[str, Any]) -> tuple[str, ...]:
    """Read `[build-system] requires` of a pyproject.toml's table."""
    requires = table_of(project, "build-system").get("requires")
    if not isinstance(requires, list):
        return DEFAULT_REQUIRES
    return tuple(line for line in requires if isinstance(line, str))


def project_requirements(project: Mapping[str, Any]) -> Requirements | None:
    """Read requirements and extras of a [project] table that binds them. None for one that doesn't."""
    table = table_of(project, "project")
    dynamic, own = table.get("dynamic", []), table.get("dependencies", [])
    of_extras = table.get("optional-dependencies", {})
    if not (isinstance(table.get("name"), str) and isinstance(dynamic, list) and isinstance(own, list)):
        return None
    if not _BINDING.isdisjoint(map(str, dynamic)) or not isinstance(of_extras, dict):
        return None
    if not all(isinstance(of_extra, list) for of_extra in of_extras.values()):
        return None
    lines = [str(line) for line in own]
    for extra, of_extra in of_extras.items():
        lines += [with_marker(str(line), f"extra == '{canonical_name(str(extra))}'") for line in of_extra]
    return tuple(lines), tuple(canonical_name(str(extra)) for extra in of_extras)


def with_marker(line: str, marker: str) -> str:
    """Give a requirement that holds with a marker alone."""
    requirement, semicolon, own = line.partition(";")
    return f"{requirement.strip()}; ({own.strip()}) and {marker}" if semicolon else f"{line.strip()}; {marker}"
