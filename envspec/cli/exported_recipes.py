"""The recipes that `envspec export` wrote into recipes/<name>: how they differ from the lock, and what mends it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.lock.write import dumps
from envspec.recipes.folder import FORMATS, admitted, exported
from envspec.recipes.freshness import recipe_reasons
from envspec.recipes.make import PLATFORMS, make_plan

if TYPE_CHECKING:
    from envspec.lock.freshness import Reason
    from envspec.lock.judge import SoundLock
    from envspec.recipes.plan import Plan
    from envspec.spec.model import Spec


def differing(spec: Spec, lock: SoundLock, recipes: Path) -> tuple[tuple[Reason, ...], str]:
    """How the folder differs from what a spec and its lock give, and the command that writes again what is there.

    Nothing, and no command, where it doesn't. Raises InputError for a spec of which no recipe can be made.
    """
    text = dumps(lock)
    plans = [make_plan(spec, lock, target, text) for target in lock if target.inputs.platform in PLATFORMS]
    # a link counts as a file that differs: an export would refuse to write through it
    paths = [path.relative_to(recipes).as_posix() for path in recipes.rglob("*") if path.is_symlink() or path.is_file()]
    found = recipe_reasons(plans, paths, lambda path: _text(recipes / path))
    return found, _command(spec.path, plans, paths, recipes) if found else ""


def _text(path: Path) -> str | None:
    if path.is_symlink():
        return None
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return None


def _command(spec: str, plans: Sequence[Plan], paths: Iterable[str], recipes: Path) -> str:
    """`envspec export …` of those targets and formats that are there, and no more."""
    there: dict[str, set[str]] = {}
    for path in paths:
        target, _, rest = path.partition("/")
        there.setdefault(target, set()).add(rest)
    found: dict[str, tuple[str, ...]] = {}
    whole = True
    for plan in plans:
        rendered = admitted(plan)
        found[plan.target] = exported(rendered, there.get(plan.target, ()))
        whole = whole and len(found[plan.target]) in (0, len(rendered))
    names = {name for formats in found.values() for name in formats}
    formats = ["all"] if whole else [name for name in FORMATS if name in names]
    targets = [target for target, of_target in found.items() if of_target]
    words = ["envspec", "export", spec]
    if len(targets) < len(found):
        words += [word for target in targets for word in ("--target", target)]
    words += [word for name in formats for word in ("--format", name)]
    return shlex.join([*words, "-o", str(recipes)])
