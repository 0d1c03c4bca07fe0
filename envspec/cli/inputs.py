"""What the command line names: specs, the locks beside them, their targets."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.cli.console import say, warn
from envspec.cli.outputs import location, shown_path
from envspec.errors import InputError, SpecError
from envspec.texts import nearest, printable

if TYPE_CHECKING:
    from envspec.lock.judge import SoundLock
    from envspec.lock.model import Lock, LockedTarget
    from envspec.lock.store import LockFolder
    from envspec.spec.model import Spec


def read_spec(path: str) -> Spec:
    """The spec of a path given on the command line, GPU names understood. Raises SpecError."""
    from envspec.spec.parse import load_spec

    return load_spec(path, capability=_capability_of)


def _capability_of(gpu: str) -> str | None:
    # Only a matrix asks, and the tables of GPUs take longer to load than a spec.
    from envspec.facts.gpus import capability_of

    return capability_of(gpu)


def locks_of(spec: Path, given: Path | None) -> Path:
    """The folder with the locks of a spec: the one given, or `locks/` beside the folder the spec is in (`specs/`)."""
    if given is not None:
        return given
    folder = spec.absolute().parent
    return folder.parent / "locks" if folder.name == "specs" else spec.parent / "locks"


def elsewhere(given: Path | None) -> str:
    """What a command of a hint says of the locks' folder, with the space before it; nothing where it wasn't given."""
    return f" --locks-dir {given}" if given else ""


def recipes_of(spec: Spec, given: Path | None) -> Path:
    """The folder with a spec's recipes: in `recipes/`, beside the folder of the locks."""
    return shown_path(locks_of(Path(spec.path), given).parent / "recipes" / spec.name)


def folder_of(spec: Spec, given: Path | None) -> LockFolder:
    from envspec.lock.store import LockFolder

    return LockFolder(location(shown_path(locks_of(Path(spec.path), given)), [spec.path]), spec.name)


def read_lock(path: str, given: Path | None, *, proving: bool = False) -> tuple[Spec, SoundLock]:
    """A spec and its lock, which must exist, be right for it, and be nothing that the site forbids: what installs,
    exports or runs begins here. `proving` is for what makes the proof that a site may ask for.

    Raises SpecError, LockError, UnsoundLock, Forbidden, PolicyError.
    """
    from envspec.cli.policy import refuse_lock
    from envspec.lock.judge import UnsoundLock, sound

    spec, lock, where = _locked(path, given)
    try:
        found = sound(lock, spec, where)
    except UnsoundLock:
        warn_if_stale(spec, lock)
        raise
    refuse_lock(spec, found, where, proving=proving)
    return spec, found


def look_at_lock(path: str, given: Path | None) -> tuple[Spec, Lock]:
    """The same for what only shows a lock: one that can't be right is shown too, and told.

    Raises SpecError, LockError.
    """
    from envspec.lock.inputs import has_equal_inputs
    from envspec.lock.judge import judge

    spec, lock, where = _locked(path, given)
    equal = has_equal_inputs(spec, lock)
    flaws = judge(lock, spec if equal else None)
    if flaws:
        more = f" (and {len(flaws) - 1} more)" if len(flaws) > 1 else ""
        warn(f"{where} can't be right: {printable(flaws[0].message)}{more}")
        say(f"hint: `envspec check {spec.path}` says all that is wrong with it")
    return spec, lock


def _locked(path: str, given: Path | None) -> tuple[Spec, Lock, str]:
    spec = read_spec(path)
    folder = folder_of(spec, given)
    lock = folder.read()
    if lock is None:
        raise InputError(f"{spec.path} isn't locked yet", hint=f"envspec lock {spec.path}")
    return spec, lock, str(folder.path)


def locked_targets(lock: Lock, names: Iterable[str]) -> tuple[LockedTarget, ...]:
    """The targets of a lock that are named, in the lock's order; all of them where none is. Raises InputError."""
    wanted = set(names)
    from envspec.spec.messages import refuse_unknown_targets

    refuse_unknown_targets(sorted(wanted), [locked.name for locked in lock], f"the lock of {lock.name}")
    return tuple(locked for locked in lock if not wanted or locked.name in wanted)


def one_target(lock: Lock, name: str | None) -> LockedTarget:
    """The target named, or the only one. Raises InputError."""
    targets = locked_targets(lock, [name] if name else [])
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        raise InputError(
            f"the lock of {lock.name} has {len(targets)} targets: {names}",
            hint=f"choose one with --target {targets[0].name}",
        )
    return targets[0]


def warn_if_stale(spec: Spec, lock: Lock) -> None:
    """Say so when the lock, from which the answer comes, doesn't answer the spec any more."""
    from envspec.cli.lock.images import stale_images
    from envspec.lock.inputs import has_equal_inputs

    found = stale_images(spec, lock)
    if not has_equal_inputs(spec, lock):
        # the many reasons that there are take as long to load as the answer takes
        from envspec.lock.freshness import reasons

        found = (*reasons(spec, lock), *found)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        warn(f"{spec.path} changed since it was locked: {printable(found[0].message)}{more}")
        say(f"hint: envspec lock {spec.path}")


def all_specs(paths: tuple[str, ...]) -> tuple[str, ...]:
    """The specs given, each once, or every one in specs/. Raises SpecError when there is none."""
    if paths:
        return tuple(dict.fromkeys(paths))
    found = tuple(str(path) for path in sorted(Path("specs").glob("*.toml")))
    if not found:
        raise SpecError("there is no spec in specs/", hint="name one: envspec check path/to/spec.toml")
    return found


def did_you_mean(package: str, lock: Lock) -> str:
    """A hint for a package that isn't in a lock."""
    from envspec.packages.requirement import canonical_name

    meant = nearest(canonical_name(package), {pin.name for locked in lock for pin in locked.pins})
    return f"did you mean {meant}?" if meant else "`envspec tree` shows all that is"
