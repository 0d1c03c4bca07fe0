"""Names that a shell completes: a spec that is just being edited completes nothing, and a prompt is no place to tell
why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from envspec.app import inputs
from envspec.base.codes import meanings
from envspec.base.errors import EnvspecError
from envspec.facts import gpus
from envspec.facts.corrections import table
from envspec.spec.model import Spec


def target_names(paths: Iterable[str]) -> set[str]:
    """Give the targets of specs, as the specs name them now."""
    return {target.name for spec in _specs(paths) for target in spec.targets}


def package_names(paths: Iterable[str], locks_dir: Path | None) -> set[str]:
    """Give the packages in the locks of specs."""
    names: set[str] = set()
    for spec in _specs(paths):
        with suppress(EnvspecError):
            names.update(pin.name for target in inputs.folder_of(spec, locks_dir).read() or () for pin in target.pins)
    return names


def gpu_names() -> Iterator[str]:
    """Give the architectures and the GPUs that the tables have."""
    known = gpus.products()
    names = dict.fromkeys([*(gpu.architecture.lower() for gpu in known), *(gpu.name for gpu in known)])
    # a space would end the word on the line, and a hyphen is read as one; people say "RTX 5090"
    return (name.removeprefix("GeForce ").replace(" ", "-") for name in names)


def codes() -> dict[str, str]:
    """Give the names of corrections and the codes of findings, each with its meaning."""
    known = {row.name: f"{row.package} needs {row.requirement}" for row in table()}
    return known | {meaning.code: meaning.means for meaning in meanings().values()}


def _specs(paths: Iterable[str]) -> Iterator[Spec]:
    for path in paths:
        with suppress(EnvspecError):
            yield inputs.read_spec(path)
