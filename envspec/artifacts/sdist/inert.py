"""The judgement of sources as inert, by their archives' content: the build of an inert one runs no code of its own.
Pure.

Two kinds run none: a setup.py that is one `setup()` of literals, and a backend that reads all from tables of
pyproject.toml. Whatever else could bring code into the build counts against both: a setup.cfg with more than a few
known sections, entry points that setuptools loads, a backend or a module in the source's own folder, a build
requirement that isn't the backend itself. The lists have known harmless content; all else counts as code.
"""

from __future__ import annotations

import ast
import configparser
import io
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from envspec.artifacts.sdist.pyproject import SETUPTOOLS, build_backend, table_of
from envspec.artifacts.sdist.setup_py import FINDERS, is_call, leads_out, literal, requirement_lines, texts_in
from envspec.base.documents import read_python
from envspec.packages.names import requirement_name

_BACKENDS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(SETUPTOOLS, frozenset({"setuptools", "wheel"})),
    "flit_core.buildapi": frozenset({"flit-core"}),
    "hatchling.build": frozenset({"hatchling"}),
    "poetry.core.masonry.api": frozenset({"poetry-core"}),
}
"""Backends, and what a build with each may require."""

_DATA = {
    "author", "author_email", "classifiers", "data_files", "description", "download_url", "entry_points",
    "exclude_package_data", "extras_require", "include_package_data", "install_requires", "keywords", "license",
    "license_file", "license_files", "long_description", "long_description_content_type", "maintainer",
    "maintainer_email", "name", "namespace_packages", "package_data", "package_dir", "packages", "platforms",
    "project_urls", "py_modules", "python_requires", "scripts", "test_suite", "tests_require", "url", "version",
    "zip_safe",
}  # fmt: skip
"""Arguments that setup() may have: none that names a class, an extension or a requirement of the build."""
_PATHS = (
    "data_files", "license_file", "license_files", "namespace_packages", "package_data", "package_dir", "packages",
    "py_modules", "scripts",
)  # fmt: skip
"""Arguments with files that setuptools copies, or their places."""
_FROM = {"setuptools": {"setup", *FINDERS}, "distutils.core": {"setup"}}
_SECTIONS: Mapping[str, frozenset[str] | None] = {
    **dict.fromkeys(("metadata", "flake8", "pycodestyle", "pep8", "isort", "tool:pytest"), None),
    "bdist_wheel": frozenset({"universal", "python-tag", "python_tag"}),
    "sdist": frozenset({"formats"}),
}
"""Sections of a setup.cfg, and the keys of those that are a command's: its others name folders that it fills or
removes."""
_NO = ("", "0", "false", "no")
_LOADED = ("distutils.", "setuptools.", "egg_info.", "hatch")
"""Groups of entry points that backends load while they build, also those of an egg-info in the source's folder."""
_FILES = ("setup.py", "setup.cfg", "pyproject.toml", "hatch_build.py", "hatch.toml")
_ENCODINGS = ("utf-8", "utf-8-sig", "ascii", "iso-8859-1")
"""Encodings that a setup.py may declare. In others (utf-7) a comment holds lines of code."""
OTHER_PYTHONS = {
    "aifc", "annotationlib", "asynchat", "asyncore", "audioop", "binhex", "cgi", "cgitb", "chunk", "compression",
    "crypt", "formatter", "imghdr", "imp", "lib2to3", "macpath", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev",
    "parser", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "symbol", "telnetlib", "tomllib", "uu", "xdrlib",
}  # fmt: skip
"""The standard library's modules of Python 3.8 to 3.14 that not all of them have: a build may have another Python."""
_SHADOWED = sys.stdlib_module_names - {"test"} | OTHER_PYTHONS | {
    "Cython", "Pyrex", "_distutils_hack", "_distutils_system_mod", "_manylinux", "_typeshed", "android", "appdirs",
    "autocommand", "backports", "build", "certifi", "distutils", "dl", "docutils", "editables", "flit_core",
    "hatchling", "hyperscan", "importlib_metadata", "importlib_resources", "inflect", "jaraco", "jnius", "keyring",
    "more_itertools", "ordered_set", "packaging", "pathspec", "pkg_resources", "platformdirs", "pluggy", "poetry",
    "pyparsing", "pyproject_hooks", "pytoml", "re2", "setuptools", "sitecustomize", "six", "tomli", "tomlkit",
    "trove_classifiers", "typeguard", "typing_extensions", "usercustomize", "uv", "wheel", "wincertstore", "zipp",
}  # fmt: skip
"""Modules that a build may import, if they are there, after the source's folder has come before all others."""


class Setup(Struct, frozen=True):
    """The metadata of a setup.py of literals. `requires` is in the form of an egg-info's requires.txt."""

    name: str
    version: str
    requires: str
    requires_python: str | None


def inert(texts: Mapping[str, str], names: Sequence[str], project: Mapping[str, Any]) -> Setup | bool:
    """Give the metadata in the setup.py of an inert source, True where pyproject.toml has it, False for a source whose
    code may run.

    `texts` has the files that `is_judged` names, `project` is pyproject.toml's table.
    """
    if any(is_judged(name) and name not in texts for name in names):
        return False
    if any(name not in _FILES and name.lower() in _FILES for name in names):
        return False  # some systems open it by its usual name
    if own_modules(names) & _SHADOWED:
        return False
    try:
        if not _is_known_system(project) or not all(_loads_nothing(*file) for file in texts.items()):
            return False
        if "setup.py" in names:
            return _builds_by_setup(project) and _of_literals(texts["setup.py"])
        return _is_declared(project, names)
    except (ValueError, SyntaxError, configparser.Error):
        return False


def is_judged(path: str) -> bool:
    """Return whether a file of a source counts in this judgement."""
    return path.lower() in ("setup.py", "setup.cfg") or path.lower().endswith("-info/entry_points.txt")


def _is_known_system(project: Mapping[str, Any]) -> bool:
    """Return whether one of the known backends builds a source, and nothing beside it. Raises ValueError."""
    system = project.get("build-system", {})
    if not isinstance(system, dict) or not set(system) <= {"requires", "build-backend"}:
        return False
    requires, allowed = system.get("requires", []), _BACKENDS.get(build_backend(project))
    if allowed is None or not isinstance(requires, list) or any("@" in str(line) for line in requires):
        return False
    return {requirement_name(str(line)) for line in requires} <= allowed


def own_modules(names: Sequence[str]) -> set[str]:
    """List the modules that could be imported from the source's folder."""
    return {path.split("/")[0].partition(".")[0] for path in names if path != "setup.py"}


def _loads_nothing(path: str, text: str) -> bool:
    """Return whether a setup.cfg, or a file of entry points, leads setuptools neither to code nor to other
    requirements. Raises configparser.Error."""
    if path == "setup.py" or not is_judged(path):
        return True
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#", ";"))
    parser.read_string(text)
    sections = {name: dict(parser.items(name)) for name in parser.sections()}
    if path != "setup.cfg":
        return not _names_code(sections)
    tags = sections.pop("egg_info", {})
    return (
        "attr:" not in text
        and "version" not in sections.get("metadata", {})
        and all(name in _SECTIONS and {*keys} <= (_SECTIONS[name] or {*keys}) for name, keys in sections.items())
        and all(key.startswith("tag_") and str(tag).strip().lower() in _NO for key, tag in tags.items())
    )


def _names_code(groups: object) -> bool:
    """Return whether entry points, by their groups, are no table, or may be code that a build loads."""
    return not isinstance(groups, Mapping) or any(str(group).startswith(_LOADED) for group in groups)


def _builds_by_setup(project: Mapping[str, Any]) -> bool:
    """Return whether setuptools reads the setup.py alone: tables beside it would change what it says."""
    tool = project.get("tool", {})
    plain = isinstance(tool, dict) and "setuptools" not in tool and "distutils" not in tool
    return build_backend(project) in SETUPTOOLS and "project" not in project and plain


def _is_declared(project: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Return whether tables alone tell the backend what it builds."""
    table, tool = table_of(project, "project"), project.get("tool", {})
    if table.get("dynamic") or not isinstance(table.get("version"), str) or _names_code(table.get("entry-points", {})):
        return False
    if not isinstance(tool, dict) or "distutils" in tool or not {"hatch_build.py", "hatch.toml"}.isdisjoint(names):
        return False
    if any(not keys.isdisjoint(_keys(tool.get(name, {}))) for name, keys in _RUNNING.items()):
        return False
    # the others write an archive, whose paths whoever installs it judges; setuptools copies files
    return not any(map(leads_out, texts_in(tool.get("setuptools", {}))))


_RUNNING = {
    "hatch": {"hooks", "hook"}, "setuptools": {"cmdclass", "dynamic", "ext-modules"}, "poetry": {"build"},
    "flit": {"metadata"},
}  # fmt: skip
"""Keys of the backends' tables that name code: flit-core before 3.2 imports the module of `[tool.flit.metadata]`."""


def _keys(table: object) -> Iterator[str]:
    if isinstance(table, dict):
        yield from map(str, table)
        table = list(table.values())
    for value in table if isinstance(table, list) else ():
        yield from _keys(value)


def _of_literals(text: str) -> Setup | bool:
    """Read a setup.py of imports, assigned literals and one setup() of literals; False for any other. Raises
    ValueError, SyntaxError."""
    if tokenize.detect_encoding(io.BytesIO(text.encode()).readline)[0] not in _ENCODINGS:
        return False
    known: dict[str, object] = {}
    arguments: dict[str, object] | None = None
    for statement in read_python(text).body:
        match statement:
            case ast.Expr(ast.Constant()) | ast.Import([ast.alias("setuptools", None)]):
                pass
            case ast.ImportFrom(str(module), names, 0) if all(
                alias.asname is None and alias.name in _FROM.get(module, ()) for alias in names
            ):
                pass
            case ast.Assign([ast.Name(name)], value) if name not in {"setup", "setuptools", *FINDERS}:
                known[name] = literal(value, known)
            case ast.Expr(ast.Call(called, [], keywords)) if is_call(called, ("setup",)) and arguments is None:
                arguments = {str(keyword.arg): literal(keyword.value, known) for keyword in keywords}
            case _:
                return False
    return arguments is not None and _metadata_of(arguments)


def _metadata_of(arguments: Mapping[str, object]) -> Setup | bool:
    """Read the metadata of the arguments of setup(); False where they may lead to code."""
    if not set(arguments) <= _DATA or _names_code(arguments.get("entry_points") or {}):
        return False
    if any(leads_out(text) for key in _PATHS for text in texts_in(arguments.get(key))):
        return False
    name, version, python = map(arguments.get, ("name", "version", "python_requires"))
    extras = arguments.get("extras_require") or {}
    if not (isinstance(name, str) and isinstance(version, str) and isinstance(python, str | None)):
        return False
    if not isinstance(extras, dict) or not all(isinstance(extra, str) for extra in extras):
        return False
    lines: list[str] = []
    of_extras = (([f"[{extra}]"], value) for extra, value in extras.items())
    for section, value in (([], arguments.get("install_requires")), *of_extras):
        if (own := requirement_lines(value)) is None:
            return False
        lines += [*section, *own]
    return Setup(name, version, "\n".join(lines), python)
