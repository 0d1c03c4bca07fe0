"""From a file of another tool to a draft of a spec."""

from __future__ import annotations

import os
from pathlib import Path

from envspec.base.errors import InputError, Place
from envspec.draft.gather import Gathered
from envspec.draft.model import Draft
from envspec.draft.requirements_txt import RequirementsReader
from envspec.packages.other_formats import BEGINS, PINS, TITLES, format_of
from envspec.review.diff.foreign.files import malformed, text_of, toml_of, yaml_of
from envspec.review.diff.foreign.shape import Malformed

KNOWN = ", ".join(TITLES[form].partition(" ")[2] for form in BEGINS)


def read_draft(path: Path) -> Draft:
    """Read what a file asks for, with the files that it names below the current folder or its own.

    Raises InputError for a file that doesn't exist, has no known format or isn't of its format, StorageError, and
    ToolError for YAML without PyYAML.
    """
    hint = f"a spec can begin with: {KNOWN}"
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
    below = here if folder.is_relative_to(here) else folder
    with malformed(path):
        reader = RequirementsReader(gathered, lambda other: text if other == path else text_of(other, hint), below)
        if form == "requirements":
            reader.file(path)
        elif form == "environment_yml":
            from envspec.draft import environment_yml

            environment_yml.read(yaml_of(text), path, gathered, reader)
        elif form == "cog_yaml":
            from envspec.draft import cog_yaml

            cog_yaml.read(yaml_of(text), path, gathered, reader)
        elif form == "dockerfile":
            from envspec.draft import dockerfile

            dockerfile.read(text, path, gathered, reader)
        elif form == "pixi_toml":
            from envspec.draft import pixi_toml

            pixi_toml.read(text, toml_of(text), path, gathered)
        else:
            from envspec.draft import pyproject

            pyproject.read(toml_of(text), path, gathered)
    if form != "pyproject" and gathered.project is not None:
        folder = Path(gathered.project[0])
        if Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(below)):
            _project(folder / "pyproject.toml", gathered)
        else:
            gathered.note(f"the project in {folder} isn't read: it lies outside {below.name}", Place(str(path)))
            gathered.project = None
    return gathered.draft()


def _project(path: Path, gathered: Gathered) -> None:
    """Read the project that a file installs: what it asks for counts where the spec can't name its folder."""
    from envspec.draft import pyproject

    with malformed(path):
        try:
            pyproject.read(toml_of(text_of(path)), path, gathered)
        except Malformed as error:
            gathered.note(f"the project's own dependencies aren't read: {error}", Place(str(path)))
