"""GPU names given on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envspec.errors import InputError
from envspec.texts import printable

if TYPE_CHECKING:
    from envspec.facts.gpus import Gpu


def known_gpus(names: Iterable[str], option: str = "--gpu: ") -> tuple[Gpu, ...]:
    """The GPUs that the names stand for, each once. Raises InputError for a name that the tables don't know."""
    from envspec.facts import gpus

    found: dict[Gpu, None] = {}
    for name in names:
        meant = gpus.find(name)
        if not meant:
            near = gpus.suggest(name)
            hint = f'did you mean "{near}"?' if near else '`envspec gpus` lists them; "hopper" and "sm_90" work as well'
            raise InputError(f'{option}unknown GPU "{printable(name)}"', hint=hint)
        found.update(dict.fromkeys(meant))
    return tuple(found)
