"""The specs that a command line means: a path, a folder, a bare name, or none at all."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from envspec.base.errors import InputError, Place, SpecError

FOLDER = "specs"
_OTHERS = ("pixi.toml", "pyproject.toml", "Cargo.toml")
"""TOML files that stand in projects' folders and are no specs."""
_BEGINS = ("pyproject.toml", "pixi.toml", "environment.yml", "requirements.txt")
"""The files that a spec can begin with, by their usual names."""


def all_specs(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Give the named specs, each once, or every one of the nearest specs/. Raises SpecError when there is none."""
    if "" in paths:
        raise SpecError("the spec's path is empty", hint="give a spec, such as specs/NAME.toml")
    if paths:
        return tuple(dict.fromkeys(map(spec_file, paths)))
    for folder in _projects():
        if files := _in(folder / FOLDER):
            return tuple(map(_display_path, files))
    hint = "name a spec: envspec check path/to/spec.toml"
    if (begin := next(filter(os.path.isfile, _BEGINS), None)) is not None:
        hint = f"begin one: envspec init NAME --from {begin}"
    raise SpecError("there is no spec in specs/", hint=hint)


def only_spec() -> str:
    """Give the only spec of the nearest specs/; of several, the one that the user chooses at a terminal.

    Raises SpecError where there is none, InputError where several might be meant.
    """
    specs = all_specs(())
    if len(specs) == 1:
        return specs[0]
    from envspec.app.observer import observer

    chosen = observer().choose(f"there are {len(specs)} specs", {os.path.basename(spec)[:-5]: spec for spec in specs})
    if chosen is None:
        raise InputError(f"there are {len(specs)} specs: {', '.join(specs)}", hint=f"name one: {specs[0]}")
    return next(spec for spec in specs if os.path.basename(spec) == f"{chosen}.toml")


def split_spec(words: Sequence[str], *, optional: bool = False) -> tuple[str, tuple[str, ...]]:
    """Split the words of `[SPEC] PKG...`: the first is a spec where it is a spec's path, or names a spec and packages
    follow. With `optional`, none need follow. Raises SpecError and InputError as `only_spec` does."""
    first = words[0] if words else ""
    is_path = first.endswith(".toml") or (os.path.exists(first) and os.sep in first)
    if is_path or ((len(words) > 1 or optional) and spec_file(first) != first) or (words and not first):
        return first, tuple(words[1:])
    return only_spec(), tuple(words)


def spec_file(given: str) -> str:
    """Return the file that a spec's path, folder or bare name means. Any other text comes back unchanged.

    A folder means its only spec, or the only one of its specs/. A bare name means specs/NAME.toml here, or in a folder
    above within the same git repository. Raises SpecError for a folder with several specs.
    """
    if not given or os.path.isfile(given):
        return given

    path = Path(given)
    try:
        if path.is_dir():
            return _only(path)
        if path.exists() or path.name != given or given.endswith(".toml"):
            return given
        for folder in _projects():
            if (file := folder / FOLDER / f"{given}.toml").is_file():
                return _display_path(file)
    except (OSError, ValueError):
        pass  # reading it says what is wrong with it
    return given


def _only(folder: Path) -> str:
    specs = _in(folder / FOLDER) or _in(folder)
    if len(specs) > 1:
        message = f"the folder has {len(specs)} specs: {', '.join(path.name for path in specs)}"
        raise SpecError(message, hint=f"choose one: {specs[0]}", place=Place(str(folder)))
    return str(specs[0]) if specs else str(folder)


def _in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.toml") if path.name not in _OTHERS)


def _projects() -> Iterator[Path]:
    """Yield the current folder, then those above it up to the root of its git repository.

    Without a repository no folder above counts: anyone may put a specs/ into /tmp.
    """
    here = Path.cwd()
    yield here
    above = [here, *here.parents]
    root = next((number for number, folder in enumerate(above) if (folder / ".git").exists()), 0)
    yield from above[1 : root + 1]


def _display_path(path: Path) -> str:
    return os.path.relpath(path)
