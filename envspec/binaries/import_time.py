"""The Python modules of a wheel that import another package as they are imported, and can't do without it.

Read by `ast`; nothing is executed. What stands in a function, under an `if`, or in a `try` that catches ImportError is
left out: whether it is needed there can't be told. Counted are the modules that start with the wheel: its top-level
modules and packages, what its entry points name, what others use of it (`_USED`), and all that these import likewise.
"""

from __future__ import annotations

import ast
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from zipfile import ZipInfo

from msgspec import Struct

from envspec.base.documents import Unreadable, read_python
from envspec.binaries.wheel import Budget, BudgetSpent, OpenWheel

PACKED, UNPACKED = 16 << 20, 64 << 20
"""Bytes of Python modules that are read at most, packed and unpacked; a wheel with more isn't read."""

_LARGEST, _PARSED = 2 << 20, 500
"""Bytes of a module that is parsed, and modules parsed of a wheel."""

_MANY = 20
"""Modules with a package's name in their text, of which none is parsed before those that start with the wheel."""

_USED = ("torch.utils.cpp_extension",)
"""Modules that start by themselves: with this one extensions are compiled, torch.compile's too."""

_ASIDE = re.compile(r"(?:^|/)(?:tests?|_tests?|testing|conftest\.py|test_[^/]*\.py|[^/]+\.data)(?:/|$)")
_ENTRY = re.compile(r"^[^=#\[\n]+=[ \t]*([A-Za-z_][\w.]*)", re.M)
_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class ImportTime(Struct, frozen=True):
    """modules   the modules that import it as they are imported, sorted; "a.b" of `a/b.py`
    complete  False where the wheel has more Python than the bounds allow
    """

    modules: tuple[str, ...] = ()
    complete: bool = True


def modules_importing_at_start(wheel: OpenWheel, package: str) -> ImportTime:
    """Find the modules of a wheel that import a package (`pkg_resources`) as soon as they are imported.

    A wheel that brings the package itself, also in a folder `_vendor`, imports nothing. Raises UnreadableWheel.
    """
    return imports_at_start(wheel, (package,))[package]


def imports_at_start(wheel: OpenWheel, packages: Collection[str]) -> Mapping[str, ImportTime]:
    """Find `modules_importing_at_start` for each of several packages. Raises UnreadableWheel."""
    nothing = dict.fromkeys(packages, ImportTime())
    python = _python_of(wheel)
    # setuptools finds what lies in its `_vendor` as if it were installed
    searched = set(packages) - {name.rpartition("._vendor.")[2] for name, _ in python}
    sources = _sources(wheel, python) if searched else {}
    if sources is None:
        return {**nothing, **dict.fromkeys(searched, ImportTime(complete=False))}
    modules = _Modules(sources)
    named = {package for package in searched if _may_import(modules, sources, package)}
    return {**nothing, **(_from_roots(modules, _roots(wheel, sources), named) if named else {})}


def find_guarded_modules(wheel: OpenWheel, modules: Collection[str]) -> frozenset[str]:
    """Find those of several modules ("numba.np.ufunc.tbbpool") that the wheel's own Python does without: some module
    imports it where it catches ImportError, and none that starts with the wheel imports it elsewhere. Raises
    UnreadableWheel."""
    sources = (_sources(wheel, _python_of(wheel)) if modules else None) or {}
    read, guarded = _Modules(sources), set[str]()
    for name, source in sources.items():
        named = {module for module in modules if module.rpartition(".")[2].encode() in source}
        guarded |= named & {*read.caught_imports(name)} if named and b"except" in source else set()
    started = _from_roots(read, _roots(wheel, sources), guarded) if guarded else {}
    return frozenset(name for name, imports in started.items() if imports.complete and not imports.modules)


def _may_import(modules: _Modules, sources: Mapping[str, bytes], package: str) -> bool:
    """Return whether a module imports a package, wherever it lies; where many have its name, one of them will."""
    holding = [name for name in sources if package.encode() in sources[name]]
    return len(holding) > _MANY or any(_imports(modules, name, package) for name in holding)


def _sources(wheel: OpenWheel, modules: Sequence[tuple[str, ZipInfo]]) -> dict[str, bytes] | None:
    """The modules by name, packages by their own; None for more than the bounds allow."""
    budget = Budget(PACKED, UNPACKED)
    try:
        Budget(PACKED, UNPACKED).take(
            sum(info.compress_size for _, info in modules), sum(info.file_size for _, info in modules)
        )
        # in the order in which they lie there: a remote file is then read on and on
        ordered = sorted(modules, key=lambda module: module[1].header_offset)
        return {
            f"{name}.__init__" if info.filename.endswith("/__init__.py") else name: wheel.read(info, budget)
            for name, info in ordered
        }
    except BudgetSpent:
        return None


def _python_of(wheel: OpenWheel) -> list[tuple[str, ZipInfo]]:
    """The Python modules of a wheel, each with its name; tests are left out."""
    return [
        (name, info)
        for info in wheel.members
        if info.filename.endswith(".py") and not _ASIDE.search(info.filename) and (name := _module(info.filename))
    ]


def _module(path: str) -> str | None:
    """`a.b` of `a/b.py` and of `a/b/__init__.py`; None where no import can name it."""
    parts = PurePosixPath(path).with_suffix("").parts
    names = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join(names) if names and all(name.isidentifier() for name in names) else None


def _roots(wheel: OpenWheel, sources: Mapping[str, bytes]) -> list[str]:
    """The modules that a user of the wheel imports first. In a namespace package, which has no `__init__`, that is
    the first one below."""
    packages = {name.removesuffix(".__init__") for name in sources if name.endswith(".__init__")}
    roots = [name for name in packages if not any(above in packages for above in _above(name))]
    roots += [name for name in sources if "." not in name]
    for info in wheel.find(r"[^/]+\.dist-info/entry_points\.txt"):
        try:
            text = wheel.read(info, Budget(1 << 20, 1 << 20)).decode("utf-8", "replace")
        except BudgetSpent:
            continue
        roots += _ENTRY.findall(text)
    roots += [name for name in _USED if name in sources]
    return sorted(set(roots))


def _from_roots(modules: _Modules, roots: list[str], packages: Collection[str]) -> dict[str, ImportTime]:
    seen: set[str] = set()
    importers: dict[str, set[str]] = {package: set() for package in packages}
    left, complete = list(roots), True
    while left:
        name = modules.real(left.pop())
        if name is None or name in seen:
            continue
        seen.add(name)
        if len(seen) > _PARSED:
            complete = False
            break
        for imported in modules.imports(name):
            left += [*_above(imported), imported]
        for package in packages:
            if _imports(modules, name, package):
                importers[package].add(name.removesuffix(".__init__"))
    return {package: ImportTime(tuple(sorted(some)), complete) for package, some in importers.items()}


def _imports(modules: _Modules, name: str, package: str) -> bool:
    """Return whether a module imports a package, or a module of it, as it is imported."""
    return any(imported == package or imported.startswith(f"{package}.") for imported in modules.imports(name))


class _Modules:
    def __init__(self, sources: Mapping[str, bytes]) -> None:
        self._sources = sources
        self._imports: dict[str, list[str]] = {}

    def real(self, name: str) -> str | None:
        """The name under which a module's source is kept, None for one of another package."""
        return next((known for known in (f"{name}.__init__", name) if known in self._sources), None)

    def imports(self, name: str) -> list[str]:
        """The modules that a module imports as it is imported, by absolute names; empty for one that Python can't
        read."""
        if name not in self._imports:
            self._imports[name] = self._read(name)
        return self._imports[name]

    def caught_imports(self, name: str) -> Iterator[str]:
        """The modules that a module imports, wherever it does, where it catches their ImportError and raises none."""
        for tried in (
            node for statement in self._body(name) for node in ast.walk(statement) if isinstance(node, ast.Try)
        ):
            raising = (isinstance(node, ast.Raise) for handler in tried.handlers for node in ast.walk(handler))
            if any(map(_catches, tried.handlers)) and not any(raising):
                for statement in (node for top in tried.body for node in ast.walk(top) if isinstance(node, ast.stmt)):
                    yield from _names(statement, _package(name))

    def _read(self, name: str) -> list[str]:
        return [imported for statement in _straight(self._body(name)) for imported in _names(statement, _package(name))]

    def _body(self, name: str) -> list[ast.stmt]:
        source = self._sources[name]
        try:
            with _PARSING:
                return read_python(source).body if len(source) <= _LARGEST else []
        except Unreadable:
            return []


def _package(name: str) -> str:
    return name.removesuffix(".__init__") if name.endswith(".__init__") else name.rpartition(".")[0]


_PARSING = threading.Lock()
"""Python's filters of warnings, which parsing sets, are the process's."""


def _straight(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that are executed whatever holds, and whose ImportError nothing catches."""
    left = list(reversed(body))
    while left:
        statement = left.pop()
        yield statement
        if isinstance(statement, ast.ClassDef):
            left += reversed(statement.body)
        elif isinstance(statement, ast.Try) and not any(map(_catches, statement.handlers)):
            left += reversed([*statement.body, *statement.orelse, *statement.finalbody])


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or not isinstance(kind, ast.Name) or kind.id in _CATCHES for kind in kinds)


def _names(statement: ast.stmt, package: str) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
    elif isinstance(statement, ast.ImportFrom):
        base = _absolute(statement, package)
        if base is not None:
            yield base
            yield from (f"{base}.{alias.name}" for alias in statement.names if alias.name != "*")
    elif isinstance(statement, ast.Expr):
        called = statement.value
        while isinstance(called, (ast.Call, ast.Attribute)):
            if isinstance(called, ast.Call) and isinstance(called.func, ast.Name) and called.func.id == "__import__":
                yield from (
                    arg.value for arg in called.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
                )
            called = called.func if isinstance(called, ast.Call) else called.value


def _absolute(statement: ast.ImportFrom, package: str) -> str | None:
    if not statement.level:
        return statement.module
    above = package.split(".")
    if statement.level > len(above) or not package:
        return None
    base = above[: len(above) - statement.level + 1]
    return ".".join([*base, *([statement.module] if statement.module else [])])


def _above(name: str) -> Iterator[str]:
    """`a` and `a.b` of `a.b.c`: they are imported first."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))
