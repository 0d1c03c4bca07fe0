"""The face of `import envspec` for notebooks, tests and CI scripts: the command line's answers, as values.

Paths mean what they mean on the command line: a spec's file, its folder or its bare name, from the current folder. Each
function raises EnvspecError, whose `str()` is the message and `hint` what to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias, Union

from envspec.base.errors import EnvspecError, InputError
from envspec.base.finding import Finding
from envspec.lock.model import Lock
from envspec.spec.model import Spec

StrPath: TypeAlias = Union[str, "os.PathLike[str]"]


def load_spec(path: StrPath) -> Spec:
    """Read a spec. Raises SpecError, which names file, line and column."""
    from envspec.app.inputs import read_spec

    return read_spec(os.fspath(path))


def load_lock(path: StrPath, *, locks_dir: StrPath | None = None) -> Lock:
    """Read the lock of the spec at `path`, judged by the spec and by the site's policy.

    locks_dir   the folder with the locks; without it, `locks/` beside `specs/`

    Raises SpecError, LockError, UnsoundLock, Forbidden; AnswerNo where the spec changed and the pins don't fit it;
    InputError where there is no lock yet.
    """
    from envspec.app.inputs import read_lock

    return read_lock(os.fspath(path), _folder(locks_dir), stale="ignore")[1]


def check(path: StrPath, *, locks_dir: StrPath | None = None) -> tuple[Finding, ...]:
    """List the stale parts of a lock, the files beside it and its recipes, as `envspec check` does; empty when all are
    fresh, whatever it warns of. Asks no network. Raises SpecError and what else keeps it from judging.
    """
    from envspec.app.check import states_of

    (state,) = states_of([os.fspath(path)], _folder(locks_dir))
    if state.error is not None:
        raise state.error
    return () if state.status == "fresh" else state.reasons


def render(
    path: StrPath, form: str, *, targets: Iterable[str] = (), locks_dir: StrPath | None = None
) -> dict[str, str]:
    """Render a lock in a format of `envspec export`, and give the texts by path below the folder that it would write.

    targets     the targets' names; without them, all

    The recipes' zipapp is no text: `text.encode(errors="surrogateescape")` gives each file's content.
    pylock, conda-lock and conda-explicit ask the user's indexes for the files' URLs; nothing else asks a network.
    Raises as `load_lock`, and InputError for an unknown format or target.
    """
    from envspec.app.export.render import CHOICES, render_files
    from envspec.app.inputs import locked_targets, read_lock

    if form not in CHOICES:
        raise InputError(f"{form!r} is no format", hint=f"the formats: {', '.join(CHOICES)}")
    spec, lock = read_lock(os.fspath(path), _folder(locks_dir), stale="ignore")
    return render_files(spec, lock, locked_targets(lock, targets), [form], ".")[0]


def _folder(path: StrPath | None) -> Path | None:
    return None if path is None else Path(path)


__all__ = ["EnvspecError", "Finding", "Lock", "Spec", "check", "load_lock", "load_spec", "render"]
