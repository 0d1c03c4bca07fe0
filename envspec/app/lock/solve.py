"""The solving of a spec's lock, with the sources that `--allow-needed` writes into the spec on the way."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from msgspec.structs import replace

from envspec.app import inputs as app_inputs
from envspec.app.edition import edition_findings
from envspec.app.lock.read import Inputs
from envspec.app.lock.resolvers import resolvers_of
from envspec.app.observer import interruption_says
from envspec.app.policy import Applied, apply
from envspec.base.errors import EnvspecError, OutsideError, parts
from envspec.base.finding import Finding, carrying, change, note, warning
from envspec.base.texts import printable
from envspec.configuration.settings import load_settings
from envspec.lock.model import Lock
from envspec.resolve.pip.sources_needed import BuildNeeds, names_needed
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.spec.model import Spec

if TYPE_CHECKING:
    from envspec.spec.edit import NeededByBuild


def solve(inputs: Inputs, applied: Applied) -> tuple[tuple[Spec, Lock], list[Finding]]:
    """Give the old lock where it stands, else a new one, each with its spec: `allow_needed` may change that. A dry run
    solves a fresh lock all the same: an older envspec, or older facts, may have made it."""
    spec, old, request = inputs.spec, inputs.old, inputs.request
    if not inputs.stands or old is None:
        return _solve_anew(inputs, applied)
    if not (inputs.fresh and request.dry_run) or request.offline or inputs.in_conflict:
        return (spec, old), []
    try:
        return (spec, old), _solve_anew(inputs, applied)[1]
    except OutsideError as error:
        unknown = f"{spec.path}: its lock is fresh; whether it could be made again isn't known: {error.message}"
        return (spec, old), [*error.findings, warning(unknown)]


def _solve_anew(inputs: Inputs, applied: Applied) -> tuple[tuple[Spec, Lock], list[Finding]]:
    spec, old, request = inputs.spec, inputs.old, inputs.request
    with carrying() as report:
        if old is None and (unasked := load_settings(os.environ).unasked):
            message = "the spec's own indexes are asked, and not those of " + printable(", ".join(unasked))
            report.append(note(f"{message}: name such an index in [pip] indexes, and its packages in sources"))
        report += (*edition_findings(), *inputs.moment_findings(), *applied.findings)
        relock_request = RelockRequest(
            inputs.bound(spec),
            old,
            upgrade=request.upgrade,
            only=request.targets,
            not_after=applied.not_after,
            first=inputs.first_pins(),
            inventories=inputs.inventories(),
            allows=request.allow_needed,
        )
        solved, diagnostics = _solve_with_sources(spec, relock_request, inputs)
        return solved, [*report, *diagnostics]


def _solve_with_sources(
    spec: Spec, relock_request: RelockRequest, inputs: Inputs, tried: Collection[NeededByBuild] = ()
) -> tuple[tuple[Spec, Lock], list[Finding]]:
    """Solve a spec. With `allow_needed` the spec itself may change: the sources that the resolution needs are added to
    its allow-source, and what their builds need to build-dependencies, until it needs no more."""
    request, fresh = inputs.request, bool(relock_request.upgrade.everything or relock_request.upgrade.packages)
    with carrying() as report:
        try:
            with resolvers_of(spec, offline=request.offline, refresh=request.refresh, fresh=fresh) as resolvers:
                lock, diagnostics = relock(relock_request, resolvers)
            return (spec, _without_mere_time(inputs.old, lock) if relock_request.spec != spec else lock), [
                *report,
                *diagnostics,
            ]
        except EnvspecError as refused:
            allowed, notes, changes, needs = _allow_needed(spec, refused, inputs, tried)
        # the other findings come again with the lock, where they still hold
        written = [*map(note, notes), *map(change, changes)]
        report[:] = written
        with interruption_says("; ".join(changes)):
            relock_request = replace(relock_request, spec=inputs.bound(allowed))
            solved, more = _solve_with_sources(allowed, relock_request, inputs, {*tried, *needs})
        return solved, [*written, *more]


def _allow_needed(
    spec: Spec, refused: EnvspecError, inputs: Inputs, tried: Collection[NeededByBuild]
) -> tuple[Spec, list[str], list[str], list[NeededByBuild]]:
    """Write the sources that a refusal needs into the spec; give that, notes, the changes and what builds need. Raises
    the refusal again where they aren't all that is needed, or may not be allowed; and Forbidden."""
    from envspec.spec.edit import NeededByBuild, allow_source

    needed = [part for part in parts(refused) if names_needed(part)]
    builds = [part for part in parts(refused) if isinstance(part, BuildNeeds)]
    needs = [NeededByBuild(build.about[0], build.line, build.tables) for build in builds]
    if not (needed or builds) or not inputs.request.allow_needed or {*tried}.intersection(needs):
        raise refused
    names = tuple(dict.fromkeys(name for part in needed for name in names_needed(part)))
    apply(replace(spec, pip=replace(spec.pip, allow_source=(*spec.pip.allow_source, *names))))
    allow_source(spec.path, names, needs)
    notes = [source.message for source in (*needed, *builds)]
    changes = [f"wrote allow-source into {spec.path}: {', '.join(names)}"] if names else []
    for need in needs:
        line = f"{need.package} = {', '.join(need.lines)}"
        changes.append(f"wrote build-dependencies into {spec.path}: {line}")
    return app_inputs.read_spec(spec.path), notes, changes, needs


def _without_mere_time(old: Lock | None, new: Lock) -> Lock:
    """Keep the old lock where only the moment differs: nothing newer was old enough, and there's nothing to review."""
    if old is None:
        return new
    inputs = replace(new.inputs, exclude_newer=old.inputs.exclude_newer)
    same = replace(new, inputs=inputs, images=old.images) == old
    return old if same else new
