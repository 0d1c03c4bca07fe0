"""A build for metadata that fails because a module is missing: what of the requirements is known without running it,
as the line that a spec states them in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from envspec.lock.toml_text import value
from envspec.packages.requirement import canonical_name, is_requirement
from envspec.resolve.pip.static_source import SourceFacts

_MISSING = re.compile(r"No module named '([A-Za-z0-9_.]+)'")
_LARGEST = 1 << 18
"""Bytes of the largest setup.py that is read."""
_OWN = ("torch", "numpy")
"""Modules that a build imports because the package itself works with them."""


def missing_module(output: str) -> str | None:
    """Find the top-level module that a build's output says is missing."""
    found = _MISSING.findall(output)
    return found[-1].partition(".")[0] if found else None


def metadata_hint(module: str, name: str, version: str, facts: SourceFacts, source: Path) -> str:
    """Write the hint with the line to add to the spec. `source` is the unpacked source."""
    known = [line for line in facts.metadata.requires_dist or install_requires(source) if is_requirement(line)]
    if known:
        return f"add to [pip]: {metadata_line(name, version, known)}"
    guess = [module] if module in _OWN else []
    return f"add to [pip], with all that its README says it requires: {metadata_line(name, version, guess)}"


def metadata_line(name: str, version: str, dependencies: Sequence[str]) -> str:
    """Write a `metadata` key with one entry."""
    entry = {"name": canonical_name(name), "version": version, "dependencies": list(dependencies)}
    return f"metadata = {value([entry])}"


def install_requires(source: Path) -> tuple[str, ...]:
    """Read the literal `install_requires` of a setup.py, which isn't run; empty where it isn't a plain list."""
    path = source / "setup.py"
    try:
        if path.stat().st_size > _LARGEST:
            return ()
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return ()
    names = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for said in _keywords(tree):
        meant = names.get(said.id) if isinstance(said, ast.Name) else said
        if isinstance(meant, (ast.List, ast.Tuple)):
            texts = [item.value for item in meant.elts if isinstance(item, ast.Constant) and type(item.value) is str]
            if len(texts) == len(meant.elts):
                return tuple(map(str, texts))
    return ()


def _keywords(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "install_requires")
