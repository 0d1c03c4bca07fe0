"""From a file of another tool to a draft of a spec."""

from __future__ import annotations

import os
from pathlib import Path

from envspec.base.errors import InputError, Place
from envspec.draft import cog_yaml, dockerfile, environment_yml, pixi_toml, pyproject, setup_py
from envspec.draft.gather import Gathered
from envspec.draft.model import Draft
from envspec.draft.requirements_txt import RequirementsReader
from envspec.packages.other_formats import BEGINS, PINS, TITLES, format_of
from envspec.review.diff.foreign.files import malformed, text_of, toml_of, yaml_of
from envspec.review.diff.foreign.shape import Malformed

KNOWN = ", ".join(TITLES[form].partition(" ")[2] for form in BEGINS)


def read_draft(path: Path, root: Path | None = None) -> Draft:
    """Read what a file asks for, with the files that it names below `root`: the current folder or the file's own.

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
            environment_yml.read(yaml_of(text), path, gathered, reader)
        elif form == "conda_list":
            environment_yml.read_list(text, path, gathered)
        elif form == "cog_yaml":
            cog_yaml.read(yaml_of(text), path, gathered, reader)
        elif form == "dockerfile":
            dockerfile.read(text, path, gathered, reader)
        elif form == "readme":
            dockerfile.read_commands(text, path, gathered, reader)
        elif form == "pixi_toml":
            pixi_toml.read(text, toml_of(text), path, gathered)
        elif form == "setup_py":
            setup_py.read(text, path, gathered, reader)
        elif form == "setup_cfg":
            setup_py.read_cfg(text, path, gathered)
        elif form == "python_version":
            gathered.python_version(text.split("\n")[0], Place(str(path), 1))
        else:
            pyproject.read(toml_of(text), path, gathered, reader)
    if form in ("environment_yml", "dockerfile", "readme", "conda_list"):
        environment_yml.move_from_ended(text, path, gathered)
    if form != "pyproject" and gathered.project is not None:
        folder = Path(gathered.project[0])
        if Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(below)):
            _project(folder / "pyproject.toml", gathered, reader)
        else:
            gathered.note(f"the project in {folder} isn't read: it lies outside {below.name}", Place(str(path)))
            gathered.project = None
    return gathered.draft()


def _project(path: Path, gathered: Gathered, reader: RequirementsReader) -> None:
    """Read the project that a file installs: what it asks for counts where the spec can't name its folder."""
    with malformed(path):
        try:
            pyproject.read(toml_of(text_of(path)), path, gathered, reader)
        except Malformed as error:
            gathered.note(f"the project's own dependencies aren't read: {error}", Place(str(path)))
