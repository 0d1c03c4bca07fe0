"""projects.toml, digests.toml and the specs, read."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli

from envspec.spec.model import Spec
from envspec.spec.parse import load_spec
from stacks.own_files import joined, listed_bounds

FOLDER = Path(__file__).resolve().parent
DIGESTS = FOLDER / "digests.toml"


@dataclass(frozen=True)
class Project:
    """What a spec here follows.

    name        the stack's, and its spec's
    repository  owner and name of the project
    revision    the commit that the files are of
    files       the project's own files, by their paths in it
    parts       what of the files counts besides plain requirements (`stacks.own_files`)
    adds        requirement → where it comes from, if not from these files
    leaves_out  requirement of these files → why the spec doesn't have it
    explained   why envspec's answer isn't uv's
    flat_page   wheels of a page like that of its spec's `find-links`, with what each requires: `stacks.flat_pages`
    recorded    whether `stacks.recording` has what it takes to lock it
    """

    name: str
    repository: str
    revision: str
    files: tuple[str, ...]
    parts: tuple[str, ...] = ()
    adds: Mapping[str, str] = field(default_factory=dict)
    leaves_out: Mapping[str, str] = field(default_factory=dict)
    explained: str = ""
    flat_page: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recorded: bool = False

    @property
    def spec_path(self) -> Path:
        return FOLDER / self.name / "spec.toml"

    def spec(self) -> Spec:
        return load_spec(str(self.spec_path))

    def as_the_project_has_them(self) -> tuple[str, ...]:
        """List the spec's requirements without those it adds and with those it leaves out, normalised."""
        added = set(joined(self.adds))
        own = [text for text in joined(one.text for one in self.spec().pip.dependencies) if text not in added]
        return joined([*own, *self.leaves_out])

    def bounds(self) -> tuple[str, ...]:
        """List the spec's constraints and overrides, normalised, as `own_bounds` lists the project's."""
        terms = self.spec().pip.terms
        return listed_bounds((one.text for one in terms.constraints), (one.text for one in terms.overrides))


def projects() -> dict[str, Project]:
    """Read projects.toml: a project for each stack."""
    return {name: _project(name, table) for name, table in _toml(FOLDER / "projects.toml").items()}


def _project(name: str, table: Mapping[str, Any]) -> Project:
    return Project(
        name,
        table["repository"],
        table["revision"],
        tuple(table["files"]),
        tuple(table.get("parts", ())),
        table.get("adds", {}),
        table.get("leaves-out", {}),
        table.get("explained", ""),
        {file: tuple(requires) for file, requires in table.get("flat-page", {}).items()},
        table.get("recorded", False),
    )


def digests() -> dict[str, Any]:
    """Read digests.toml: for each stack the SHA-256 of its files and of the list of their requirements."""
    return _toml(DIGESTS)


def requirements_digest(requirements: Iterable[str]) -> str:
    """Digest a list of normalised requirements: SHA-256 of the sorted lines."""
    return hashlib.sha256("".join(f"{one}\n" for one in sorted(requirements)).encode()).hexdigest()


def _toml(path: Path) -> dict[str, Any]:
    return tomli.loads(path.read_text(encoding="utf-8"))
