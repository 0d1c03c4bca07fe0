"""setup.py and setup.cfg: what setuptools is told to require. Literals are read; no code is run."""

from __future__ import annotations

import ast
import configparser
from collections.abc import Iterator, Mapping
from pathlib import Path

from envspec.artifacts.sdist.setup_py import is_call, literal, literals_of, requirement_lines
from envspec.base.documents import Unreadable, read_python
from envspec.base.errors import Place
from envspec.draft.gather import Gathered
from envspec.draft.requirements_txt import RequirementsReader
from envspec.lock.formats.foreign.shape import Malformed


def read(text: str, path: Path, gathered: Gathered, pip: RequirementsReader) -> None:
    """Read a setup.py: the literals of its setup(), and, where code puts these together, the lists that it names.

    Raises Malformed.
    """
    try:
        tree = read_python(text)
    except Unreadable as error:
        raise Malformed(f"this isn't Python: {error}") from None
    known = literals_of(tree)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and is_call(node.func, ("setup",))]
    keywords = [keyword for call in calls for keyword in call.keywords]
    by_code = [keyword.value for keyword in keywords if _take(keyword, known, path, gathered)]
    for value in by_code:
        for named in [*_lists(value, path)] or [*_lists(tree, path)]:
            pip.file(named)


def _take(keyword: ast.keyword, known: Mapping[str, object], path: Path, gathered: Gathered) -> bool:
    """Take an argument of setup(). Return whether it is a list of requirements that code puts together."""
    place = Place(str(path), keyword.value.lineno)
    if keyword.arg == "name" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
        gathered.name = keyword.value.value
    if keyword.arg not in ("install_requires", "extras_require", "python_requires"):
        return False
    try:
        value = literal(keyword.value, known)
    except ValueError:
        read = "its lists are read instead" if keyword.arg == "install_requires" else "it stays unread"
        gathered.note(f"{keyword.arg} is put together by code, which isn't run: {read}", place)
        return keyword.arg == "install_requires"
    if keyword.arg == "python_requires":
        gathered.claim("python", value if isinstance(value, str) else "", place)
    elif keyword.arg == "install_requires":
        for line in requirement_lines(value) or ():
            gathered.requirement(line, place)
    elif isinstance(value, dict):
        _extras(
            {str(extra): requirement_lines(requirements) or [] for extra, requirements in value.items()},
            gathered,
            place,
        )
    return False


def _lists(tree: ast.AST, path: Path) -> Iterator[Path]:
    """Yield the files of requirements that the texts in a part of a setup.py name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith((".txt", ".in")):
            places = (path.parent / node.value, path.parent / "requirements" / node.value)
            yield from [place for place in places if "require" in str(place) and place.is_file()][:1]


def read_cfg(text: str, path: Path, gathered: Gathered) -> None:
    """Read a setup.cfg. Raises Malformed."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise Malformed(f"this isn't a setup.cfg: {error}") from None
    place = Place(str(path))
    options = dict(parser.items("options")) if parser.has_section("options") else {}
    gathered.claim("python", options.get("python_requires", ""), place)
    for line in requirement_lines(options.get("install_requires")) or ():
        gathered.requirement(line, place)
    if parser.has_section("options.extras_require"):
        extras = parser.items("options.extras_require")
        _extras({extra: requirement_lines(requirements) or [] for extra, requirements in extras}, gathered, place)


def _extras(extras: Mapping[str, list[str]], gathered: Gathered, place: Place) -> None:
    for extra, requirements in extras.items():
        gathered.extra(f"extra {extra}", requirements)
        gathered.note(f"the extra {extra} is left out: {', '.join(requirements) or 'it is empty'}", place)
