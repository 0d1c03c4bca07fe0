"""The inputs of a spec's lock: the spec itself, the old lock, and whether that still answers the spec."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from envspec.app import inputs
from envspec.app.lock.images import stale_images
from envspec.base.errors import InputError
from envspec.base.finding import Finding, note, warning
from envspec.base.texts import nearest, printable
from envspec.lock.freshness import reasons
from envspec.lock.inputs import spec_case
from envspec.lock.judge import flaws_of
from envspec.lock.model import Lock
from envspec.lock.read import LockConflict, LockLayout, OlderLock
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.requirement import canonical_name
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.pythons import PACKAGE as PYTHON
from envspec.spec.model import Spec
from envspec.spec.newer import has_ended, moot, with_moments_of_lock, with_moments_of_now

if TYPE_CHECKING:
    from envspec.lock.inventory import Inventory
    from envspec.lock.store import LockFolder


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


class Inputs(Struct, frozen=True):
    """The inputs of a lock.

    old          the lock that is there; one in conflict is the merge of both sides
    stands       the old lock still answers the spec, and the request asks for nothing newer
    fresh        it stands, with the digests of its images
    """

    spec: Spec
    request: LockRequest
    old: Lock | None
    in_conflict: bool
    stands: bool
    fresh: bool
    now: datetime

    def bound(self, spec: Spec) -> Spec:
        """Give the spec with a moment for each of its durations: those of the lock, or counted from now where the lock
        begins or pins may move."""
        if self.old is not None and self.keeps_moment:
            return with_moments_of_lock(spec, self.old.inputs.exclude_newer)
        return with_moments_of_now(spec, self.now)

    @property
    def keeps_moment(self) -> bool:
        """Return whether the moment of the lock stays. Targets share one, so it does where only some are locked."""
        request = self.request
        some = bool(request.targets) and set(request.targets) != {target.name for target in self.spec.targets}
        upgraded = request.upgrade.everything or request.upgrade.packages
        return self.old is not None and self.old.inputs.exclude_newer is not None and (some or not upgraded)

    def moment_findings(self) -> Iterator[Finding]:
        """Name the exceptions of the bound in time that have ended or do nothing, and the moment that is new."""
        spec, bounded = self.spec, self.bound(self.spec)
        for exception in () if self.keeps_moment else spec.newer_for:
            if has_ended(exception, self.now):
                yield warning(
                    f"{spec.path}: the exception of exclude-newer for {exception.name} ended on {exception.until} and"
                    " no longer counts"
                )
        if not self.keeps_moment and bounded.exclude_newer != spec.exclude_newer:
            message = f"nothing published after {bounded.exclude_newer} is taken"
            yield note(f"{message}: exclude-newer is {spec.exclude_newer}")
        for exception in moot(bounded):
            message = f"the exception of exclude-newer for {exception.name} lets nothing through any more"
            yield note(f"{bounded.path}: {message}: exclude-newer itself is as late; remove it")

    def inventories(self) -> Mapping[str, Inventory]:
        """Give what the base of the spec has, by platform: as it was locked, or read anew. Raises as `read_base`."""
        spec, old, request = self.spec, self.old, self.request
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

    def first_pins(self) -> Lock | None:
        """Read another tool's lock for the spec's targets, where the request names one. Raises InputError."""
        if self.request.pins is None:
            return None
        from envspec.lock.formats.foreign import read
        from envspec.lock.formats.foreign.universal import Environment

        targets = [
            Environment(target.name, target.platform, self.spec.python, target.glibc) for target in self.spec.targets
        ]
        return read.first_pins(self.request.pins, targets)


def read_specs(paths: Sequence[str], locks_dir: Path | None) -> list[Spec]:
    """Read all specs before the first is resolved: a typing error in the last one should cost no time.

    Raises SpecError, and InputError where two would have one lock.
    """
    specs = [inputs.read_spec(path) for path in paths]
    seen: dict[Path, str] = {}
    for spec in specs:
        path = inputs.folder_of(spec, locks_dir).path
        if seen.setdefault(path, spec.path) != spec.path:
            raise InputError(
                f"{seen[path]} and {spec.path} would both be locked as {path}", hint="give each its own [env] name"
            )
    return specs


def read(spec: Spec, folder: LockFolder, request: LockRequest) -> tuple[Inputs, list[Finding]]:
    """Read the lock that is there, and compare it with the spec. Raises InputError, LockError."""
    old, conflicts = _read_old(folder)
    _refuse_unknown_packages(request, spec, old)
    stands = old is not None and _stands(spec, old, request)
    fresh = stands and old is not None and not request.images and not stale_images(spec, old)
    now = datetime.now(timezone.utc)
    return Inputs(spec, request, old, bool(conflicts), stands, fresh, now), conflicts


def _stands(spec: Spec, old: Lock, request: LockRequest) -> bool:
    upgrade, case = request.upgrade, spec_case(spec)
    forced = upgrade.everything or upgrade.packages or request.refresh or request.targets or request.pins
    of_base = request.images and spec.base is not None
    return not (forced or of_base or reasons(case, old) or flaws_of(old, case))


def _read_old(folder: LockFolder) -> tuple[Lock | None, list[Finding]]:
    """Read the old lock, if any. A lock that git merged line by line counts: it is judged and rewritten. The sides of a
    lock in conflict are merged by package, with findings about that. A lock from before the first release counts as
    none."""
    try:
        return folder.read(), []
    except OlderLock:
        return None, []
    except LockLayout as error:
        return error.lock, []
    except LockConflict as error:
        from envspec.app.git import merge_of_conflict

        merged = merge_of_conflict(folder.path, error)
    merging = note(f"{folder.path} is in conflict: envspec merges both sides by package")
    newer = (
        note(f"{printable(str(conflict))}: the newer counts where the spec allows it") for conflict in merged.conflicts
    )
    return merged.lock, [merging, *newer]


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
