"""The inputs that a command line names: specs, the locks beside them, their targets."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec.structs import replace

from envspec.app.find_specs import FOLDER, spec_file
from envspec.app.observer import note, say, warn
from envspec.base.errors import AnswerNo, InputError, Place
from envspec.base.finding import Finding, errors
from envspec.base.texts import nearest, printable
from envspec.lock.model import Lock, LockedTarget, SoundLock
from envspec.packages.requirement import canonical_name
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.app.policy import Making
    from envspec.lock.inputs import SpecCase
    from envspec.lock.store import LockFile, LockFolder
    from envspec.spec.matrix import Lookups

_T = TypeVar("_T")


def read_spec(path: str) -> Spec:
    """Read the spec that the command line means (`find_specs`), and look up its GPU names. Raises SpecError."""
    from envspec.spec.parse import load_spec

    return load_spec(spec_file(path), _tables())


def read_edit(path: str, text: str) -> Spec:
    """Read the text that the spec at a path is about to get. Raises SpecError."""
    from envspec.spec.parse import load_text

    return load_text(text, path, _tables())


def _tables() -> Lookups:
    from envspec.app.gpu_names import wrong_gpu
    from envspec.spec.matrix import Lookups

    return Lookups(_capability_of, wrong_gpu, _newest_python)


def _newest_python(bound: str, before: str | None) -> str | None:
    # Only a range asks.
    from envspec.facts.python_builds import newest_minor

    return newest_minor(bound, before)


def _capability_of(gpu: str) -> str | None:
    # Only a matrix asks, and the tables of GPUs take longer to load than a spec.
    from envspec.facts.gpus import capability_of

    return capability_of(gpu)


def locks_of(spec: Path, given: Path | None) -> Path:
    """Give the folder with the locks of a spec: the one given, or `locks/` beside the spec's folder (`specs/`)."""
    if given is not None:
        return given
    folder = spec.absolute().parent
    return folder.parent / "locks" if folder.name == "specs" else spec.parent / "locks"


def elsewhere(given: Path | None) -> str:
    """Give the option that names the locks' folder in a hint's command, with a space before it; empty by default."""
    return f" --locks-dir {given}" if given else ""


def recipes_of(spec: Spec, given: Path | None) -> Path:
    """Give the folder with a spec's recipes: in `recipes/`, beside the folder of the locks."""
    from envspec.app.outputs import shown_path

    return shown_path(locks_of(Path(spec.path), given).parent / "recipes" / spec.name)


def folder_of(spec: Spec, given: Path | None) -> LockFolder:
    from envspec.app.outputs import location, shown_path
    from envspec.lock.store import LockFolder

    return LockFolder(location(shown_path(locks_of(Path(spec.path), given)), [spec.path]), spec.name)


def has_lock(spec: Spec, given: Path | None) -> bool:
    """Return whether a spec's lock has a folder: without one, no reader of locks is loaded."""
    if given is not None or ".." in spec.path:
        return True
    folder = os.path.dirname(os.path.abspath(spec.path))
    root = os.path.dirname(folder) if os.path.basename(folder) == FOLDER else folder
    try:
        os.lstat(os.path.join(root, "locks", spec.name))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # it is told where the lock is read
        pass
    return True


Stale = Literal["warn", "refuse", "refuse-environment", "ignore"]
"""The treatment of a lock that no longer answers its spec. "refuse-environment" takes, with a warning, one whose
environment of the target stays as it is."""


def read_lock(
    path: str,
    given: Path | None,
    making: Making | None = None,
    stale: Stale = "warn",
    *,
    on_base: bool = False,
    target: str | None = None,
) -> tuple[Spec, SoundLock]:
    """Read a spec and its lock, which must be sound for it and hold nothing that the site forbids.

    Commands that install, export or run begin here. `making` is for commands that make what a site may demand.
    `on_base` is for commands that take a lock on a base for what it is: a part of an environment. `target` is the one
    for "refuse-environment"; None: any.

    Raises SpecError, LockError, UnsoundLock, Forbidden, PolicyError, ToolError, AnswerNo for a lock that is stale,
    where it is to be refused or its pins don't fit the spec, and InputError for one on a base, unless `on_base`, and
    for one that was made for another base than the spec's: what it holds comes on top of that.
    """
    spec, lock, _ = read_signed_lock(path, given, making, stale, target)
    if not on_base:
        refuse_base(spec, "this command")
    return spec, lock


def refuse_base(spec: Spec, what: str) -> None:
    """Raise InputError for a spec with a base: `what` would make only a part of its environment."""
    if spec.base is not None:
        message = f"{what} doesn't know [base] yet: the lock holds only what comes on top of it"
        hint = f"envspec install {spec.path}, or envspec export {spec.path} --format requirements"
        raise InputError(message, hint=hint, place=spec.places.get("base"))


def read_signed_lock(
    path: str, given: Path | None, making: Making | None, stale: Stale, target: str | None = None
) -> tuple[Spec, SoundLock, LockFile]:
    """Read a spec and its lock as `read_lock` does, with the lock's bytes and its signature."""
    from envspec.app.policy import refuse_lock
    from envspec.lock.inputs import spec_case
    from envspec.lock.judge import UnsoundLock, sound

    spec = read_spec(path)
    folder = folder_of(spec, given)
    file = require_lock(folder.read_with_signature(), spec)
    where, case = str(folder.path), spec_case(spec)
    try:
        lock = sound(file.lock, case, where)
    except UnsoundLock as error:
        if changes := _changes(case, file.lock):
            codes = " ".join(dict.fromkeys(f"[{flaw.code}]" for flaw in error.flaws))
            unfit = f"the lock's pins don't fit that: {printable(error.flaws[0].text)}  {codes}"
            raise AnswerNo(f"{_describe(spec, changes)}; {unfit}", hint=f"envspec lock {spec.path}") from None
        raise
    refuse_lock(spec, lock, file, where, making)
    was, is_now = ((base.kind, base.place) if base else None for base in (lock.inputs.base, spec.base))
    if stale == "warn" and was != is_now:
        before, after = (f"{base[0]} {printable(base[1])}" if base else "no base" for base in (was, is_now))
        raise InputError(
            f"the lock was made for {before}, and the spec has {after}",
            hint=f"envspec lock {spec.path}",
            place=spec.places.get(f"base.{spec.base.kind}") if spec.base else Place(spec.path),
        )
    if lock.images:
        from envspec.export.images import with_locked_images

        spec, lock = with_locked_images(spec, lock)
    if stale not in ("warn", "ignore") and (changes := _changes(case, lock)):
        if stale == "refuse-environment":
            from envspec.lock.freshness import concerns_environment

            changes = tuple(change for change in changes if concerns_environment(change, target))
        if changes:
            raise AnswerNo(_describe(spec, changes), hint=f"envspec lock {spec.path}")
    if stale != "ignore":
        _warn_if_stale(case, lock)
    return spec, lock, file


def only_read_lock(path: str, given: Path | None) -> tuple[Spec, Lock]:
    """Read a spec and its lock for a command that only prints what is in it: neither is judged, no GPU looked up. A
    stale lock gets a warning.

    Raises SpecError, LockError.
    """
    from envspec.lock.inputs import spec_case
    from envspec.spec.matrix import Lookups
    from envspec.spec.parse import load_spec

    spec = load_spec(spec_file(path), Lookups(_capability_of))
    lock = require_lock(folder_of(spec, given).look(), spec)
    _warn_if_stale(spec_case(spec), lock)
    return spec, lock


def look_at_lock(path: str, given: Path | None) -> tuple[Spec, Lock]:
    """Read a spec and its lock for a command that only shows them: an unsound or stale lock gets a warning.

    Raises SpecError, LockError.
    """
    from envspec.lock.inputs import spec_case
    from envspec.lock.judge import flaws_of

    spec = read_spec(path)
    folder, case = folder_of(spec, given), spec_case(spec)
    lock, where = require_lock(folder.read(), spec), folder.path
    if flaws := flaws_of(lock, case):
        first = (*errors(flaws), *flaws)[0]
        more = f" (and {len(flaws) - 1} more)" if len(flaws) > 1 else ""
        cant = " can't be right" if first.severity == "error" else ""
        warn(f"{where}{cant}: {printable(first.text)}{more}")
        say(f"hint: `envspec check {spec.path}` lists everything that is wrong with the lock")
    _warn_if_stale(case, lock)
    return spec, lock


def lock_at(revision: str, spec: Spec, given: Path | None) -> Lock | None:
    """Read the lock that a spec had at a git revision, unjudged; None where it had none.

    Raises InputError for the revision, LockError, ToolError.
    """
    from envspec.lock.read import loads, with_inventories
    from envspec.review.diff.revision import text_at

    path = folder_of(spec, given).path
    text = text_at(path, revision)
    if text is None:
        return None

    def read(name: str) -> bytes:
        return (text_at(path.with_name(name), revision) or "").encode()

    return with_inventories(loads(text, f"{revision}:{path}"), read, f"{revision}:{path.parent}")


def require_lock(file: _T | None, spec: Spec) -> _T:
    """Return the lock that was read. Raises InputError where there is none."""
    if file is None:
        raise InputError(f"{spec.path} has no lock yet", hint=f"envspec lock {spec.path}")
    return file


def locked_targets(lock: Lock, names: Iterable[str]) -> tuple[LockedTarget, ...]:
    """Pick the named targets of a lock, in the lock's order; without names, all. Warn where today's facts differ from a
    sound lock's. Raises InputError."""
    required = set(names)
    from envspec.spec.targets import refuse_unknown_targets

    refuse_unknown_targets(sorted(required), [locked.name for locked in lock], f"the lock of {lock.name}")
    chosen = tuple(locked for locked in lock if not required or locked.name in required)
    tell_doubts(lock, chosen)
    return chosen


def tell_doubts(lock: Lock, targets: Iterable[LockedTarget]) -> None:
    """Warn where today's facts differ from a sound lock's for these targets. A lock that wasn't judged has no
    doubts."""
    names = {target.name for target in targets}
    doubts = lock.doubts if isinstance(lock, SoundLock) else ()
    for doubt in doubts:
        of = tuple(name for name in doubt.targets if name in names)
        if of or not doubt.targets:
            warn(f"the lock of {lock.name}: {printable(replace(doubt, targets=of).text)}  [{doubt.code}]")


def tell_lacking_compat(spec: Spec, targets: Iterable[LockedTarget], what: str) -> None:
    """Report each target whose cuda-compat isn't in what a command makes."""
    from envspec.export import compat

    for target in targets:
        if lack := compat.note_of_lack(spec, target, what):
            note(lack)


def pick_target(lock: Lock, name: str | None) -> LockedTarget:
    """Pick the named target, or the only one. Raises InputError."""
    targets = locked_targets(lock, [name] if name else [])
    if len(targets) > 1:
        names = ", ".join(target.name for target in targets)
        hint = f"choose one with --target {targets[0].name}"
        raise InputError(f"the lock of {lock.name} has {len(targets)} targets: {names}", hint=hint)
    return targets[0]


def _warn_if_stale(case: SpecCase, lock: Lock) -> None:
    """Warn when the lock doesn't answer the spec any more."""
    spec = case.spec
    changes: tuple[Finding, ...] = ()
    if lock.images and not lock.image(spec.image.base):
        from envspec.app.lock.images import stale_images

        changes = stale_images(spec, lock)
    if changes := (*_changes(case, lock), *changes):
        warn(_describe(spec, changes))
        say(f"hint: envspec lock {spec.path}")


def _changes(case: SpecCase, lock: Lock) -> tuple[Finding, ...]:
    """Give what of the spec changed since it was locked."""
    if case.is_of(lock):
        return ()
    # the many reasons that there are take as long to load as the answer takes
    from envspec.lock.freshness import reasons

    return reasons(case, lock)


def _describe(spec: Spec, changes: tuple[Finding, ...]) -> str:
    more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
    return f"{spec.path} changed since it was locked: {printable(changes[0].text)}{more}"


def did_you_mean(package: str, lock: Lock) -> str:
    """Give the hint for a package that isn't in a lock."""
    meant = nearest(canonical_name(package), {pin.name for locked in lock for pin in locked.pins})
    return f"did you mean {meant}?" if meant else "`envspec tree` shows every locked package"
