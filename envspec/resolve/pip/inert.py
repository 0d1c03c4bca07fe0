"""The judgement whether a source's build runs code of its own, by the content of its archive. Pure.

Two kinds run none: a setup.py that is one `setup()` of literals, and a backend that tables of pyproject.toml tell all.
Whatever else could bring code into the build counts against both: a setup.cfg with more than a few known sections,
entry points that setuptools loads, a backend or a module in the source's own folder, a build requirement that isn't
the backend itself. The lists hold what is known to be harmless; what is not in them counts as code.
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

from envspec.base.documents import Unreadable, read_python
from envspec.packages.names import requirement_name

LEGACY = "setuptools.build_meta:__legacy__"
"""The backend of a source that names none (PEP 517)."""
SETUPTOOLS = ("setuptools.build_meta", LEGACY)
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
"""What setup() may be given. Not here: what names a class, an extension or a requirement of the build."""
_PATHS = (
    "data_files", "license_file", "license_files", "namespace_packages", "package_data", "package_dir", "packages",
    "py_modules", "scripts",
)  # fmt: skip
"""What of it names files that setuptools copies, or where to."""
_FINDERS = ("find_packages", "find_namespace_packages")
_FROM = {"setuptools": {"setup", *_FINDERS}, "distutils.core": {"setup"}}
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
"""What a setup.py may say that it is written in. In others (utf-7) a comment holds lines of code."""
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
    """Give what the setup.py of such a source says, True where pyproject.toml says it, False where code may run.

    `texts` has the files that `is_told` names, `project` is pyproject.toml's table.
    """
    if any(is_told(name) and name not in texts for name in names):
        return False
    if any(name not in _FILES and name.lower() in _FILES for name in names):
        return False  # some systems open it by its usual name
    if not _is_known_system(project) or own_modules(names) & _SHADOWED or not _loads_nothing(texts):
        return False
    if "setup.py" in names:
        return _of_literals(texts.get("setup.py", "")) or False if _builds_by_setup(project) else False
    return _is_declared(project, names)


def is_told(path: str) -> bool:
    """Say whether a file of a source counts here."""
    return path.lower() in ("setup.py", "setup.cfg") or path.lower().endswith("-info/entry_points.txt")


def _is_known_system(project: Mapping[str, Any]) -> bool:
    system = project.get("build-system", {})
    if not isinstance(system, dict) or not set(system) <= {"requires", "build-backend"}:
        return False
    allowed = _BACKENDS.get(str(system.get("build-backend", LEGACY)))
    requires = system.get("requires", [])
    if allowed is None or not isinstance(requires, list) or any("@" in str(line) for line in requires):
        return False
    try:
        return {requirement_name(str(line)) for line in requires} <= allowed
    except ValueError:
        return False


def own_modules(names: Sequence[str]) -> set[str]:
    """List what could be imported from the source's folder."""
    return {path.split("/")[0].partition(".")[0] for path in names if path != "setup.py"}


def _loads_nothing(texts: Mapping[str, str]) -> bool:
    """Say whether neither setup.cfg nor entry points lead setuptools to code or to other requirements."""
    for path, text in texts.items():
        if not is_told(path) or path == "setup.py":
            continue
        sections = _sections(text)
        if sections is None:
            return False
        if path == "setup.cfg":
            tags = dict(sections.pop("egg_info", {}))
            plain = "attr:" not in text and "version" not in sections.get("metadata", {})
            if (
                not plain
                or not all(map(_is_known_section, sections, sections.values()))
                or any(not key.startswith("tag_") or value not in _NO for key, value in tags.items())
            ):
                return False
        elif any(group.startswith(_LOADED) for group in sections):
            return False
    return True


def _is_known_section(name: str, keys: Mapping[str, str]) -> bool:
    return name in _SECTIONS and {*keys} <= (_SECTIONS[name] or {*keys})


def _sections(text: str) -> dict[str, dict[str, str]] | None:
    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#", ";"))
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    return {name: {key: str(value).strip().lower() for key, value in parser.items(name)} for name in parser.sections()}


def _builds_by_setup(project: Mapping[str, Any]) -> bool:
    """Say whether setuptools reads the setup.py alone: tables beside it would change what it says."""
    backend = project.get("build-system", {}).get("build-backend", LEGACY)
    tool = project.get("tool", {})
    plain = isinstance(tool, dict) and "setuptools" not in tool and "distutils" not in tool
    return backend in SETUPTOOLS and "project" not in project and plain


def _is_declared(project: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Say whether tables alone tell the backend what it builds."""
    table, tool = project.get("project"), project.get("tool", {})
    if not isinstance(table, dict) or table.get("dynamic") or not isinstance(table.get("version"), str):
        return False
    if not isinstance(tool, dict) or "distutils" in tool or not {"hatch_build.py", "hatch.toml"}.isdisjoint(names):
        return False
    groups = table.get("entry-points", {})
    if not isinstance(groups, dict) or any(str(group).startswith(_LOADED) for group in groups):
        return False
    if any(_RUNNING[one] & set(_keys(tool.get(one, {}))) for one in _RUNNING):
        return False
    # the others write an archive, whose paths whoever installs it judges; setuptools copies files
    return not any(map(_leads_out, _texts(tool.get("setuptools", {}))))


_RUNNING = {
    "hatch": {"hooks", "hook"}, "setuptools": {"cmdclass", "dynamic", "ext-modules"}, "poetry": {"build"},
    "flit": {"metadata"},
}  # fmt: skip
"""Keys of the backends' tables that name code: flit-core before 3.2 imports the module of `[tool.flit.metadata]`."""


def _keys(table: object) -> Iterator[str]:
    if isinstance(table, dict):
        for key, value in table.items():
            yield str(key)
            yield from _keys(value)
    elif isinstance(table, list):
        for value in table:
            yield from _keys(value)


def _leads_out(text: str) -> bool:
    """Say whether a path leaves the folder that a build unpacks or writes to: it could write what runs later."""
    return ".." in text.replace("\\", "/").split("/") or text.startswith(("/", "\\", "~")) or text[1:2] == ":"


def _texts(value: object) -> Iterator[str]:
    """Yield all texts of a value of literals."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.items():
            yield from _texts(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _texts(one)


def _of_literals(text: str) -> Setup | None:
    """Read a setup.py of imports, assigned literals and one setup() of literals; None for any other."""
    try:
        if tokenize.detect_encoding(io.BytesIO(text.encode()).readline)[0] not in _ENCODINGS:
            return None
        body = read_python(text).body
    except (SyntaxError, Unreadable):
        return None
    known: dict[str, object] = {}
    said: dict[str, object] | None = None
    for statement in body:
        try:
            match statement:
                case ast.Expr(ast.Constant()):
                    pass
                case ast.Import([ast.alias("setuptools", None)]):
                    pass
                case ast.ImportFrom(str(module), names, 0) if all(
                    one.asname is None and one.name in _FROM.get(module, ()) for one in names
                ):
                    pass
                case ast.Assign([ast.Name(name)], value) if name not in {"setup", "setuptools", *_FINDERS}:
                    known[name] = literal(value, known)
                case ast.Expr(ast.Call(called, [], keywords)) if is_call(called, ("setup",)) and said is None:
                    said = {str(one.arg): literal(one.value, known) for one in keywords}
                case _:
                    return None
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            return None
    return None if said is None else _read_setup(said)


def is_call(called: ast.expr, names: Sequence[str]) -> bool:
    """Say whether a call is of one of these functions of setuptools."""
    match called:
        case ast.Name(name) | ast.Attribute(ast.Name("setuptools"), name):
            return name in names
    return False


def literal(value: ast.expr, known: Mapping[str, object]) -> object:
    """Evaluate a literal, a name of one, or a search for packages, which gives none here. Raises ValueError."""
    match value:
        case ast.Name(name) if name in known:
            return known[name]
        case ast.Call(called, arguments, keywords) if is_call(called, _FINDERS):
            for one in (*arguments, *(keyword.value for keyword in keywords)):
                if any(map(_leads_out, _texts(ast.literal_eval(one)))):
                    raise ValueError("a search outside of the source")
            return []
    return ast.literal_eval(value)


def _read_setup(said: Mapping[str, object]) -> Setup | None:
    groups = said.get("entry_points") or {}
    if not set(said) <= _DATA or not isinstance(groups, dict):
        return None
    if any(str(group).startswith(_LOADED) for group in groups):
        return None
    if any(_leads_out(text) for key in _PATHS for text in _texts(said.get(key))):
        return None
    python, extras = said.get("python_requires"), said.get("extras_require") or {}
    lines = requirement_lines(said.get("install_requires"))
    if lines is None or not isinstance(extras, dict) or not isinstance(python, str | None):
        return None
    for extra, several in extras.items():
        own = requirement_lines(several)
        if own is None or not isinstance(extra, str):
            return None
        lines += [f"[{extra}]", *own]
    name, version = said.get("name"), said.get("version")
    if not isinstance(name, str) or not isinstance(version, str):
        return None
    return Setup(name, version, "\n".join(lines), python)


def requirement_lines(value: object) -> list[str] | None:
    """Read requirements as setuptools takes them: a list, or a text of lines."""
    if value is None:
        return []
    several = value.splitlines() if isinstance(value, str) else value
    if not isinstance(several, list | tuple) or not all(isinstance(line, str) for line in several):
        return None
    lines = [line.strip() for line in several if line.strip() and not line.strip().startswith("#")]
    return None if any("\n" in line or line.startswith("[") for line in lines) else lines
