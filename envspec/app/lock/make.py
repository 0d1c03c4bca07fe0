"""The making of a spec's lock: eight steps from the spec to what the command line reports."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.app import inputs as app_inputs
from envspec.app.lock.images import ImageDigests, wants_images
from envspec.app.lock.read import Inputs, LockRequest, read
from envspec.app.lock.solve import solve
from envspec.app.lock.summary import changes
from envspec.app.malicious import refuse_malicious
from envspec.app.observer import say
from envspec.app.policy import Applied, apply
from envspec.app.unmerged import take_in_command, unmerged_files
from envspec.base.cache import keep_value, read_value
from envspec.base.errors import InputError
from envspec.base.finding import Finding, carrying, change, warning
from envspec.base.places import cache_dir, home_of
from envspec.base.plain_files import read_plain
from envspec.export.image_findings import image_findings
from envspec.lock.inputs import spec_case
from envspec.lock.judge import UnsoundLock, sound
from envspec.lock.model import Lock
from envspec.lock.pinned import warnings_of
from envspec.lock.signing.model import SUFFIX
from envspec.packages.requirement import canonical_name
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.lock.store import LockFolder


Status = Literal["fresh", "unchanged", "would-change", "written"]


class Locked(Struct, frozen=True):
    """The lock of a spec, and what became of the old one.

    status   "fresh": it is as it was, and no index was asked; "unchanged": asked, and as it was; "written";
             "would-change": not written, by `dry_run`
    diagnostics  findings and changes, in the order in which they came
    changes  a line for each package, build of Python and image digest that changed; none for a first lock
    held     the packages to upgrade that stay as they are, though there is a newer release
    missing_digests  why a registry has no digest for images, by image
    outdated  what is to be done with the recipes that the lock has outdated, and git's conflicts; empty without any
    """

    spec: Spec
    folder: LockFolder
    lock: Lock
    old: Lock | None
    status: Status
    diagnostics: tuple[Finding, ...] = ()
    changes: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    missing_digests: Mapping[str, str] = field(default_factory=dict)
    outdated: str = ""


def lock_spec(spec: Spec, request: LockRequest) -> Locked:
    """Bring a spec's lock up to date. Waits for another envspec that is locking it.

    Raises EnvspecError, with its findings, and leaves the lock as it was.
    """
    with exclusive(spec, request.locks_dir) as folder:
        return make_lock(spec, folder, request)


@contextmanager
def exclusive(spec: Spec, locks_dir: Path | None) -> Iterator[LockFolder]:
    """Give the folder of a spec's lock, with no other envspec at work on it; wait for one that is."""
    folder = app_inputs.folder_of(spec, locks_dir)
    with folder.exclusive(lambda: say(f"waiting: another envspec is locking {spec.name}")):
        yield folder


def make_lock(spec: Spec, folder: LockFolder, request: LockRequest) -> Locked:
    """Do what `lock_spec` does, in a folder that is `exclusive` already."""
    last = _recall(folder.path)
    with carrying(partial(_mark, last=last)) as report:
        inputs = report.take(read(spec, folder, request))
        applied = apply(inputs.bound(spec))
        digests = begin_digests(inputs)  # registries answer while indexes do
        spec, lock = report.take(solve(inputs, applied))
        report += judge(applied, spec, lock, inputs, str(folder.path))
        lock, missing_digests = report.take(enrich(spec, lock, digests))
        status = report.take(write(replace(inputs, spec=spec), folder, lock))
        if not request.dry_run and not inputs.stands:
            _remember(folder.path, report, last if request.targets else ())
        outdated = report.take(outdated_recipes(spec, folder, status, request))
        held = report.take(_held_back(spec, inputs.old, lock, request))
        moved = tuple(changes(inputs.old, lock))
    return Locked(spec, folder, lock, inputs.old, status, _mark(report, last), moved, held, missing_digests, outdated)


def begin_digests(inputs: Inputs) -> ImageDigests | None:
    """Begin to look up the digests of a lock's images; None for a lock that stays as it is."""
    if inputs.fresh:
        return None
    spec, request = inputs.spec, inputs.request
    required = request.images or wants_images(spec, inputs.old, app_inputs.recipes_of(spec, request.locks_dir))
    renew = request.upgrade.everything or request.images
    return ImageDigests(spec, inputs.old, renew=renew, offline=request.offline or not required)


def enrich(
    spec: Spec, lock: Lock, digests: ImageDigests | None
) -> tuple[tuple[Lock, Mapping[str, str]], Iterator[Finding]]:
    """Give a lock with the digests of its images, and why registries have none; with findings on these images."""
    return digests.put_into(lock) if digests else (lock, {}), image_findings(spec, lock.targets)


def judge(applied: Applied, spec: Spec, lock: Lock, inputs: Inputs, path: str) -> list[Finding]:
    """Judge a lock by reports of malicious releases, the site's policy and, where it stays, today's rules. Raises
    Malicious, Forbidden, OutsideError."""
    offline = inputs.request.offline
    # for a lock that stays nobody is asked, unless the site wants it
    asks = not inputs.stands or (applied.policy is not None and applied.policy.advisories)
    findings = refuse_malicious(spec, lock, path, offline=offline or not asks, quiet=inputs.stands)
    findings += applied.judge(spec, lock, path, offline=offline)
    return [*findings, *warnings_of(spec, lock)] if inputs.fresh and not inputs.in_conflict else findings


def write(inputs: Inputs, folder: LockFolder, lock: Lock) -> tuple[Status, list[Finding]]:
    """Write a lock and what is rendered from it, unless it is a dry run."""
    if inputs.in_conflict:
        return ("would-change", []) if inputs.request.dry_run else ("written", _write(inputs.spec, folder, lock)[1])
    if inputs.request.dry_run:
        return "fresh" if inputs.fresh else "unchanged" if lock == inputs.old else "would-change", []
    if inputs.fresh:
        return "fresh", _bring_in_line(inputs.spec, folder, lock)
    changed, written = _write(inputs.spec, folder, lock)
    return "written" if changed else "unchanged", written


def _bring_in_line(spec: Spec, folder: LockFolder, lock: Lock) -> list[Finding]:
    """Write a fresh lock again where it is laid out otherwise, or where what is rendered from it differs."""
    if not folder.holds(lock):
        _, written = _write(spec, folder, lock)
        return [*written, change(f"wrote {folder.path} again, as this envspec writes locks: its pins are the same")]
    if folder.rendered_reasons(lock):
        folder.write(lock)
        return [change(f"rendered the files beside {folder.path} again: they differed from the lock")]
    return []


def _write(spec: Spec, folder: LockFolder, lock: Lock) -> tuple[bool, list[Finding]]:
    """Write a lock; give whether anything changed, and the signature of the old one if it went."""
    signed = folder.is_signed()
    changed = folder.write(lock)
    if not signed or folder.is_signed():
        return changed, []
    message = f"removed {folder.path}{SUFFIX}: it signed the lock that was there before"
    return changed, [change(message, f"envspec sign {spec.path}")]


def outdated_recipes(
    spec: Spec, folder: LockFolder, status: Status, request: LockRequest
) -> tuple[str, tuple[Finding, ...]]:
    """Give what is to be done with exported recipes that a new lock has outdated, and with those that git left
    unmerged; a warning for recipes that can't be exported again."""
    recipes = app_inputs.recipes_of(spec, request.locks_dir)
    take_in = ""
    if status in ("written", "fresh"):
        take_in = take_in_command(unmerged_files(), recipes, folder.folder)
    try:
        renew = _renewing(spec, folder, recipes, request.locks_dir) if status == "written" or take_in else ""
    except InputError as error:
        remedy = error.hint or "see `envspec check`"
        return take_in, (warning(f"{recipes} can't be exported again: {error.message}", remedy),)
    return " && ".join(filter(None, (renew, take_in))), ()


def _renewing(spec: Spec, folder: LockFolder, recipes: Path, locks_dir: Path | None) -> str:
    if not recipes.is_dir():
        return ""
    from envspec.app.export.recipes import recipe_drift

    try:
        drift, again = recipe_drift(spec, sound(folder.load(), spec_case(spec), str(folder.path)), recipes)
    except UnsoundLock:
        # with --target, the other targets may not answer the spec yet
        return ""
    return (
        f"the recipes in {recipes} differ from the new lock: {again}{app_inputs.elsewhere(locks_dir)}" if drift else ""
    )


def _held_back(
    spec: Spec, old: Lock | None, new: Lock, request: LockRequest
) -> tuple[tuple[str, ...], Sequence[Finding]]:
    """Return the packages to upgrade that stay although a newer release exists, and what holds each."""
    stay = [
        name
        for name in sorted(map(canonical_name, request.upgrade.packages))
        if old is not None and _pins_of(old, name) == _pins_of(new, name) != []
    ]
    if not stay:
        return (), ()
    from envspec.app.outdated import find_holds

    return find_holds(spec, new, stay, offline=request.offline)


def _pins_of(lock: Lock, name: str) -> list[tuple[str, str]]:
    return [(target.name, pin.version) for target in lock for pin in target.pins if pin.name == name]


# Notes that came with the last lock too: the cache has the keys of a lock's notes by the lock's content.


def _recall(lock: Path) -> frozenset[str]:
    """Give the keys of the notes that came with the lock at this path."""
    path = _entry(lock)
    return frozenset((path and read_value(path, tuple[str, ...])) or ())


def _remember(lock: Path, diagnostics: Iterable[Finding], last: Iterable[str]) -> None:
    """Keep the keys of the notes that came with the lock that is at this path now, and of others that came before."""
    if path := _entry(lock):
        keep_value(path, tuple(sorted({*last, *map(_key, diagnostics)})))


def _mark(diagnostics: Iterable[Finding], last: frozenset[str]) -> tuple[Finding, ...]:
    """Mark the notes whose keys came with the last lock."""
    return tuple(
        replace(diagnostic, repeated=True) if _key(diagnostic) in last else diagnostic for diagnostic in diagnostics
    )


def _entry(lock: Path) -> Path | None:
    # what the lock is, if it is no plain file, is said where it is read
    with suppress(OSError, InputError):
        name = hashlib.sha256(read_plain(lock)).hexdigest()
        return cache_dir(os.environ, home_of(os.environ)) / "notes-v1" / name
    return None


def _key(diagnostic: Finding) -> str:
    """Give the key of a note with a code; what has none is of this command alone."""
    is_note = diagnostic.severity == "info" and diagnostic.code
    return hashlib.sha256(f"{diagnostic.code} {diagnostic.text}".encode()).hexdigest() if is_note else ""
