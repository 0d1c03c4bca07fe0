"""The modules that a repository's own Python sources import, read from their syntax: no code is run."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from envspec.base.documents import Unreadable, read_python
from envspec.base.errors import InputError
from envspec.base.plain_files import read_plain
from envspec.draft.join import Declaration
from envspec.draft.repository import is_pruned
from envspec.facts import most_used
from envspec.facts.cuda_stack import TORCH
from envspec.packages.names import PACKAGES_OF, requirement_name
from envspec.packages.requirement import canonical_name, is_requirement

_LARGEST = 1 << 20
"""Bytes of a source that is read."""
_STANDARD = sys.stdlib_module_names | {"distutils", "imp"}
_ASIDE = re.compile(r"tests?|testing|conftest|test_.*|.*_test|examples?|demos?|docs?|bench(?:marks?)?|notebooks?|setup")
"""A folder or a module that isn't the code itself."""
_OTHERWISE: Mapping[str, tuple[str, ...]] = {**PACKAGES_OF, "torch": tuple(sorted(TORCH))}


_THROUGH = (("torch.utils.tensorboard", "tensorboard"),)
"""Modules that import a package which theirs doesn't require, as the first line of torch/utils/tensorboard does."""


class Import(Struct, frozen=True):
    """A module that sources import, by the files that do: as they are imported themselves (`files`), only in a
    try-block or a function (`guarded`), only in tests, examples and the like (`aside`)."""

    module: str
    files: tuple[str, ...] = ()
    guarded: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()


def read_imports(root: Path) -> tuple[Import, ...]:
    """Read the imports of the sources below a folder, but for the standard library's and their own modules."""
    kinds_by_module: dict[str, tuple[dict[str, None], dict[str, None], dict[str, None]]] = {}
    every = tuple(_sources(root))
    roots = _roots(every, root)
    for path in every:
        relative = path.relative_to(root)
        is_aside = any(_ASIDE.fullmatch(part) for part in (*relative.parts[:-1], relative.stem))
        for dotted, is_guarded in _modules(path):
            module, _, below = dotted.partition(".")
            below = below.partition(".")[0]
            if module not in _STANDARD and not (
                _is_own(module, below, root, path.parent) or _is_of_a_part(module, below, path, roots)
            ):
                kinds = kinds_by_module.setdefault(module, ({}, {}, {}))
                kinds[2 if is_aside else 1 if is_guarded else 0][relative.as_posix()] = None
    return tuple(Import(module, *map(tuple, kinds)) for module, kinds in sorted(kinds_by_module.items()))


def _sources(root: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(subfolder for subfolder in folders if not is_pruned(subfolder))
        for name in sorted(files):
            path = os.path.join(folder, name)
            # a link may lead to a file of the user's own, outside of the repository
            plain = name.endswith(".py") and os.path.isfile(path) and not os.path.islink(path)
            if plain and os.path.getsize(path) <= _LARGEST:
                yield Path(path)


def _modules(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the modules that a source imports, and whether each stands in a try-block or a function. What only type
    checkers read is left out; a source that can't be parsed imports nothing."""
    try:
        tree = read_python(read_plain(path))
    except (OSError, InputError, Unreadable):
        return
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, guarded = waiting.pop()
        named: list[str] = []
        if isinstance(node, ast.Import):
            named = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            named = [node.module]
        elif not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
            within = guarded or isinstance(node, ast.Try | ast.FunctionDef | ast.AsyncFunctionDef)
            waiting += ((child, within) for child in ast.iter_child_nodes(node))
        yield from ((module, guarded) for module in named)
        yield from ((other, guarded) for module in named for begin, other in _THROUGH if module.startswith(begin))


def _roots(sources: Iterable[Path], root: Path) -> Mapping[str, Collection[Path]]:
    """Give the folders below `root` that hold a module or a folder of each name and are no packages: programs that
    begin there, or put such a folder on Python's path, import by that name."""
    folders_by_name: dict[str, set[Path]] = {}
    for path in sources:
        folders_by_name.setdefault(path.stem, set()).add(path.parent)
        for folder in path.parents:
            if folder == root or folder.parent in folders_by_name.setdefault(folder.name, set()):
                break
            folders_by_name[folder.name].add(folder.parent)
    return {
        name: [place for place in places if not (place / "__init__.py").is_file()]
        for name, places in folders_by_name.items()
    }


def _is_of_a_part(module: str, below: str, path: Path, roots: Mapping[str, Collection[Path]]) -> bool:
    """Return whether a module belongs to a part of the repository. A name that PyPI's packages have too belongs to it
    for the sources of that part alone."""
    is_used = canonical_name(module) in most_used.names()
    return any(
        _is_module(folder, module, below) and (not is_used or folder in path.parents)
        for folder in roots.get(module, ())
    )


def _is_own(module: str, below: str, *folders: Path) -> bool:
    """Return whether a module is the repository's own: from its root, from its src, or from beside the source."""
    for folder in (*folders, folders[0] / "src"):
        if _is_module(folder, module, below):
            return True
        # a folder without that file gives way to an installed package
        if os.path.isdir(os.path.join(folder, module)) and canonical_name(module) not in most_used.names():
            return True
    return False


def _is_module(folder: Path, module: str, below: str) -> bool:
    # os.path's functions answer no for names that are longer than the system's
    place = os.path.join(folder, module)
    if os.path.isfile(f"{place}.py") or os.path.isfile(os.path.join(place, "__init__.py")):
        return True
    within = os.path.join(place, below)
    return bool(below) and (os.path.isfile(f"{within}.py") or os.path.isdir(within))


def packages_of(module: str) -> tuple[str, ...]:
    """Name the packages that can bring a module, as far as its name tells."""
    return _OTHERWISE.get(module, (canonical_name(module),))


def is_brought(module: str, names: Collection[str]) -> bool:
    """Return whether one of these packages (normalised names) brings a module, as far as names tell."""
    return any(package in names for package in packages_of(module))


def declarations(sources: Iterable[Declaration]) -> Mapping[str, Sequence[str]]:
    """Give the places of a repository that ask for each package (normalised name): files, extras and groups."""
    places_by_package: dict[str, dict[str, None]] = {}
    for source in sources:
        draft = source.draft
        for text in (*draft.pip, *draft.own, *draft.conda):
            places_by_package.setdefault(requirement_name(text.rpartition("::")[2]), {})[source.file] = None
        for name, requirements in draft.available.items():
            for text in filter(is_requirement, requirements):
                places_by_package.setdefault(requirement_name(text), {})[f"the {name} of {source.file}"] = None
    return {name: tuple(places) for name, places in places_by_package.items()}


def find_declaration(module: str, known: Mapping[str, Sequence[str]]) -> tuple[str, tuple[str, ...]] | None:
    """Give the package that a repository declares for a module, and where; None where it declares none."""
    return next(((package, tuple(known[package])) for package in packages_of(module) if package in known), None)
