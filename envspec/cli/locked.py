"""The common part of the commands that lock a spec: options, and their printed results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from envspec.app.edition import edition_document
from envspec.base.finding import note
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out, print_diagnostics, say, wants_json, wants_verbose

if TYPE_CHECKING:
    from envspec.app.edit import Edited
    from envspec.app.lock.make import Locked
    from envspec.app.lock.read import LockRequest

_OPTIONS = (
    options.allow_needed, options.dry_run, options.offline, options.locks_dir, options.quiet, options.verbose,
    options.as_json,
)  # fmt: skip
_ASKED = ("allow_needed", "dry_run", "offline", "locks_dir")


def lock_options(function: Callable[..., int]) -> Callable[..., int]:
    """Add --allow-needed, --dry-run, --offline, --locks-dir, --quiet, --verbose and --json to a command, which gets the
    first four as a `request`."""

    @functools.wraps(function)
    def with_request(*arguments: Any, **rest: Any) -> int:
        from envspec.app.lock.read import LockRequest

        chosen = {name: rest.pop(name) for name in _ASKED}
        return function(*arguments, request=refuse_dry_edit(LockRequest(**chosen)), **rest)

    for option in reversed(_OPTIONS):
        option(with_request)
    return with_request


def refuse_dry_edit(request: LockRequest) -> LockRequest:
    """Return a request, unless it asks for a dry run and for a change of the spec."""
    if request.dry_run and request.allow_needed:
        raise click.UsageError("--allow-needed writes into the spec, and --dry-run writes nothing")
    return request


def show_edit(command: str, done: Edited) -> None:
    """Print the changes by an edit of a spec, in it and in its lock."""
    if not wants_json():
        for text in done.edits or ("asks for that already",):
            out(f"{done.path}: {text}")
    if done.locked is not None:
        show_lock(done.locked)
        print_missing_digests([done.locked])
    if wants_json():
        locked = done.locked and lock_document(done.locked)
        options.print_json(command, {"spec": done.path, "edits": done.edits, "lock": locked})


def show_lock(done: Locked) -> None:
    """Print a lock's diagnostics, what changed in it, unless JSON is printed later, and what to do with its recipes."""
    from envspec.app.lock.summary import describe, shorten

    print_diagnostics(done.diagnostics)
    if not wants_json():
        path, lock = done.folder.path, done.lock
        for line in done.changes if wants_verbose() else shorten(done.changes, done.old, lock):
            out(line)
        if done.status == "fresh":
            out(f"{path} is fresh: {describe(lock)}. `--upgrade` looks for newer versions.")
        else:
            out(f"{_WORDS[done.status]} {path}: {describe(lock)}")
    if done.outdated:
        say(f"hint: {done.outdated}")


def print_missing_digests(locks: Sequence[Locked]) -> None:
    """Print once for all locks of a command which images no registry has a digest for, with the first one's cause."""
    problems = {image: cause for done in locks for image, cause in done.missing_digests.items()}
    if problems:
        missing = f"the registry has no digest for {', '.join(problems)}: {next(iter(problems.values()))}"
        held = all(done.lock.image(image) for done in locks for image in done.missing_digests)
        used = "the old lock's digest" if held else "the tag alone"
        print_diagnostics([note(f"{printable(missing)}; recipes use {used}, and `--upgrade-images` asks again")])


_WORDS = {"unchanged": "unchanged:", "would-change": "not written (--dry-run):", "written": "wrote"}


def lock_document(done: Locked) -> dict[str, object]:
    """Give a spec's part of what `lock --json` prints."""
    return {
        "spec": done.spec.path,
        "lock": done.folder.path,
        "status": done.status,
        "targets": {target.name: len(target.pins) for target in done.lock},
        "images": {image.name: image.digest for image in done.lock.images},
        "pythons": {python.platform: f"{python.version}+{python.build}" for python in done.lock.pythons},
        "changes": done.changes,
    }


def print_lock_json(documents: Sequence[dict[str, object]]) -> None:
    """Print the specs as `lock --json` does, on demand."""
    if wants_json():
        options.print_json("lock", {"specs": documents, "facts": edition_document()})
