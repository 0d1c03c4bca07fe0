"""GPU names given on the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from envspec.errors import InputError
from envspec.texts import printable

if TYPE_CHECKING:
    from envspec.facts.gpus import Gpu


def known_gpus(names: Iterable[str], option: str = "--gpu: ") -> tuple[Gpu, ...]:
    """Look up the GPUs that the names stand for, each once. Raises InputError for a name that the tables don't have."""
    from envspec.facts import gpus

    found: dict[Gpu, None] = {}
    for name in names:
        meant = gpus.find(name)
        if not meant:
            raise unknown_gpu(name, option)
        found.update(dict.fromkeys(meant))
    return tuple(found)


def unknown_gpu(name: str, option: str = "--gpu: ") -> InputError:
    """Give the error for a name that the tables don't have, with the nearest one that they have."""
    from envspec.facts.gpus import suggest

    near = suggest(name)
    hint = f'did you mean "{near}"?' if near else '`envspec gpus` lists them; "hopper", "sm_90" and "9.0" work as well'
    return InputError(f'{option}unknown GPU "{printable(name)}"', hint=hint)
