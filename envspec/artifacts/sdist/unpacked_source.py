"""A source in a folder: the facts in its files, read without running them, and the lines to state in a spec."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from envspec.artifacts.sdist.build_imports import build_imports, is_foreign
from envspec.artifacts.sdist.inert import own_modules
from envspec.artifacts.sdist.pyproject import build_requires, project_requirements, read_project, table_of
from envspec.artifacts.sdist.setup_py import literal, literals_of, requirement_lines
from envspec.artifacts.sdist.static_source import LARGEST_CODE, FolderFacts, SourceFacts
from envspec.base.documents import Unreadable, read_python
from envspec.base.errors import InputError
from envspec.base.plain_files import read_plain
from envspec.lock.toml_text import value
from envspec.packages.requirement import canonical_name, is_requirement

_PROJECT = 4 << 20
"""Bytes of the largest pyproject.toml that is read."""
_MISSING = re.compile(r"No module named '([A-Za-z0-9_.]+)'")
_OWN = ("torch", "numpy")
"""Modules that a build imports because the package itself works with them."""


def missing_module(output: str) -> str | None:
    """Find the missing top-level module in a build's output."""
    modules = _MISSING.findall(output)
    return modules[-1].partition(".")[0] if modules else None


class UnpackedSource(Struct, frozen=True):
    """A source in a folder. `label` names it in messages."""

    folder: Path
    label: str

    @property
    def project(self) -> Mapping[str, Any]:
        """The table of its pyproject.toml."""
        return read_project(_read_start(self.folder / "pyproject.toml", _PROJECT).decode("utf-8", "replace"))

    def facts(self) -> FolderFacts:
        """Read its build's requirements and imports. Links that lead out of its folder aren't followed."""
        root = os.path.realpath(self.folder)

        def read(path: str) -> str | None:
            real = Path(os.path.realpath(self.folder / path))
            if not real.is_relative_to(root) or not real.is_file():
                return None
            return _read_start(real, LARGEST_CODE).decode("utf-8", "replace")

        project = self.project
        return FolderFacts(build_requires(project), build_imports(read, own_modules(os.listdir(root)), project))

    def is_of_others(self, module: str) -> bool:
        """Return whether a module belongs neither to this package nor to Python."""
        return is_foreign(module, own_modules(os.listdir(self.folder)))

    def metadata_hint(self, module: str, name: str, version: str, facts: SourceFacts) -> str:
        """Write the hint with the lines to add to the spec where a build for metadata misses a module: the source's
        requirements, as far as its files have them, and its build's."""
        imports = facts.imports.with_module(module if self.is_of_others(module) else None)
        lacks = imports.lacks(name, facts.builds, has_torch=True)
        more = f"\nbuild-dependencies = {value({name: list(lacks.line)})}" if lacks else ""
        known = [line for line in facts.metadata.requires_dist or self._read_setup()[1] if is_requirement(line)]
        if known:
            return f"add to [pip]: {_metadata_line(name, version, known)}{more}"
        guess = [module] if module in _OWN else []
        return f"add to [pip], with all that its README says it requires: {_metadata_line(name, version, guess)}{more}"

    def checkout_hint(self, name: str) -> str | None:
        """Write the hint with the line for a git project, read from its pyproject.toml and setup.py without running
        them. None where these have no requirements."""
        version, lines = self._read_setup()
        project = self.project
        if isinstance(project.get("project"), dict):
            version = str(table_of(project, "project").get("version", version))
            lines = (project_requirements(project) or (lines,))[0]
        if not lines or not all(map(is_requirement, lines)):
            return None
        return f"add to [pip]{'' if version else ', with its version'}: {_metadata_line(name, version or '…', lines)}"

    def _read_setup(self) -> tuple[str, Sequence[str]]:
        """Read the literal `version` and `install_requires` of a setup.py, which isn't run; empty where they are
        none."""
        try:
            tree = read_python(_read_start(self.folder / "setup.py", LARGEST_CODE))
        except Unreadable:
            return "", ()
        known = literals_of(tree)
        values: dict[str | None, list[object]] = {"version": [], "install_requires": []}
        for call in ast.walk(tree):
            for keyword in call.keywords if isinstance(call, ast.Call) else ():
                with suppress(KeyError, ValueError):
                    values[keyword.arg].append(literal(keyword.value, known))
        version = next((text for text in values["version"] if isinstance(text, str) and text), "")
        return version, next(filter(None, map(requirement_lines, values["install_requires"])), ())


def _read_start(path: Path, most: int) -> bytes:
    """Read a small file; no bytes of one that isn't there, or is larger."""
    try:
        content = read_plain(path, most + 1)
    except (OSError, InputError):
        return b""
    return content if len(content) <= most else b""


def _metadata_line(name: str, version: str, dependencies: Sequence[str]) -> str:
    """Write a `metadata` key with one entry."""
    entry = {"name": canonical_name(name), "version": version, "dependencies": list(dependencies)}
    return f"metadata = {value([entry])}"
