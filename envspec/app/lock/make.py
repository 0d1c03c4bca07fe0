"""Making a spec's lock: what stays of the old one, what is resolved anew, and what is written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.app import inputs
from envspec.app.edition import tell_edition
from envspec.app.lock.images import ImageDigests, stale_images, wants_images
from envspec.app.lock.notes import Notes, notice
from envspec.app.lock.resolvers import resolvers_of
from envspec.app.lock.summary import changes
from envspec.app.malicious import refuse_malicious
from envspec.app.observer import say, warn
from envspec.app.policy import bound_of, refuse_builds, refuse_new_lock, refuse_spec, tell_bound
from envspec.app.unmerged import take_in_command, unmerged_files
from envspec.base.atomic import stage_file
from envspec.base.errors import EnvspecError, InputError, OutsideError, parts
from envspec.base.open_folder import locate
from envspec.base.places import config_file, home_of
from envspec.base.reader.document import decode, key_path, parse_toml
from envspec.base.reader.structure import Checked
from envspec.base.settings import load_settings
from envspec.base.storage import storage_error
from envspec.base.texts import nearest, printable
from envspec.base.user_config import FORMAT, load_user_config
from envspec.lock.freshness import reasons, rendered_reasons
from envspec.lock.inputs import spec_case
from envspec.lock.judge import UnsoundLock, flaws_of, sound
from envspec.lock.model import Lock
from envspec.lock.pinned import warnings_of
from envspec.lock.read import LockConflict, LockLayout, OlderLock
from envspec.lock.signing.model import SUFFIX
from envspec.lock.store import rendered_files
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.requirement import canonical_name
from envspec.resolve.pip.sources_needed import BuildNeeds, names_needed
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.pythons import PACKAGE as PYTHON
from envspec.resolve.workflow.relock import RelockRequest, image_findings, relock
from envspec.spec.newer import has_ended, moot, with_moments_of_lock, with_moments_of_now

if TYPE_CHECKING:
    from envspec.lock.inventory import Inventory
    from envspec.lock.store import LockFolder
    from envspec.review.policy.model import Policy
    from envspec.spec.model import Spec


class LockRequest(Struct, frozen=True):
    """A request for locks.

    `upgrade` names the pins that may change, `targets` the only ones to resolve (none: all). `images` looks up image
    digests again, `allow_needed` adds to the spec the sources that its packages need, `refresh` reads the live PyTorch
    index, `dry_run` writes nothing. `pins` is another tool's lock, whose versions are preferred. `named_by` is what
    stands before a package's name on the command line.
    """

    upgrade: Upgrade = field(default_factory=Upgrade)
    targets: tuple[str, ...] = ()
    locks_dir: Path | None = None
    images: bool = False
    allow_needed: bool = False
    offline: bool = False
    refresh: bool = False
    dry_run: bool = False
    pins: Path | None = None
    named_by: str = "--upgrade-package "


class Locked(Struct, frozen=True):
    """The lock of a spec, and what became of the old one.

    status   "fresh": it is as it was, and no index was asked; "unchanged": asked, and as it was; "written";
             "would-change": not written, by `dry_run`
    changes  a line for each package, build of Python and image digest that changed; none for a first lock
    held     the packages to upgrade that stay as they are, though there is a newer release
    missing_digests  why a registry has no digest for images, by image
    """

    spec: Spec
    folder: LockFolder
    lock: Lock
    old: Lock | None
    status: Literal["fresh", "unchanged", "would-change", "written"]
    changes: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    missing_digests: Mapping[str, str] = field(default_factory=dict)


def read_specs(paths: Sequence[str], locks_dir: Path | None) -> list[Spec]:
    """Read all specs before the first is resolved: a typing error in the last one should cost no time.

    Raises SpecError, and InputError where two would have one lock.
    """
    found = [inputs.read_spec(path) for path in paths]
    seen: dict[Path, str] = {}
    for spec in found:
        path = inputs.folder_of(spec, locks_dir).path
        if seen.setdefault(path, spec.path) != spec.path:
            raise InputError(
                f"{seen[path]} and {spec.path} would both be locked as {path}", hint="give each its own [env] name"
            )
    return found


def lock_spec(spec: Spec, request: LockRequest) -> Locked:
    """Bring a spec's lock up to date. Waits for another envspec that is locking it.

    Raises EnvspecError, with the lock as it was.
    """
    with exclusive(spec, request.locks_dir) as folder:
        return lock_in_folder(spec, folder, request)


@contextmanager
def exclusive(spec: Spec, locks_dir: Path | None) -> Iterator[LockFolder]:
    """Give the folder of a spec's lock, with no other envspec at work on it; wait for one that is."""
    folder = inputs.folder_of(spec, locks_dir)
    with folder.exclusive(lambda: say(f"waiting: another envspec is locking {spec.name}")):
        yield folder


def tell_missing_digests(several: Sequence[Locked]) -> None:
    """Say once of all locks of a command which images no registry has a digest for, with the first one's cause."""
    problems = {image: cause for done in several for image, cause in done.missing_digests.items()}
    if problems:
        told = f"the registry has no digest for {', '.join(problems)}: {next(iter(problems.values()))}"
        held = all(done.lock.image(image) for done in several for image in done.missing_digests)
        kept = "the old lock's digest" if held else "the tag alone"
        say(f"note: {printable(told)}; recipes use {kept}, and `--upgrade-images` asks again", style="cyan")


def tell_recipes(done: Locked, locks_dir: Path | None) -> None:
    """Say which exported recipes a new lock has outdated, how to renew them, and how git takes what it left
    unmerged."""
    recipes = inputs.recipes_of(done.spec, locks_dir)
    take_in = (
        take_in_command(unmerged_files(), recipes, done.folder.folder) if done.status in ("written", "fresh") else ""
    )
    renew = _renewing(done, locks_dir, recipes) if done.status == "written" or take_in else ""
    if renew or take_in:
        say(f"hint: {' && '.join(filter(None, (renew, take_in)))}")


def _renewing(done: Locked, locks_dir: Path | None, recipes: Path) -> str:
    spec, folder = done.spec, done.folder
    if not recipes.is_dir():
        return ""
    from envspec.app.export.recipes import recipe_drift

    try:
        found, again = recipe_drift(spec, sound(folder.load(), spec_case(spec), str(folder.path)), recipes)
    except UnsoundLock:
        # with --target, the other targets may not answer the spec yet
        return ""
    except InputError as error:
        warn(f"{recipes} can't be exported again: {error.message}")
        say(f"hint: {error.hint or 'see `envspec check`'}")
        return ""
    return f"the recipes in {recipes} differ from the new lock: {again}{inputs.elsewhere(locks_dir)}" if found else ""


def lock_in_folder(spec: Spec, folder: LockFolder, request: LockRequest) -> Locked:
    """Do what `lock_spec` does, in a folder that is `exclusive` already."""
    policy, (old, in_conflict) = refuse_spec(spec), _old(folder)
    renew = request.upgrade.everything or request.images
    resolved = _standing(spec, folder, old, policy, request)
    if resolved is not None and resolved == old and not renew and not stale_images(spec, resolved):
        if in_conflict:
            return _finish_merge(Locked(spec, folder, resolved, old, "would-change"), request)
        if not request.dry_run:
            _bring_in_line(spec, folder, resolved)
        elif not request.offline:
            _refuse_what_is_refused_now(spec, folder, old, policy, request)
        for one in warnings_of(spec, resolved):
            notice(one)
        return Locked(spec, folder, resolved, old, "fresh")
    _refuse_unknown_packages(request, spec, old)
    asked = request.images or wants_images(spec, old, inputs.recipes_of(spec, request.locks_dir))
    digests = ImageDigests(spec, old, renew=renew, offline=request.offline or not asked)
    notes = Notes(folder.path)
    if resolved is None:
        if old is None and (unasked := load_settings(os.environ).unasked):
            said = "the spec's own indexes are asked, and not those of " + printable(", ".join(unasked))
            say(f"note: {said}: name such an index in [pip] indexes, and its packages in sources", style="cyan")
        spec, resolved = _resolve(spec, old, policy, request, notes)
        refuse_malicious(spec, resolved, str(folder.path), offline=request.offline)
        if policy is not None:
            refuse_new_lock(policy, spec, resolved, str(folder.path), offline=request.offline)
    new, missing_digests = digests.put_into(resolved)
    done = Locked(spec, folder, new, old, "would-change", tuple(changes(old, new)), missing_digests=missing_digests)
    if in_conflict:
        return _finish_merge(done, request)
    status: Literal["unchanged", "would-change", "written"] = "unchanged"
    if request.dry_run:
        status = "unchanged" if new == old else "would-change"
    else:
        status = "written" if _write(spec, folder, new) else "unchanged"
        notes.keep(of_all=not request.targets)
    return replace(done, status=status, held=_explain_holds(spec, old, new, request))


def _explain_holds(spec: Spec, old: Lock | None, new: Lock, request: LockRequest) -> tuple[str, ...]:
    """Tell what holds the packages to upgrade that stay as they are, and name those with a newer release."""
    stay = [
        name
        for name in sorted(map(canonical_name, request.upgrade.packages))
        if old is not None and _pins_of(old, name) == _pins_of(new, name) != []
    ]
    if not stay:
        return ()
    from envspec.app.outdated import tell_holds

    return tell_holds(spec, new, stay, notice, offline=request.offline)


def _pins_of(lock: Lock, name: str) -> list[tuple[str, str]]:
    return [(target.name, pin.version) for target in lock for pin in target.pins if pin.name == name]


def _refuse_what_is_refused_now(
    spec: Spec, folder: LockFolder, old: Lock | None, policy: Policy | None, request: LockRequest
) -> None:
    """Raise AnswerNo where a fresh lock couldn't be made again: an older envspec, or older facts, may have made it."""
    try:
        _resolve(spec, old, policy, request, Notes(folder.path))
    except OutsideError as error:
        warn(f"{spec.path}: its lock is fresh; whether it could be made again isn't known: {error.message}")


def _standing(
    spec: Spec, folder: LockFolder, old: Lock | None, policy: Policy | None, request: LockRequest
) -> Lock | None:
    """Give the old lock where it still answers the spec and nothing newer is asked; it asks no index. Raises Malicious,
    Forbidden."""
    upgrade = request.upgrade
    forced = upgrade.everything or upgrade.packages or request.refresh or request.targets or request.pins
    if old is None or forced or (request.images and spec.base is not None):
        return None
    case = spec_case(spec)
    if reasons(case, old) or flaws_of(old, case):
        return None
    for finding in image_findings(spec, old.targets):  # the spec's [image] may have changed, and stales no lock
        notice(finding)
    # for a lock that stays nobody is asked, unless the site wants it
    wanted = policy is not None and policy.advisories
    refuse_malicious(spec, old, str(folder.path), offline=request.offline or not wanted, quiet=True)
    if policy is not None:
        refuse_new_lock(policy, spec, old, str(folder.path), offline=request.offline)
    return old


def _old(folder: LockFolder) -> tuple[Lock | None, bool]:
    """Read the lock that is there, if any: also one that was merged line by line, since it is judged and rewritten; and
    of one in conflict both sides, merged by package. One from before the first release counts as none. Says whether it
    is in conflict."""
    try:
        return folder.read(), False
    except OlderLock:
        return None, False
    except LockLayout as error:
        return error.lock, False
    except LockConflict as error:
        from envspec.app.git import merge_of_conflict

        merged = merge_of_conflict(folder.path, error)
    say(f"note: {folder.path} is in conflict: envspec merges both sides by package", style="cyan")
    for one in merged.conflicts:
        say(f"note: {printable(str(one))}: the newer counts where the spec allows it", style="cyan")
    return merged.lock, True


def _finish_merge(done: Locked, request: LockRequest) -> Locked:
    """Write a lock that was in conflict."""
    if request.dry_run:
        return done
    _write(done.spec, done.folder, done.lock)
    return replace(done, status="written")


def _resolve(
    spec: Spec, old: Lock | None, policy: Policy | None, request: LockRequest, notes: Notes
) -> tuple[Spec, Lock]:
    """Resolve the spec's new lock. With `allow_needed` the spec itself may change: sources that the
    resolution needs are added to its allow-source, and what their builds need to build-dependencies, until it needs no
    more.
    """
    from envspec.spec.edit import NeededByBuild, allow_source

    tell_edition()
    first = _first_pins(spec, request.pins) if request.pins else None
    inventories = _inventories(spec, old, request)
    now, not_after = datetime.now(timezone.utc), bound_of(policy)
    bounded = _with_moments(spec, old, request, now)
    _tell_moments(spec, bounded, now, of_lock=_stays(spec, old, request))
    tell_bound(bounded, policy, not_after)
    written: set[NeededByBuild] = set()
    while True:
        try:
            with resolvers_of(
                spec,
                notes.take,
                offline=request.offline,
                refresh=request.refresh,
                fresh=bool(request.upgrade.everything or request.upgrade.packages),
            ) as resolvers:
                asked = RelockRequest(
                    bounded,
                    old,
                    upgrade=request.upgrade,
                    only=request.targets,
                    refreshed=request.refresh,
                    not_after=not_after,
                    first=first,
                    inventories=inventories,
                    allows=request.allow_needed,
                )
                lock = relock(asked, resolvers, notes.take)
                return spec, _without_mere_time(old, lock) if bounded != spec else lock
        except EnvspecError as refused:
            # what else stands in the way is told once these are allowed, alone
            needed = [one for one in parts(refused) if names_needed(one)]
            builds = [one for one in parts(refused) if isinstance(one, BuildNeeds)]
            needs = [NeededByBuild(one.about[0], one.line, one.tables) for one in builds]
            if not (needed or builds) or not request.allow_needed or written.intersection(needs):
                raise
            names = tuple(dict.fromkeys(name for one in needed for name in names_needed(one)))
            if policy is not None:
                refuse_builds(policy, names, spec.path)
            allow_source(spec.path, names, needs)
            written.update(needs)
            for source in (*needed, *builds):
                say(f"note: {source.message}", style="cyan")
            if names:
                say(f"wrote allow-source into {spec.path}: {', '.join(names)}")
            for one in needs:
                say(f"wrote build-dependencies into {spec.path}: {one.package} = {', '.join(one.lines)}")
            spec = inputs.read_spec(spec.path)
            bounded = _with_moments(spec, old, request, now)
            # they come again with the lock, where they still hold
            notes.forget()
        finally:
            notes.show()


def _inventories(spec: Spec, old: Lock | None, request: LockRequest) -> Mapping[str, Inventory]:
    """Give what the base of a spec has, by platform: as it was locked, or read anew. Raises as `read_base`."""
    if spec.base is None:
        return {}
    platforms = {target.platform for target in spec.targets}
    known = old.inputs.base if old else None
    same = known is not None and (known.kind, known.place) == (spec.base.kind, spec.base.place)
    if old and same and not (request.images or request.upgrade.everything) and old.inventories.keys() >= platforms:
        return {platform: old.inventories[platform] for platform in sorted(platforms)}
    # 16 modules that read images: no other lock needs them
    from envspec.app.base import inventories_of

    return inventories_of(spec, offline=request.offline)


def _with_moments(spec: Spec, old: Lock | None, request: LockRequest, now: datetime) -> Spec:
    """Give the spec with a moment for each of its durations: those that stand in the lock, or counted from now where
    the lock begins or pins may move."""
    if old is not None and _stays(spec, old, request):
        return with_moments_of_lock(spec, old.inputs.exclude_newer)
    return with_moments_of_now(spec, now)


def _stays(spec: Spec, old: Lock | None, request: LockRequest) -> bool:
    """Say whether the moment of the lock stays. Targets share one, so it does where only some are locked."""
    upgraded = request.upgrade.everything or request.upgrade.packages
    some = bool(request.targets) and set(request.targets) != {target.name for target in spec.targets}
    return old is not None and old.inputs.exclude_newer is not None and (some or not upgraded)


def _tell_moments(spec: Spec, bounded: Spec, now: datetime, *, of_lock: bool) -> None:
    """Say what comes of the durations of a spec, which `bounded` has as moments."""
    for one in () if of_lock else spec.newer_for:
        if has_ended(one, now):
            warn(
                f"{spec.path}: the exception of exclude-newer for {one.name} ended on {one.until} and no longer counts"
            )
    if not of_lock and bounded.exclude_newer != spec.exclude_newer:
        said = f"nothing published after {bounded.exclude_newer} is taken: exclude-newer is {spec.exclude_newer}"
        say(f"note: {said}", style="cyan")
    for one in moot(bounded):
        said = f"the exception of exclude-newer for {one.name} lets nothing through any more"
        say(f"note: {bounded.path}: {said}: exclude-newer itself is as late; remove it", style="cyan")


def _without_mere_time(old: Lock | None, new: Lock) -> Lock:
    """Keep the old lock where only the moment differs: nothing newer was old enough, and there's nothing to review."""
    if old is None:
        return new
    inputs = replace(new.inputs, exclude_newer=old.inputs.exclude_newer)
    same = replace(new, inputs=inputs, images=old.images) == old
    return old if same else new


def _refuse_unknown_packages(request: LockRequest, spec: Spec, old: Lock | None) -> None:
    """Refuse an `--upgrade-package` name that is in neither spec nor lock: it would silently change nothing."""
    # of what has no conda, Python is a build of its own
    known = {PYTHON, *(canonical_name(pin.name) for target in old or () for pin in target.pins)}
    for target in spec.targets:
        known |= {requirement_name(located.text) for located in spec.pip_dependencies(target)}
        known |= {conda_name(located.text) for located in spec.conda_dependencies(target)}
    by = request.named_by
    for name in sorted(request.upgrade.packages):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
            bare = re.split(r"[^A-Za-z0-9._-]", name.strip(), maxsplit=1)[0]
            message = f"{by or '`envspec upgrade` '}takes a package's name, not {printable(name)}"
            raise InputError(message, hint=f"{by}{bare or 'NAME'}; a version belongs in the spec")
        if canonical_name(name) not in known:
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"`envspec tree {spec.path}` shows what is locked"
            raise InputError(f"{by}{printable(name)}: neither {spec.path} nor its lock has it", hint=hint)


def _first_pins(spec: Spec, path: Path) -> Lock:
    """Read another tool's lock for a spec's targets. Raises InputError."""
    from envspec.review.diff.foreign import read
    from envspec.review.diff.foreign.universal import Environment

    return read.first_pins(path, [Environment(one.name, one.platform, spec.python, one.glibc) for one in spec.targets])


def _bring_in_line(spec: Spec, folder: LockFolder, lock: Lock) -> None:
    """Write a fresh lock again where it is laid out otherwise, or where what is rendered from it differs."""
    if not folder.holds(lock):
        _write(spec, folder, lock)
        say(f"wrote {folder.path} again, as this envspec writes locks: its pins are the same")
    elif rendered_reasons(rendered_files(lock), folder.read_rendered_files(lock)):
        folder.write(lock)
        say(f"rendered the files beside {folder.path} again: they differed from the lock")


def _write(spec: Spec, folder: LockFolder, lock: Lock) -> bool:
    """Write a lock; say so where the signature of the old one goes. Return whether anything changed."""
    signed = folder.is_signed()
    changed = folder.write(lock)
    if signed and not folder.is_signed():
        say(f"removed {folder.path}{SUFFIX}: it signed the lock that was there before")
        say(f"hint: envspec sign {spec.path}")
    return changed


def trust_index(env: Mapping[str, str], name: str, host: str) -> Path:
    """Write into envspec's configuration that the login of an index of this name may go to this host, and give the
    file. What else the file says stays as it is, and so do its permissions. Raises InputError for a file that isn't
    a configuration, StorageError for one that can't be read or written."""
    import tomlkit

    path = config_file(env, home_of(env))
    try:
        text = decode(path.read_bytes(), str(path)) if path.exists() else ""
        Checked(parse_toml(text, str(path)), FORMAT).raise_problems()
        config = load_user_config(env, str(home_of(env)))
        key = key_path(("trusted-indexes", name))
        config.refuse_other(key, config.trusted_indexes.get(name), host, "--trust-index")
        document = tomlkit.parse(text)
        document.setdefault("trusted-indexes", tomlkit.table())[name] = host
        own = path.resolve()
        with stage_file(locate(own.parent), own.name) as file:
            if text:
                os.fchmod(file.fileno(), own.stat().st_mode & 0o777)
            file.write(tomlkit.dumps(document).encode())
    except OSError as error:
        raise storage_error(error, path, option="ENVSPEC_CONFIG") from None
    return path
