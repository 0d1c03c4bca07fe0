"""What several commands take: specs, where locks live, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from envspec.errors import InputError, SpecError
from envspec.lock.model import Lock
from envspec.lock.store import LockFolder
from envspec.spec.model import Spec

locks_dir = click.option(
    "--locks-dir", type=click.Path(path_type=Path, file_okay=False), help="Where locks live [default: locks/ beside the spec's folder]."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout (schema in docs/json.md).")
target = click.option("--target", "-t", "targets", multiple=True, metavar="NAME", help="This target only; may be given several times.")


def read_spec(path: str) -> Spec:
    """The spec of a path given on the command line, GPU names understood. Raises SpecError."""
    from envspec.spec.parse import load_spec
    from envspec.workflow import capability_of

    return load_spec(path, capability=capability_of)


def locks_of(spec: Path, given: Path | None) -> Path:
    """The folder that holds the locks of a spec: `locks/` beside the folder the spec is in (`specs/`), or the one given."""
    return given if given is not None else spec.absolute().parent.parent.joinpath("locks") if spec.absolute().parent.name == "specs" else spec.parent / "locks"


def folder_of(spec: Spec, given: Path | None) -> LockFolder:
    return LockFolder(shown(locks_of(Path(spec.path), given)), spec.name)


def shown(path: Path) -> Path:
    """A path as messages show it: relative to here where it is below here."""
    try:
        return path.absolute().relative_to(Path.cwd())
    except ValueError:
        return path


def read_lock(path: str, given: Path | None) -> tuple[Spec, Lock]:
    """A spec and its lock, which must exist. Raises SpecError, LockError."""
    spec = read_spec(path)
    lock = folder_of(spec, given).read()
    if lock is None:
        raise InputError(f"{spec.path} isn't locked yet", hint=f"envspec lock {spec.path}")
    return spec, lock


def all_specs(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The specs given, or every one in specs/."""
    if paths:
        return paths
    found = tuple(str(path) for path in sorted(Path("specs").glob("*.toml")))
    if not found:
        raise SpecError("there is no spec in specs/", hint="name one: envspec check path/to/spec.toml")
    return found


def print_json(command: str, value: dict[str, Any]) -> None:
    """One JSON document on stdout, with its schema's name and version first."""
    click.echo(json.dumps({"schema": f"envspec/{command}/1", **value}, indent=2, ensure_ascii=False))
