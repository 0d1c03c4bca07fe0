"""A repository's files that say something of its environment: found, read, and told apart by what they are for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from envspec.base.errors import InputError, Place
from envspec.draft import cog_yaml, dockerfile, environment_yml, pixi_toml, pyproject, setup_py
from envspec.draft.gather import Gathered
from envspec.draft.join import PART, Declaration, with_extras
from envspec.draft.lines import located_toml, located_yaml
from envspec.draft.model import Draft, Note
from envspec.draft.requirements_txt import RequirementsReader
from envspec.lock.formats.foreign.shape import Malformed, malformed, text_of
from envspec.packages.other_formats import BEGINS, PINS, TITLES, format_of

# From a file of another tool to a draft of a spec.


KNOWN = ", ".join(TITLES[form].partition(" ")[2] for form in BEGINS)


def read_draft(path: Path, root: Path | None = None, known: frozenset[str] = frozenset()) -> Draft:
    """Read what a file asks for, with the files that it names below `root`: the current folder or the file's own.
    `known` has the folders of projects that are being read already.

    Raises InputError for a file that doesn't exist, has no known format or isn't of its format, StorageError, and
    ToolError for YAML without PyYAML.
    """
    hint = f"a spec can begin with a repository's folder, or: {KNOWN}"
    text = text_of(path, hint)
    form = format_of(path.name, text)
    if form not in BEGINS:
        if form in TITLES:
            of = PINS.get(path.name, "the file that it was locked from")
            hint = f"begin with {of}, then take its versions over: `envspec lock specs/NAME.toml --pins-from {path}`"
        what = TITLES.get(form or "", "a spec already" if form == "spec" else "no file that envspec knows")
        raise InputError(f"this is {what}", hint=hint, place=Place(str(path)))
    gathered = Gathered()
    here, folder = Path.cwd(), path.absolute().parent
    below = root or (here if folder.is_relative_to(here) else folder)
    with malformed(path):
        reader = RequirementsReader(gathered, lambda other: text if other == path else text_of(other, hint), below)
        if form == "requirements":
            reader.file(path)
        elif form == "environment_yml":
            environment_yml.read(text, path, gathered, reader)
        elif form == "conda_list":
            environment_yml.read_list(text, path, gathered)
        elif form == "cog_yaml":
            cog_yaml.read(located_yaml(text), path, gathered, reader)
        elif form == "dockerfile":
            dockerfile.read(text, path, gathered, reader)
        elif form == "readme":
            dockerfile.read_commands(text, path, gathered, reader)
        elif form == "pixi_toml":
            pixi_toml.read(text, located_toml(text), path, gathered)
        elif form == "setup_py":
            setup_py.read(text, path, gathered, reader)
        elif form == "setup_cfg":
            setup_py.read_cfg(text, path, gathered)
        elif form == "python_version":
            gathered.claim("python-version", text.split("\n")[0], Place(str(path), 1))
        else:
            pyproject.read(located_toml(text), path, gathered, reader)
    if form in ("environment_yml", "dockerfile", "readme", "conda_list"):
        environment_yml.move_from_ended(path, gathered)
    if form != "pyproject" and gathered.project is not None:
        folder = Path(gathered.project[0])
        if Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(below)):
            _project(folder / "pyproject.toml", gathered, reader)
        else:
            gathered.note(f"the project in {folder} isn't read: it lies outside {below.name}", Place(str(path)))
            gathered.project = None
    known |= {
        os.path.realpath(project_folder)
        for project_folder in (path.parent, gathered.project[0] if gathered.project else "")
    }
    read: dict[str, tuple[str, ...]] = {}
    # one may ask for another, which isn't an index's to give
    while left := {name: extras for name, extras in gathered.folders.items() if read.get(name) != extras}:
        name, extras = next(iter(left.items()))
        read[name] = extras
        if not Path(os.path.realpath(name)).is_relative_to(os.path.realpath(below)):
            gathered.note(f"the project in {name} isn't read: it lies outside {below.name}", Place(str(path)))
        elif os.path.realpath(name) not in known:
            _take_further(Path(name) / "pyproject.toml", extras, gathered, below, known)
    return gathered.draft()


def _take_further(path: Path, extras: tuple[str, ...], gathered: Gathered, below: Path, known: frozenset[str]) -> None:
    """Take the requirements of a project that isn't the one which the spec names."""
    try:
        further = with_extras(read_draft(path, below, known | {os.path.realpath(path.parent)}), extras)
    except InputError as error:
        gathered.note(f"the project's dependencies aren't read: {error.message}", error.place or Place(str(path)))
        return
    gathered.note("the requirements of the project are listed: a spec names one local project", Place(str(path)))
    gathered.take(replace(further, project=None), str(path))


def _project(path: Path, gathered: Gathered, reader: RequirementsReader) -> None:
    """Read the project that a file installs: what it asks for counts where the spec can't name its folder."""
    with malformed(path):
        try:
            pyproject.read(located_toml(text_of(path)), path, gathered, reader)
        except Malformed as error:
            gathered.note(f"the project's own dependencies aren't read: {error}", Place(str(path)))


_DEPTH = 3
"""Folders below the root that are looked into. What lies deeper is a part with a life of its own."""
_MOST = 200
"""Files that are read at most."""
_PRUNED = re.compile(
    r"\..*|node_modules|site-packages|__pycache__|venv|env|build|dist|third_party|vendor|specs|locks|recipes"
)
_FILES = re.compile(
    r"pyproject\.toml|setup\.(?:py|cfg)|pixi\.toml|cog\.yaml|\.python-version|README(?:\.(?:md|rst))?"
    r"|(?:Dockerfile|Containerfile)(?:[.-].+)?|.+\.[Dd]ockerfile"
    r"|(?:.*[-_.])?(?:environment|conda)(?:[-_.].*)?\.ya?ml|.*requirements?.*\.(?:txt|in)"
)
_ASIDE = re.compile(
    r"(?:^|[^a-z])((?:dev|develop|development|tests?|testing|docs?|documentation|lint|ci|optional|extras?|examples?|demos?"
    r"|eval|evaluation|bench|benchmarks?|notebooks?|cpu|macos|mac|osx|windows|win|rocm|amd|xpu|intel|npu|ascend|directml|tpu|mps|lock))"
    r"(?:[^a-z]|$)",
    re.IGNORECASE,
)
"""Words in a path for what isn't the environment itself, or is it on machines without CUDA."""


def read_repository(root: Path) -> tuple[Declaration, ...]:
    """Read the files of a repository, those that count first, in the order in which they do. One that can't be read
    says so in a note of its own.

    Raises InputError for a folder without any, ToolError for YAML without PyYAML.
    """
    ranked = sorted((_rank(path, root), path) for path in _files(root))
    names = {path.name for _, path in ranked if path.parent == root}
    sources = []
    for (_, depth, _), path in ranked:
        relative = path.relative_to(root)
        draft = _read(path, root)
        sources.append(Declaration(str(path), draft, _aside(relative, depth, names)))
    return tuple(sorted(sources, key=lambda declaration: declaration.aside is not None))


def files_beside(folder: Path) -> tuple[str, ...]:
    """List the files in a folder itself that say something of an environment, but for what is written for people."""
    names = sorted(os.listdir(folder))
    return tuple(
        name for name in names if _FILES.fullmatch(name) and not name.startswith("README") and (folder / name).is_file()
    )


def is_pruned(folder: str) -> bool:
    """Return whether a folder of this name holds what others made, or what envspec writes."""
    return bool(_PRUNED.fullmatch(folder))


def _files(root: Path) -> Iterator[Path]:
    count = 0
    for folder, folders, files in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(subfolder for subfolder in folders if depth < _DEPTH and not is_pruned(subfolder))
        for name in sorted(files):
            is_read = _FILES.fullmatch(name) or _is_list(Path(folder).name, name)
            if is_read and count < _MOST and os.path.isfile(os.path.join(folder, name)):
                count += 1
                yield Path(folder, name)


def _is_list(folder: str, name: str) -> bool:
    return folder == "requirements" and name.endswith((".txt", ".in"))


def _rank(path: Path, root: Path) -> tuple[int, int, str]:
    """Return the place of a file among the others: by its format, then its depth and name."""
    form = format_of(path.name, "")
    form = "environment_yml" if path.suffix in (".yml", ".yaml") and form is None else form
    place = BEGINS.index(form) if form in BEGINS else len(BEGINS)
    return place, len(path.relative_to(root).parts) - 1, str(path)


def _read(path: Path, root: Path) -> Draft:
    try:
        return read_draft(path, root)
    except InputError as error:
        return Draft(notes=(Note(f"it isn't read: {error.message}", error.place),))


def _aside(path: Path, depth: int, names: set[str]) -> str | None:
    """Return why a file is only offered; None for one that counts."""
    if format_of(path.name, "") == "readme":
        return "its lines are for people"
    if word := _ASIDE.search(str(path.with_suffix(""))):
        return f"it's called {word[1]}"
    if depth and not (depth == 1 and path.parent.name == "requirements"):
        return PART
    if path.suffix == ".txt" and f"{path.stem}.in" in names:
        return f"it's locked from {path.stem}.in"
    usual = {"environment.yml", "environment.yaml", "Dockerfile"} & names
    if (
        usual
        and path.name not in usual
        and (path.suffix in (".yml", ".yaml") or format_of(path.name, "") == "dockerfile")
    ):
        return f"{min(usual)} is beside it"
    return None
