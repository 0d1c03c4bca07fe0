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

from envspec.artifacts.sdist.inert import OTHER_PYTHONS
from envspec.artifacts.sdist.pyproject import DEFAULT_REQUIRES, SETUPTOOLS, build_backend, table_of
from envspec.base.documents import Unreadable, read_python
from envspec.facts.wheel_bounds import NO_PKG_RESOURCES
from envspec.packages.names import PACKAGES_OF, requirement_name
from envspec.packages.requirement import canonical_name, is_requirement, parse_requirement
from envspec.packages.version_numbers import numbers_in

TORCH = "torch"
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
    perhaps   build tools that functions import, or that are imported under a condition
    extends   it compiles by torch's BuildExtension, which uses ninja where that is installed
    """

    modules: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()
    extends: bool = False

    def with_module(self, module: str | None) -> BuildImports:
        """Add a module that a build didn't find."""
        more = () if module is None or module in self.modules else (module,)
        return replace(self, modules=(*self.modules, *more))

    def lacks(
        self, package: str, declared: Sequence[str], present: Mapping[str, str] | None = None, *, has_torch: bool
    ) -> BuildLacks | None:
        """Give the imports that the build of `package`, which declares these requirements, doesn't find in packages
        (name → version, "" for any): by default in those that it declares. `has_torch`: the target has torch, so an
        extension would be compiled for it."""
        present = list_names(declared) if present is None else present
        missing = [module for module in self.modules if not _is_there(module, present)]
        if has_torch and package not in _WITHOUT_TORCH:
            missing += [module for module in self.optional if module not in missing and module not in present]
        return BuildLacks(tuple(missing), self._requirements(declared, missing)) if missing else None

    def _requirements(self, declared: Sequence[str], missing: Collection[str]) -> tuple[str, ...]:
        """List all that the build requires as `build-dependencies` has it: what it declares, and what it imports."""
        # a file by its URL is the source's own word alone
        plain = (line for line in declared if is_requirement(line) and parse_requirement(line).url is None)
        names = ((requirement_name(line), line) for line in plain)
        lines = {name: name if line in DEFAULT_REQUIRES else line for name, line in names}
        for module in (*self.modules, *self.perhaps, *missing):
            if (module in _TOOLS or module in missing) and is_requirement(package_of(module)):
                lines.setdefault(package_of(module), package_of(module))
        if self.extends and TORCH in lines:
            lines.setdefault("ninja", "ninja")
        if "pkg_resources" in self.modules:
            bounded = parse_requirement(lines["setuptools"])
            bounded.specifier &= f"<{NO_PKG_RESOURCES}"
            lines["setuptools"] = str(bounded)
        return tuple(lines[name] for name in sorted(lines, key=lambda name: (name != TORCH, name)))


class BuildLacks(Struct, frozen=True):
    """The imports of a build that it doesn't have.

    modules  their names
    line     all requirements of the build, as a value of `build-dependencies`
    """

    modules: tuple[str, ...]
    line: tuple[str, ...]

    def is_sure(self, declared: Sequence[str]) -> bool:
        """Return whether the modules are missing for sure: no package that the declared requirements lead to could have
        them."""
        return TORCH in self.modules or ALONE.issuperset(list_names(declared))


def list_names(declared: Sequence[str]) -> dict[str, str]:
    """Name the packages that a build declares, of any version."""
    return dict.fromkeys((requirement_name(line) for line in declared if is_requirement(line)), "")


def is_foreign(module: str, own: Collection[str]) -> bool:
    """Return whether a module belongs to another package: neither to Python nor to the source itself, whose modules are
    `own`."""
    return module not in own and module not in _STANDARD


def package_of(module: str) -> str:
    """Name the package that has a module: by its own name, unless it's known to have another."""
    return PACKAGES_OF.get(module, (canonical_name(module),))[0]


def _is_there(module: str, present: Mapping[str, str]) -> bool:
    version = present.get(package_of(module))
    if version is not None:
        return module != "pkg_resources" or not version or numbers_in(version)[0] < NO_PKG_RESOURCES
    if module == "numpy" and "oldest-supported-numpy" in present:
        return True
    return module not in _TOOLS and not ALONE.issuperset(present)


Read = Callable[[str], "str | None"]
"""Gives the text of a Python file of the source by its path; None where there is none."""


def build_imports(read: Read, own: Collection[str], project: Mapping[str, Any]) -> BuildImports:
    """Read a build's imports. `own` are the top-level modules of the source's folder, `project` is pyproject.toml's
    table."""
    starts = tuple(_starts(project))
    imports = _Imports(read, frozenset(own), starts, {}, {})
    for path in starts:
        imports.follow(path, "runs")
    sure = sorted(name for name, state in imports.modules.items() if state == "runs")
    perhaps = sorted(name for name, state in imports.modules.items() if state == "may run" and name != TORCH)
    optional = (TORCH,) if imports.modules.get(TORCH, "runs") != "runs" else ()
    return BuildImports(tuple(sure), optional, tuple(perhaps), imports.extends)


def _starts(project: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of the code that a build begins with."""
    backend, folders = build_backend(project), table_of(project, "build-system").get("backend-path", [])
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
        """Read an imported file, once for each state."""
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
            for inner, inner_state in _inner(statement, state):
                if inner_state == "runs" or builds:
                    self._block(inner, path, inner_state, builds=builds)
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    self._take(alias.name, state)
            elif isinstance(statement, ast.ImportFrom):
                folders = path.split("/")
                above = folders[: -statement.level] if statement.level else ()
                base = ".".join([*above, *filter(None, [statement.module])])
                for alias in statement.names if statement.level <= len(folders) else ():
                    self._take(base, state, alias.name)

    def _take(self, module: str, state: _State, inner: str = "") -> None:
        """Take an import of a module, or of what is in it."""
        top = module.partition(".")[0]
        if top and top in self.own:
            names = [*module.split("."), *filter(None, [inner])]
            for end in range(1, len(names) + 1):
                stem = "/".join(names[:end])
                self.follow(f"{stem}/__init__.py", state)
                self.follow(f"{stem}.py", state)
        elif top and is_foreign(top, self.own) and (state == "runs" or top in _TOOLS):
            self.modules[top] = min(self.modules.get(top, state), state, key=_STATES.index)


def _inner(statement: ast.stmt, state: _State) -> Iterator[tuple[Sequence[ast.stmt], _State]]:
    """Yield the blocks inside a statement, each with whether it runs."""
    later: _State = "may run" if state == "runs" else state
    match statement:
        case ast.Try(body, handlers, orelse, finalbody):
            inside = "caught" if any(map(_goes_on, handlers)) else state
            yield from ((body, inside), (orelse, inside), (finalbody, state))
            yield from ((handler.body, "caught") for handler in handlers)
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
    """Return whether a condition holds only where an environment variable is set, which no build's is unless the spec
    says so: `os.getenv("BUILD_CUDA", "0") == "1"`."""
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
    """Return whether a handler catches a failed import and lets the build go on."""
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else _CAUGHT
    if not names & _CAUGHT:
        return False
    match handler.body[-1]:
        case ast.Raise():
            return False
        case ast.Expr(ast.Call(ast.Name(called) | ast.Attribute(attr=called))):
            return called not in _ENDS
    return True
