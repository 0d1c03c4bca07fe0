"""`envspec install`: a locked target as a folder, or as one file."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from envspec.app import inputs
from envspec.app.base import refuse_changed_base
from envspec.app.cache_size import prune_to_limit
from envspec.app.malicious import refuse_malicious
from envspec.app.observer import note, observer, report
from envspec.app.policy import refuse_target
from envspec.app.run import choose_target, run_installation, tell_outcome
from envspec.configuration.settings import load_settings
from envspec.install.environment import Installation
from envspec.install.environments.make import default_prefix
from envspec.install.model import InstallOutcome
from envspec.install.prefix import checked_prefix
from envspec.lock.model import LockedTarget, SoundLock
from envspec.spec.model import Spec


class InstallRequest(Struct, frozen=True):
    """A target to install.

    target  its name; None: the only one, or without a prefix the one that `run` takes
    prefix  the folder; None: the one that `run` uses
    ask     let the user choose the target where only they can
    """

    path: str
    target: str | None
    prefix: Path | None
    locks_dir: Path | None
    offline: bool
    ask: bool


class Installed(Struct, frozen=True):
    target: LockedTarget
    prefix: Path
    outcome: InstallOutcome


def install(request: InstallRequest, *, dry_run: bool) -> Installed:
    """Install a target, or with `dry_run` only plan it. Raises EnvspecError."""
    spec, lock = inputs.read_lock(request.path, request.locks_dir, on_base=True)
    refuse_changed_base(spec, lock)
    target = permit_target(request, spec, lock, _target(request, spec, lock))
    prefix = checked_prefix(request.prefix or default_prefix(spec, lock, target, make=not dry_run))
    is_shared = request.prefix is None and prefix.parent == load_settings(os.environ).shared_environments
    with observer().progress("reading the installed packages") as progress:
        made = Installation(spec, lock, target, prefix, os.environ, offline=request.offline, progress=progress)
        outcome = made.look() if dry_run or is_shared else run_installation(made)
    if not dry_run:
        prune_to_limit()
    tell_outcome(outcome)
    return Installed(target, prefix, outcome)


def permit_target(request: InstallRequest, spec: Spec, lock: SoundLock, target: LockedTarget) -> LockedTarget:
    """Give the target, which neither the site nor a report of malware forbids. Raises Forbidden, Malicious,
    OutsideError."""
    inputs.tell_lacking_compat(spec, (target,), "the environment")
    refuse_target(spec, lock, target, request.path, offline=request.offline)
    report(refuse_malicious(spec, (target,), request.path, offline=request.offline))
    return target


def _target(request: InstallRequest, spec: Spec, lock: SoundLock) -> LockedTarget:
    """Give the named target or the only one; where the environment is `run`'s, the one that `run` takes."""
    if request.target is not None or request.prefix is not None or len(lock.targets) == 1:
        return inputs.pick_target(lock, request.target)
    target, because = choose_target(spec, tuple(lock), load_settings(os.environ), ask=request.ask)
    inputs.tell_doubts(lock, (target,))
    if because:
        note(f"target {target.name} of {spec.name}: {because}")
    return target
