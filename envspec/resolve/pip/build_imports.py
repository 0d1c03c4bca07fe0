"""The modules that a source's build imports, read from its setup.py or its own backend without running either. Pure.

Imports at the top of a file run with every build. Those in functions and under conditions may not: they are a need for
torch alone. So is an import whose failure is caught: without torch, the build leaves out its extensions in silence.
"""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from packaging.requirements import Requirement

from envspec.base.documents import Unreadable, read_python
from envspec.facts.wheel_bounds import NO_PKG_RESOURCES
from envspec.packages.names import PACKAGES_OF, requirement_name
from envspec.packages.requirement import canonical_name, is_requirement, parse_requirement
from envspec.packages.version_numbers import numbers_in
from envspec.resolve.pip.inert import LEGACY, OTHER_PYTHONS, SETUPTOOLS

TORCH = "torch"
_DEFAULT = ("setuptools>=40.8.0", "wheel")
"""What a source that declares nothing is built with (PEP 518): the bound is older than any release in use."""
_TOOLS = frozenset(
    {
        "Cython", "cffi", "cmake", "mypyc", "nanobind", "ninja", "numpy", "packaging", "pkg_resources", "psutil",
        "pybind11", "scipy", "setuptools", "setuptools_rust", "setuptools_scm", "skbuild", "tomli", "torch",
        "torchvision", "triton", "wheel",
    }
)  # fmt: skip
"""Modules that builds import."""
ALONE = frozenset({"cython", "cffi", "cmake", "ninja", "numpy", "packaging", "psutil", "pybind11", "pycparser"})
ALONE |= {"setuptools", "setuptools-scm", "tomli", "wheel"}
"""Packages that bring no module of another name: beside them alone, a module of no known package isn't there."""
_WITHOUT_TORCH = frozenset({"deepspeed", "monai"})
"""Sources that import torch where they can, and compile nothing with it unless a variable says so. Source: their
setup.py (DS_BUILD_OPS, BUILD_MONAI)."""
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_ENDS = frozenset({"exit", "_exit", "quit"})
_FILES = 200
"""Files of a source that are followed."""

_STANDARD = sys.stdlib_module_names | OTHER_PYTHONS
_State = Literal["runs", "may run", "caught"]


class BuildImports(Struct, frozen=True):
    """The modules that a build imports, by their top-level names.

    modules   those without which it fails
    optional  torch, where the build may go on without, and compiles no extension of it
    perhaps   build tools that functions import, or what stands under a condition
    extends   it compiles by torch's BuildExtension, which takes ninja where it's there
    """

    modules: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    extends: bool = False

    def with_module(self, module: str | None) -> BuildImports:
        """Add a module that a build didn't find."""
        more = () if module is None or module in self.modules else (module,)
        return replace(self, modules=(*self.modules, *more))

    def lacking(self, package: str, there: Mapping[str, str], *, has_torch: bool) -> tuple[str, ...]:
        """List the modules that the build of `package` doesn't find beside packages (name → version, "" for any).
        `has_torch`: so has the target, for which an extension would be compiled."""
        missing = tuple(one for one in self.modules if not _is_there(one, there))
        if not (has_torch and package not in _WITHOUT_TORCH):
            return missing
        return (*missing, *(one for one in self.optional if one not in missing and one not in there))

    def requirements(self, declared: Sequence[str], lacking: Sequence[str]) -> tuple[str, ...]:
        """List all that the build requires as `build-dependencies` has it: what it declares, and what it imports."""
        # a file by its URL is the source's own word alone
        plain = (one for one in declared if is_requirement(one) and parse_requirement(one).url is None)
        lines = {requirement_name(one): _plain(one) for one in plain}
        for module in (*self.modules, *self.perhaps, *lacking):
            if (module in _TOOLS or module in lacking) and is_requirement(package_of(module)):
                lines.setdefault(package_of(module), package_of(module))
        if self.extends and TORCH in lines:
            lines.setdefault("ninja", "ninja")
        if "pkg_resources" in self.modules:
            lines["setuptools"] = _with_bound(lines["setuptools"], f"<{NO_PKG_RESOURCES}")
        return tuple(lines[name] for name in sorted(lines, key=lambda name: (name != TORCH, name)))


class BuildLacks(Struct, frozen=True):
    """The imports of a build that it doesn't have.

    modules  their names
    line     all that the build requires, as `build-dependencies` has it
    """

    modules: tuple[str, ...]
    line: tuple[str, ...]


def is_foreign(module: str, own: Collection[str]) -> bool:
    """Say whether a module is of another package than the source itself, whose modules are `own`, and Python."""
    return module not in own and module not in _STANDARD


def package_of(module: str) -> str:
    """Name the package that has a module: by its own name, unless it's known to have another."""
    return PACKAGES_OF.get(module, (canonical_name(module),))[0]


def _is_there(module: str, there: Mapping[str, str]) -> bool:
    package = package_of(module)
    if package in there:
        version = there[package]
        return module != "pkg_resources" or not version or numbers_in(version)[0] < NO_PKG_RESOURCES
    if module == "numpy" and "oldest-supported-numpy" in there:
        return True
    return module not in _TOOLS and not ALONE.issuperset(there)


def _plain(line: str) -> str:
    return requirement_name(line) if line in _DEFAULT else line


def _with_bound(line: str, bound: str) -> str:
    requirement: Requirement = parse_requirement(line)
    requirement.specifier &= bound
    return str(requirement)


Read = Callable[[str], "str | None"]
"""Gives the text of a Python file of the source by its path; None where there is none."""


def build_imports(read: Read, own: Collection[str], project: Mapping[str, Any]) -> BuildImports:
    """Read what a build imports. `own` are the top-level modules of the source's folder, `project` is pyproject.toml's
    table."""
    starts = tuple(_starts(project))
    found = _Imports(read, frozenset(own), starts, {}, {})
    for path in starts:
        found.follow(path, "runs")
    sure = sorted(name for name, state in found.modules.items() if state == "runs")
    perhaps = sorted(name for name, state in found.modules.items() if state == "may run" and name != TORCH)
    optional = (TORCH,) if TORCH in found.modules and TORCH not in sure else ()
    return BuildImports(tuple(sure), optional, tuple(perhaps), found.extends)


def _starts(project: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the code that a build begins with."""
    system = project.get("build-system")
    system = system if isinstance(system, dict) else {}
    backend, folders = str(system.get("build-backend", LEGACY)), system.get("backend-path", [])
    for folder in folders if isinstance(folders, list) else ():
        stem = posixpath.normpath(posixpath.join(str(folder), backend.partition(":")[0].replace(".", "/")))
        yield from (f"{stem}.py", f"{stem}/__init__.py")
    if backend in SETUPTOOLS or folders:
        yield "setup.py"


_STATES: tuple[_State, ...] = ("runs", "may run", "caught")


class _Imports(Struct):
    """The imports of files that run into each other. `modules` has the surest state of each, `seen` that of files."""

    read: Read
    own: frozenset[str]
    starts: tuple[str, ...]
    modules: dict[str, _State]
    seen: dict[str, _State]
    extends: bool = False

    def follow(self, path: str, state: _State) -> None:
        """Read a file that is imported, once a state."""
        before = self.seen.get(path)
        if (before and _STATES.index(before) <= _STATES.index(state)) or len(self.seen) >= _FILES:
            return
        self.seen[path] = state
        if (text := self.read(path)) is None:
            return
        try:
            body = read_python(text).body
        except (Unreadable, SyntaxError):
            return
        # what a package's own functions import, no build runs
        builds = path in self.starts or "setuptools" in text or "cpp_extension" in text
        self._block(body, path, state, builds=builds)
        self.extends = self.extends or (builds and re.search(r"\bBuildExtension\b", text) is not None)

    def _block(self, body: Sequence[ast.stmt], path: str, state: _State, *, builds: bool) -> None:
        for statement in body:
            for inner, its in _inner(statement, state):
                if its == "runs" or builds:
                    self._block(inner, path, its, builds=builds)
            if isinstance(statement, ast.Import):
                for one in statement.names:
                    self._take(one.name, state)
            elif isinstance(statement, ast.ImportFrom):
                self._take_from(statement, path, state)

    def _take_from(self, statement: ast.ImportFrom, path: str, state: _State) -> None:
        base = statement.module or ""
        if statement.level:
            folder = path.split("/")[: -statement.level]
            if len(path.split("/")) < statement.level:
                return
            base = ".".join([*folder, *filter(None, [base])])
        for one in statement.names:
            self._take(base, state, one.name)

    def _take(self, name: str, state: _State, inner: str = "") -> None:
        top = name.partition(".")[0]
        if not top:
            return
        if top in self.own:
            parts = [*name.split("."), *filter(None, [inner])]
            for end in range(1, len(parts) + 1):
                stem = "/".join(parts[:end])
                self.follow(f"{stem}/__init__.py", state)
                self.follow(f"{stem}.py", state)
        elif is_foreign(top, self.own) and (state == "runs" or top in _TOOLS):
            before = self.modules.get(top, state)
            self.modules[top] = min(before, state, key=_STATES.index)


def _inner(statement: ast.stmt, state: _State) -> Iterator[tuple[Sequence[ast.stmt], _State]]:
    """Yield the blocks inside a statement, each with whether it runs."""
    later: _State = "may run" if state == "runs" else state
    match statement:
        case ast.Try(body, handlers, orelse, finalbody):
            inside = "caught" if any(map(_goes_on, handlers)) else state
            yield from ((body, inside), (orelse, inside), (finalbody, state))
            yield from ((one.body, "caught") for one in handlers)
        case ast.If(test, body, orelse) if "__main__" in ast.dump(test):
            yield from ((body, state), (orelse, "caught"))
        case ast.If(test, _, orelse) if "TYPE_CHECKING" in ast.dump(test):
            yield orelse, state
        case ast.If(test, _, orelse) if _wants_variable(test):
            yield orelse, state
        case ast.If(_, body, orelse):
            yield from ((body, later), (orelse, later))
        case ast.ClassDef(body=body) | ast.With(body=body) | ast.For(body=body) | ast.While(body=body):
            yield body, state
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body):
            yield body, later


_UNSET = object()


def _wants_variable(test: ast.expr) -> bool:
    """Say whether a condition holds only where an environment variable is set, which no build's is unless the spec says
    so: `os.getenv("BUILD_CUDA", "0") == "1"`."""
    match test:
        case ast.BoolOp(ast.And(), values):
            return any(map(_wants_variable, values))
        case ast.Compare(ast.Constant(), [ast.In()], [ast.Attribute(attr="environ")]):
            return True
        case ast.Compare(left, [ast.Eq() | ast.In() as operator], [right]):
            value = _unset_value(left)
            try:
                other = ast.literal_eval(right)
                return value is not _UNSET and not (value == other if isinstance(operator, ast.Eq) else value in other)
            except (ValueError, TypeError):
                return False
    return (value := _unset_value(test)) is not _UNSET and not value


def _unset_value(called: ast.expr) -> object:
    """Give the value of an expression on an environment variable that isn't set; `_UNSET` for any other expression."""
    match called:
        case ast.Call(ast.Attribute(attr="getenv") | ast.Attribute(ast.Attribute(attr="environ"), "get"), [_, *rest]):
            return None if not rest else rest[0].value if isinstance(rest[0], ast.Constant) else _UNSET
        case ast.Call(ast.Attribute(value, "lower" | "upper" | "strip" as method), []):
            inner = _unset_value(value)
            return getattr(inner, method)() if isinstance(inner, str) else _UNSET
        case ast.Call(ast.Name("int"), [value]):
            inner = _unset_value(value)
            return int(inner) if isinstance(inner, str) and re.fullmatch("[0-9]{1,18}", inner) else _UNSET
        case ast.Call(ast.Name("bool"), [value]):
            return _unset_value(value)
    return _UNSET


def _goes_on(handler: ast.ExceptHandler) -> bool:
    """Say whether a handler catches a failed import and lets the build go on."""
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else _CAUGHT
    if not names & _CAUGHT:
        return False
    last = handler.body[-1]
    if isinstance(last, ast.Raise):
        return False
    return not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and _name(last.value.func) in _ENDS)


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
