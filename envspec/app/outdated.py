"""Newer releases of what a lock pins, and how far each target's GPUs, driver and CUDA get."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from envspec.app import inputs
from envspec.app.lock.resolvers import resolvers_of
from envspec.app.observer import observer, warn
from envspec.app.policy import bound_of, permit_addresses
from envspec.app.site_policy import site_policy
from envspec.base.errors import EnvspecError
from envspec.base.finding import Finding
from envspec.base.progress import Progress
from envspec.base.threads import Pool
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.net.index_proxy.releases import Release
from envspec.packages.requirement import canonical_name
from envspec.resolve.pip.setup import pip_resolver
from envspec.resolve.pip.solve import PipResolver
from envspec.resolve.workflow.keep import Upgrade
from envspec.resolve.workflow.prepare import NotAfter
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.review.outdated import (
    BetterVariant,
    Differing,
    Newer,
    Sides,
    TargetHorizon,
    better_variants,
    find_differing,
    find_newer,
    held_findings,
    horizon_of,
    list_releases,
    offered_variant,
)
from envspec.spec.model import Spec
from envspec.spec.newer import bounds, with_moments_of_now

_AT_ONCE = 16
"""The pages that are read at a time."""


class Outdated(Struct, frozen=True):
    """Releases newer than some targets of a lock have them.

    differing  packages that the spec asks for by name, of which targets have different releases
    total      the number of packages that were looked up
    unread     why a package's page couldn't be read, by its name
    """

    spec: Spec
    lock: Lock
    targets: tuple[LockedTarget, ...]
    newer: tuple[Newer, ...]
    differing: tuple[Differing, ...]
    variants: tuple[BetterVariant, ...]
    total: int
    unread: Mapping[str, str]


def newer_releases(
    path: str, targets: Sequence[str], locks_dir: Path | None, *, direct: bool, offline: bool
) -> Outdated:
    """Look up the releases of a lock's pip pins, each on its own index; with `direct`, only of what the spec asks for.
    An upgrade of all packages, which isn't written, finds what holds each back.

    Raises as `read_lock`, and InputError for an unknown target.
    """
    spec, lock = inputs.read_lock(path, locks_dir, stale="ignore", on_base=True)
    chosen = inputs.locked_targets(lock, targets)
    pins = {
        (pin.index, pin.name): pin
        for target in chosen
        for pin in target.pins
        if pin.kind == "pip" and (pin.direct or not direct)
    }
    known: dict[tuple[str, str], Sequence[Release]] = {}
    unread: dict[str, str] = {}
    bounded = with_moments_of_now(spec, datetime.now(timezone.utc))
    permit_addresses(spec)
    with resolvers_of(bounded, offline=offline) as resolvers:
        resolver = cast("PipResolver", resolvers.pip)
        with observer().progress("reading pages") as progress, Pool(_AT_ONCE) as pool:
            jobs = [(key, pool.submit(list_releases, resolver, pin)) for key, pin in pins.items()]
            for done, (key, job) in enumerate(jobs, start=1):
                try:
                    known[key] = job.result()
                except EnvspecError as error:
                    unread[key[1]] = str(error)
                progress.count(done, len(jobs))
        variants = better_variants(chosen, partial(offered_variant, resolver, unread))
        site = bound_of(site_policy())
        upgraded = _upgrade(bounded, lock, resolvers, site) if not unread else None
    sides = Sides(lock, upgraded or _bound_lock(bounded, lock), bounds(bounded), site)

    def releases(pin: Pin) -> Sequence[Release]:
        return known.get((pin.index, pin.name), ())

    newer = find_newer(sides, chosen, releases)
    differing = find_differing(sides, chosen, releases)
    return Outdated(spec, lock, chosen, newer, differing, variants, len(pins), unread)


def _upgrade(spec: Spec, lock: Lock, resolvers: Resolvers, site: NotAfter | None) -> Lock | None:
    """Return the lock that an upgrade makes; None, and a warning, where it fails."""
    inventories = lock.inventories
    request = RelockRequest(spec, lock, upgrade=Upgrade(everything=True), not_after=site, inventories=inventories)
    try:
        return relock(request, resolvers)[0]
    except EnvspecError as error:
        message = str(error).partition("\n")[0]
        warn(f"{spec.path} can't be upgraded as a whole, so the old pins say what holds others back: {message}")
        return None


def _bound_lock(spec: Spec, lock: Lock) -> Lock:
    """Give a lock with the spec's bound of now."""
    return replace(lock, inputs=replace(lock.inputs, exclude_newer=spec.exclude_newer))


def find_holds(spec: Spec, lock: Lock, names: Iterable[str], *, offline: bool) -> tuple[tuple[str, ...], list[Finding]]:
    """Find the bounds on packages that an upgrade left as they are, with the newest release and the edit that admits
    it. Gives the names of those that have a newer one."""
    report: list[Finding] = []
    bounded = with_moments_of_now(spec, datetime.now(timezone.utc))
    of_now = _bound_lock(bounded, lock)
    left = {canonical_name(name) for name in names}
    pins = {(pin.index, pin.name): pin for target in lock for pin in target.pins if pin.name in left}
    known: dict[tuple[str, str], Sequence[Release]] = {}
    with pip_resolver(spec, os.environ, offline=offline, refresh=False, progress=Progress()) as resolver:
        for key, pin in pins.items():
            try:
                known[key] = list_releases(resolver, pin) if pin.kind == "pip" else ()
            except EnvspecError as error:
                report.append(Finding("info", "upgrade-held", f"{pin.name} stays at {pin.version}: {error}"))
    sides = Sides(of_now, of_now, bounds(bounded), bound_of(site_policy()))
    newer = find_newer(sides, of_now.targets, lambda pin: known.get((pin.index, pin.name), ()))
    report += held_findings(spec, newer, {name for _, name in known})
    return tuple(dict.fromkeys(release.name for release in newer)), report


def horizons(path: str, names: Sequence[str], locks_dir: Path | None) -> tuple[Lock, tuple[TargetHorizon, ...]]:
    """Find the horizon of each target that has a torch of the tables. Raises InputError for an unknown target."""
    spec, lock = inputs.read_lock(path, locks_dir, stale="ignore", on_base=True)
    return lock, tuple(filter(None, (horizon_of(spec, target) for target in inputs.locked_targets(lock, names))))
