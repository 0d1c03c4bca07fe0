"""`envspec lock`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app import inputs
from envspec.app.cache_size import keep_bounded
from envspec.app.edition import edition_document, tell_edition
from envspec.app.find_specs import all_specs
from envspec.app.lock.choices import LockChoices
from envspec.app.lock.solvers import first_pins, notice, resolvers_for
from envspec.app.lock.writing import bring_in_line, write
from envspec.app.malicious import refuse_malicious
from envspec.app.policy import bound_in_time, bound_of, refuse_builds, refuse_spec, refuse_written
from envspec.base.errors import AnswerNo, EnvspecError, InputError, Place
from envspec.base.texts import nearest, printable
from envspec.base.user_config import HOST, trust_index
from envspec.cli import options
from envspec.cli.console import out, out_json, say, warn
from envspec.cli.failure import Failure, parts, told
from envspec.lock.model import LOCK_VERSION

if TYPE_CHECKING:
    from envspec.lock.model import Lock
    from envspec.lock.store import LockFolder
    from envspec.resolve.workflow.keep import Upgrade
    from envspec.review.policy.model import Policy
    from envspec.rules.finding import Finding
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec lock                           every spec in specs/
  envspec lock specs/mm-v2.9.toml
  envspec lock specs/mm-v2.9.toml --upgrade-package transformers
  envspec lock specs/mm-v2.9.toml --upgrade --dry-run
  envspec lock specs/mm-v2.9.toml --pins-from uv.lock
  envspec lock specs/*.toml --upgrade --locks-dir /tmp/tryout
"""


@click.command(epilog=EPILOG)
@click.argument("specs", nargs=-1, metavar="[SPEC...]", shell_complete=options.complete("spec_paths"))
@options.target
@click.option("--upgrade", "-U", is_flag=True, help="Ignore the old pins: take the newest versions that fit.")
@click.option(
    "--upgrade-package",
    "-P",
    "packages",
    multiple=True,
    metavar="NAME",
    help="Let this package's version change; may be given several times.",
)
@click.option("--upgrade-images", is_flag=True, help="Look up the images' digests again; packages stay.")
@click.option(
    "--pins-from",
    "pins",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Prefer the versions of another tool's lock, where they fit: uv.lock, poetry.lock, pylock.toml,"
    " requirements.txt, pixi.lock, conda-lock.yml or an explicit list.",
)
@options.allow_needed
@options.dry_run
@options.offline
@click.option(
    "--refresh",
    "--refresh-index",
    "refresh",
    is_flag=True,
    help="Read all pages anew, and the live PyTorch index besides the built-in facts.",
)
@click.option(
    "--trust-index",
    "trusted",
    multiple=True,
    metavar="NAME=HOST",
    help="Write into envspec's configuration that an index of this name, and its login, belong to this host.",
)
@options.locks_dir
@options.quiet
@options.verbose
@options.as_json
def command(
    specs: tuple[str, ...],
    targets: tuple[str, ...],
    upgrade: bool,
    packages: tuple[str, ...],
    upgrade_images: bool,
    pins: Path | None,
    allow_needed: bool,
    dry_run: bool,
    offline: bool,
    refresh: bool,
    trusted: tuple[str, ...],
    locks_dir: Path | None,
    verbose: bool,
    as_json: bool,
) -> int:
    """Resolve specs and write their locks

    envspec resolves each target of a spec for its own platform, Python and CUDA. Pins of the old lock stay where they
    still fit. envspec also looks up the digests of the images that recipes use; a known digest stays. envspec writes
    the whole lock or nothing. With several specs, the first that can't be locked ends the run. Without a spec, envspec
    locks every one in specs/, here or above in the same git repository.
    """
    from envspec.resolve.workflow.keep import Upgrade

    _trust(trusted)
    if dry_run and allow_needed:
        raise click.UsageError("--allow-needed writes into the spec, and --dry-run writes nothing")
    if pins and (upgrade or packages):
        raise click.UsageError("--upgrade asks for newer versions, and --pins-from for those of another lock")
    choices = LockChoices(
        Upgrade(everything=upgrade, packages=frozenset(packages)),
        targets,
        locks_dir=locks_dir,
        images=upgrade_images,
        allow_needed=allow_needed,
        offline=offline,
        refresh=refresh,
        dry_run=dry_run,
        quiet=as_json,
        verbose=verbose,
        pins=pins,
    )
    # every spec is read before the first is resolved: a typing error in the last one should cost no time
    parsed = [inputs.read_spec(path) for path in all_specs(specs)]
    _refuse_shared_locks(parsed, locks_dir)
    results, refused = [], 0
    for number, spec in enumerate(parsed, start=1):
        try:
            done = lock_spec(spec, choices)
        except EnvspecError as error:
            if len(parsed) == 1:
                raise
            failure = told(Failure.of(_placed(error, spec)))
            if dry_run and isinstance(error, AnswerNo):
                # nothing is written, so that all are asked
                results.append({"spec": spec.path, "status": "refused", "errors": failure.document()["errors"]})
                refused = failure.exit_code
                continue
            if left := parsed[number:]:
                say(f"not tried: {', '.join(spec.path for spec in left)}")
            if as_json:
                out_json(failure.document())
            return failure.exit_code
        results.append(done)
    keep_bounded()
    if as_json:
        options.print_json("lock", {"specs": results, "facts": edition_document()})
    return refused


def lock_spec(spec: Spec, choices: LockChoices) -> dict[str, object]:
    """Bring a spec's lock up to date, and say what changed; gives the spec's part of `lock --json`.

    Waits for another envspec that is locking it. Raises EnvspecError, with the lock as it was.
    """
    with exclusive(spec, choices.locks_dir) as folder:
        return lock_held(spec, folder, choices)


@contextmanager
def exclusive(spec: Spec, locks_dir: Path | None) -> Iterator[LockFolder]:
    """Give the folder of a spec's lock, with no other envspec at work on it; wait for one that is."""
    folder = inputs.folder_of(spec, locks_dir)
    with folder.exclusive(lambda: say(f"waiting: another envspec is locking {spec.name}")):
        yield folder


def lock_held(spec: Spec, folder: LockFolder, choices: LockChoices, first: Sequence[str] = ()) -> dict[str, object]:
    """Do what `lock_spec` does, in a folder that is `exclusive` already. What changed is told behind the lines
    `first`."""
    done = _lock(spec, folder, choices, first)
    if done["status"] == "written":
        _tell_recipes(spec, folder, choices.locks_dir)
    return done


def _tell_recipes(spec: Spec, folder: LockFolder, locks_dir: Path | None) -> None:
    """Say which exported recipes the new lock has outdated, and how to renew them."""
    recipes = inputs.recipes_of(spec, locks_dir)
    if not recipes.is_dir():
        return
    from envspec.app.export.recipes import recipe_drift
    from envspec.lock.judge import UnsoundLock, sound

    try:
        found, again = recipe_drift(spec, sound(folder.load(), spec, str(folder.path)), recipes)
    except UnsoundLock:
        # with --target, the other targets may not answer the spec yet
        return
    except InputError as error:
        warn(f"{recipes} can't be exported again: {error.message}")
        say(f"hint: {error.hint or 'see `envspec check`'}")
        return
    if found:
        say(f"hint: the recipes in {recipes} differ from the new lock: {again}{inputs.elsewhere(locks_dir)}")


def _placed(error: EnvspecError, spec: Spec) -> EnvspecError:
    """Give an error without a place, such as the resolver's, the spec as its place."""
    for one in parts(error):
        one.place = one.place or Place(spec.path)
    return error


def _trust(said: Sequence[str]) -> None:
    """Write down which host an index of a name belongs to. Raises InputError."""
    for text in said:
        name, mark, host = text.partition("=")
        if not (mark and name and HOST.fullmatch(host)):
            raise click.UsageError(f"--trust-index takes NAME=HOST, and {printable(text)} isn't that")
        path = trust_index(os.environ, name, host)
        say(f"{path}: logins of the index {name} may go to {host}")


def _refuse_shared_locks(specs: list[Spec], locks_dir: Path | None) -> None:
    seen: dict[Path, str] = {}
    for spec in specs:
        path = inputs.folder_of(spec, locks_dir).path
        if seen.setdefault(path, spec.path) != spec.path:
            raise InputError(
                f"{seen[path]} and {spec.path} would both be locked as {path}", hint="give each its own [env] name"
            )


def _lock(spec: Spec, folder: LockFolder, choices: LockChoices, first: Sequence[str] = ()) -> dict[str, object]:
    from envspec.app.lock.images import ImageDigests, are_wanted, stale_images
    from envspec.app.lock.summary import changes, describe, shortened
    from envspec.resolve.workflow.images import tell_images
    from envspec.resolve.workflow.pythons import with_missing_pythons
    from envspec.resolve.workflow.relock import flaws_of

    policy = refuse_spec(spec)
    old = _old(folder)
    upgrade, renew = choices.upgrade, choices.upgrade.everything or choices.images
    forced = upgrade.everything or upgrade.packages or choices.refresh or choices.targets or choices.pins
    fresh = old is not None and not forced and not _is_stale(spec, old) and not flaws_of(spec, old)
    # a lock of an older schema stays as long as nobody can be asked for what this one holds
    stays = fresh and old is not None and (old.schema == LOCK_VERSION or choices.offline)
    resolved = with_missing_pythons(old, partial(bound_in_time, spec, policy)) if stays and old else None
    if resolved is not None:
        tell_images(spec, resolved.targets, notice)  # the spec's [image] may have changed, and stales no lock
        # for a lock that stays nobody is asked, unless the site wants it
        wanted = policy is not None and policy.advisories
        refuse_malicious(spec, resolved, str(folder.path), offline=choices.offline or not wanted, quiet=True)
    if resolved is not None and policy is not None:
        refuse_written(policy, spec, resolved, str(folder.path), offline=choices.offline)
    if resolved is not None and resolved == old and not renew and not stale_images(spec, resolved):
        if not choices.dry_run:
            bring_in_line(spec, folder, resolved)
        if not choices.quiet:
            for line in first:
                out(line)
            out(f"{folder.path} is fresh: {describe(resolved)}. `--upgrade` looks for newer versions.")
        return _result(spec, folder, resolved, "fresh", [])
    _refuse_unknown_packages(upgrade, spec, old, choices.named_by)
    asked = choices.images or are_wanted(spec, old, inputs.recipes_of(spec, choices.locks_dir))
    digests = ImageDigests(spec, old, renew=renew, offline=choices.offline or not asked)
    if resolved is None:
        spec, resolved = _resolved(spec, old, policy, choices)
        refuse_malicious(spec, resolved, str(folder.path), offline=choices.offline)
        if policy is not None:
            refuse_written(policy, spec, resolved, str(folder.path), offline=choices.offline)
    new = digests.put_into(resolved)
    moved = changes(old, new)
    if choices.dry_run:
        status, words = ("unchanged", "unchanged:") if new == old else ("would-change", "not written (--dry-run):")
    else:
        status, words = ("written", "wrote") if write(spec, folder, new) else ("unchanged", "unchanged:")
    if not choices.quiet:
        for line in (*first, *(moved if choices.verbose else shortened(moved, old, new))):
            out(line)
        out(f"{words} {folder.path}: {describe(new)}")
    return _result(spec, folder, new, status, moved)


def _is_stale(spec: Spec, lock: Lock) -> bool:
    from envspec.lock.freshness import reasons

    return bool(reasons(spec, lock))


def _old(folder: LockFolder) -> Lock | None:
    """Read the lock that is there, if any: also one that was merged line by line, since it is judged and rewritten."""
    from envspec.lock.read import LockLayout

    try:
        return folder.read()
    except LockLayout as error:
        return error.lock


def _resolved(spec: Spec, old: Lock | None, policy: Policy | None, choices: LockChoices) -> tuple[Spec, Lock]:
    """Resolve the spec's new lock. With `allow_needed` the spec itself may change: sources that the resolution needs
    are added to its allow-source, until it needs no more.
    """
    from envspec.resolve.pip.build_environment import build_environments
    from envspec.resolve.pip.publishers import publishers
    from envspec.resolve.pip.sources_needed import SourcesNeeded
    from envspec.resolve.pip.unbounded import FAR
    from envspec.resolve.workflow.relock import relock
    from envspec.spec.edit import allow_source

    tell_edition()
    first = first_pins(spec, choices.pins) if choices.pins else None
    while True:
        told: list[Finding] = []
        try:
            newer = bool(choices.upgrade.everything or choices.upgrade.packages)
            settings = {"offline": choices.offline, "refresh": choices.refresh, "fresh": newer, "quiet": choices.quiet}
            with resolvers_for(spec, notice=told.append, **settings) as (pip, conda):
                bounded = _bounded(spec, old, choices)
                lock = relock(
                    bounded,
                    old,
                    pip,
                    conda=conda,
                    upgrade=choices.upgrade,
                    only=choices.targets,
                    refreshed=choices.refresh,
                    not_after=bound_of(bounded, policy),
                    notice=told.append,
                    inspect=pip.inspector,
                    builds=partial(build_environments, pip),
                    publishers=partial(publishers, pip),
                    first=first,
                    tell=pip.tell,
                )
                return spec, _without_mere_time(old, lock) if bounded != spec else lock
        except SourcesNeeded as needed:
            if not choices.allow_needed:
                raise
            if policy is not None:
                refuse_builds(policy, needed.names, spec.path)
            allow_source(spec.path, needed.names)
            say(f"note: {needed.message}", style="cyan")
            say(f"wrote allow-source into {spec.path}: {', '.join(needed.names)}")
            spec = inputs.read_spec(spec.path)
        finally:
            # what stays far behind stands above everything else
            for one in sorted(told, key=lambda one: one.code != FAR):
                notice(one)


def _bounded(spec: Spec, old: Lock | None, choices: LockChoices) -> Spec:
    """Give the spec with a moment for each of its durations: those that stand in the lock, or counted from now where
    the lock begins or pins may move. Targets share one moment, so it stays where only some are locked."""
    from envspec.spec.newer import beginning, has_ended, standing

    upgraded = choices.upgrade.everything or choices.upgrade.packages
    some = bool(choices.targets) and set(choices.targets) != {target.name for target in spec.targets}
    if old is not None and old.inputs.exclude_newer is not None and (some or not upgraded):
        return standing(spec, old.inputs.exclude_newer)
    now = datetime.now(timezone.utc)
    for one in spec.newer_for:
        if has_ended(one, now):
            warn(
                f"{spec.path}: the exception of exclude-newer for {one.name} ended on {one.until} and no longer counts"
            )
    bounded = beginning(spec, now)
    if bounded.exclude_newer != spec.exclude_newer:
        said = f"nothing published after {bounded.exclude_newer} is taken: exclude-newer is {spec.exclude_newer}"
        say(f"note: {said}", style="cyan")
    return bounded


def _without_mere_time(old: Lock | None, new: Lock) -> Lock:
    """Keep the old lock where only the moment differs: nothing newer was old enough, and there's nothing to review."""
    if old is None:
        return new
    inputs = replace(new.inputs, exclude_newer=old.inputs.exclude_newer)
    same = old.schema == new.schema and replace(new, inputs=inputs, images=old.images) == old
    return old if same else new


def _refuse_unknown_packages(upgrade: Upgrade, spec: Spec, old: Lock | None, by: str) -> None:
    """Refuse an `--upgrade-package` name that is in neither spec nor lock: it would silently change nothing."""
    from envspec.packages.names import conda_name, requirement_name
    from envspec.packages.requirement import canonical_name
    from envspec.resolve.workflow.pythons import PACKAGE as PYTHON

    # of what has no conda, Python is a build of its own
    known = {PYTHON, *(canonical_name(pin.name) for target in old or () for pin in target.pins)}
    for target in spec.targets:
        known |= {requirement_name(located.text) for located in spec.pip_dependencies(target)}
        known |= {conda_name(located.text) for located in spec.conda_dependencies(target)}
    for name in sorted(upgrade.packages):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
            bare = re.split(r"[^A-Za-z0-9._-]", name.strip(), maxsplit=1)[0]
            raise InputError(
                f"{by or '`envspec upgrade` '}takes a package's name, not {printable(name)}",
                hint=f"{by}{bare or 'NAME'}; a version belongs in the spec",
            )
        if canonical_name(name) not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"`envspec tree {spec.path}` shows what is locked"
            raise InputError(f"{by}{printable(name)}: neither {spec.path} nor its lock has it", hint=hint)


def _result(spec: Spec, folder: LockFolder, lock: Lock, status: str, moved: list[str]) -> dict[str, object]:
    return {
        "spec": spec.path,
        "lock": str(folder.path),
        "status": status,
        "targets": {target.name: len(target.pins) for target in lock},
        "images": {image.name: image.digest for image in lock.images},
        "pythons": {one.platform: f"{one.version}+{one.build}" for one in lock.pythons},
        "changes": moved,
    }
