"""The file of a spec's project: found from the spec, kept within the spec's own project folder, and read."""

from __future__ import annotations

import os
import posixpath
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from envspec.base.errors import NotPlain, Place, SpecError, StorageError
from envspec.base.open_folder import Location
from envspec.base.reader.document import decode
from envspec.packages.names import requirement_name
from envspec.spec.document import MAX_BYTES, project_root
from envspec.spec.model import Project, ProjectParts, Spec
from envspec.spec.project import parse_project

FILE = "pyproject.toml"


def project_location(spec: Spec) -> Location:
    """Give the folder of a spec's project. Raises SpecError for one outside the folder that the spec belongs to."""
    assert spec.asked_project is not None
    root = project_root(spec.path)
    place = spec.places.get("env.project.path") or spec.places.get("env.project")
    below = posixpath.normpath(posixpath.join(Path(spec.path).absolute().parent.relative_to(root).as_posix(),
                                              spec.asked_project.path))  # fmt: skip
    if below == ".." or below.startswith(("../", "/")):
        raise SpecError(
            f"env.project: '{spec.asked_project.path}' leads out of the folder that the spec belongs to",
            hint=f"keep the spec in the project: {FILE} in the folder that contains specs/, and project = '..'",
            place=place,
        )
    return Location(root, "" if below == "." else below)


def with_project(spec: Spec) -> Spec:
    """Read the pyproject.toml that a spec names; the spec with what that says, the same without one.

    Raises SpecError as `parse_project` does, and for a file that is missing, a link or elsewhere; StorageError.
    """
    if spec.asked_project is None:
        return spec
    location = project_location(spec)
    shown = os.path.normpath(os.path.join(os.path.dirname(spec.path), spec.asked_project.path, FILE))
    text = decode(_read(spec, location, shown), shown)
    tied = frozenset({*spec.pip.sources, *(_names_with_address(spec))})
    parts, below = spec.asked_project.parts, location.below or "."

    def read(wanted: ProjectParts) -> Project:
        return parse_project(text, below, wanted, shown, python=spec.python, tied=tied)

    more = {one.name: one.project for one in spec.targets if one.project != ProjectParts()}
    of_targets = {name: read(parts.with_more(own)).dependencies for name, own in more.items()}
    return replace(spec, project=replace(read(parts), of_targets=MappingProxyType(of_targets)))


def _names_with_address(spec: Spec) -> list[str]:
    return [requirement_name(one.text) for one in spec.pip.dependencies if " @ " in one.text]


def _read(spec: Spec, location: Location, shown: str) -> bytes:
    place = spec.places.get("env.project.path") or spec.places.get("env.project")
    try:
        with location.open() as folder:
            found = folder.refuse_odd(FILE)
            if found is not None and found.st_size > MAX_BYTES:
                raise SpecError(
                    "larger than 1 MiB, so it can't be a pyproject.toml", hint="name another folder", place=Place(shown)
                )
            content = folder.read(FILE)
    except NotPlain as error:
        raise SpecError(f"env.project: {error}", hint="put the file itself in its place", place=place) from None
    except (FileNotFoundError, NotADirectoryError):
        content = None
    except IsADirectoryError:
        raise SpecError(
            f"env.project: {shown} is a folder", hint=f"name the folder that has {FILE}", place=place
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise StorageError(f"can't be read: {reason}", place=Place(shown)) from None
    if content is None:
        above = Path(spec.path).absolute().parent.parent / FILE
        hint = (
            'the path is relative to the spec: project = ".."'
            if above.is_file()
            else f"name the folder that has {FILE}"
        )
        raise SpecError(f"env.project: {shown} doesn't exist", hint=hint, place=place)
    return content
