"""`envspec outdated`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app import inputs
from envspec.base.errors import EnvspecError, IndexFailure
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out, say, warn
from envspec.cli.groups import heading

if TYPE_CHECKING:
    from envspec.lock.model import LockedTarget, Pin
    from envspec.net.index_proxy.releases import Release
    from envspec.packages.variant_choice import TargetMachine
    from envspec.resolve.pip.solve import PipResolver
    from envspec.resolve.workflow.outdated import Newer
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec outdated specs/mm-v2.9.toml
  envspec outdated specs/mm-v2.9.toml --target cpu --direct
  envspec outdated specs/mm-v2.9.toml --horizon       how far each target's GPUs, driver and CUDA get
"""

_AT_ONCE = 16
"""The pages that are read at a time."""


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option("--all", "everything", is_flag=True, help="List also what another package pins exactly.")
@click.option("--direct", is_flag=True, help="Only packages that the spec asks for by name.")
@click.option("--offline", is_flag=True, help="Use no network: take the pages as they were read last.")
@click.option(
    "--horizon", is_flag=True, help="Say the last torch for each target's GPUs, driver and CUDA. Uses no network."
)
@options.locks_dir
@options.as_json
def command(
    path: str,
    targets: tuple[str, ...],
    everything: bool,
    direct: bool,
    offline: bool,
    horizon: bool,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """List newer releases of locked packages, and the bounds that hold each back

    Compares each pip pin with the newest final release on its own index, and names the requirements, the Python, the
    platform or the date that keep it out. What nothing holds back comes with `envspec lock --upgrade-package`.
    envspec doesn't look up conda packages. Changes nothing.
    """
    if horizon:
        from envspec.cli.horizon import tell

        tell(path, targets, locks_dir, as_json=as_json)
        return 0
    from envspec.resolve.workflow.better_variants import better_variants
    from envspec.resolve.workflow.outdated import outdated
    from envspec.spec.newer import bounds, standing

    spec, lock = inputs.read_lock(path, locks_dir)
    chosen = inputs.locked_targets(lock, targets)
    pins = {(pin.index, pin.name): pin for target in chosen for pin in target.pins if pin.kind == "pip"}
    with _pages(spec, offline=offline) as (read, offered):
        known, failed = _read_all(list(pins.values()), read)
        variants = better_variants(chosen, offered(failed))
    own = bounds(standing(spec, lock.inputs.exclude_newer))
    found = outdated(lock, chosen, lambda pin: known.get((pin.index, pin.name), ()), own)
    if direct:
        asked = {pin.name for target in chosen for pin in target.pins if pin.direct}
        found = tuple(newer for newer in found if newer.name in asked)
    if as_json:
        unread = [{"package": name, "reason": reason} for name, reason in failed.items()]
        told = {"newer": [asdict(one) for one in found], "variants": [asdict(one) for one in variants]}
        options.print_json("outdated", {"lock": lock.name, **told, "unread": unread})
    else:
        folded: dict[str, set[str]] = {}
        for newer in found:
            if newer.goes_with and not everything:
                folded.setdefault(newer.goes_with, set()).add(newer.name)
                continue
            for line in _lines(newer, heading(newer.targets, lock)):
                out(line)
        for by, names in folded.items():
            out(f"with {by}: {', '.join(sorted(names))}")
        for one in variants:
            out(f"{one.name} {one.version}, variant {one.locked} -> {one.better}, {heading(one.targets, lock)}")
            out("  published since, and better for these machines")
        out(_summary(found, len(pins), chosen))
    for name, reason in failed.items():
        warn(f"{name}: {printable(reason)}")
    free = next((newer.name for newer in found if not newer.holds), None)
    if free and not as_json:
        say(f"hint: `envspec lock {spec.path} --upgrade-package {free}` takes one, `--upgrade` all that fit")
    return IndexFailure.exit_code if failed else 0


def _lines(newer: Newer, where: str) -> Iterator[str]:
    date = f" ({newer.uploaded[:10]})" if newer.uploaded else ""
    yield f"{newer.name} {newer.locked} -> {newer.newest}{date}, {where}"
    for hold in newer.holds:
        way = f", required by {' <- '.join(reversed(hold.path[:-1]))}" if len(hold.path) > 1 else ""
        yield f"  {printable(hold.reason)}{way}"
    if not newer.holds:
        yield "  nothing holds it back"


def _summary(found: Sequence[Newer], total: int, targets: Sequence[LockedTarget]) -> str:
    conda = sum(pin.kind == "conda" for target in targets for pin in target.pins)
    names = len({newer.name for newer in found})
    free = len({newer.name for newer in found if not newer.holds})
    rest = "; conda packages aren't looked up" if conda else ""
    moving = f"; nothing holds back {free} of them, and `envspec upgrade` takes these" if free else ", each held back"
    return f"{names} of {total} packages have newer releases{moving if names else ''}{rest}"


Read = Callable[["Pin"], "Sequence[Release]"]


Offered = Callable[[dict[str, str]], "Callable[[Pin, TargetMachine], str | None]"]
"""Takes where to note what can't be read, by package."""


@contextmanager
def _pages(spec: Spec, *, offline: bool) -> Iterator[tuple[Read, Offered]]:
    from envspec.resolve.pip.setup import pip_resolver
    from envspec.resolve.progress import SilentResolution

    with pip_resolver(spec, os.environ, offline=offline, refresh=False, progress=SilentResolution()) as resolver:
        yield partial(_releases, resolver), lambda failed: partial(_offered, resolver, failed)


def _releases(resolver: PipResolver, pin: Pin) -> Sequence[Release]:
    """List a pin's releases on its own index: those of PyTorch's by the shipped facts. None for a flat index."""
    from envspec.net.index_proxy.pages import Upstream
    from envspec.resolve.workflow.outdated import facts_releases

    if pin.index.startswith("pytorch/"):
        return facts_releases(pin)
    url = resolver.default_index if pin.index == "pypi" else resolver.indexes.get(pin.index)
    if url is None or pin.url or pin.git:
        return ()
    return resolver.pages.current(Upstream(url), pin.name)


def _offered(resolver: PipResolver, failed: dict[str, str], pin: Pin, machine: TargetMachine) -> str | None:
    """Find the variant of a pin's release that a machine would get today; of a flat index's pages the first counts that
    has one."""
    from envspec.net.index_proxy.pages import Upstream

    url = resolver.default_index if pin.index == "pypi" else resolver.indexes.get(pin.index)
    pages = [page for (index, _), page in resolver.flat.items() if index == pin.index]
    asked = [(page, True) for page in pages] if url is None else [(url, False)]
    try:
        for place, flat in asked:
            upstream = Upstream(place, flat=flat, variants=frozenset({pin.name}), machine=machine)
            found = resolver.pages.variant(upstream, pin.name, pin.version)
            if found is not None:
                return found.label
    except EnvspecError as error:
        failed[pin.name] = str(error)
    return None


def _read_all(pins: Sequence[Pin], read: Read) -> tuple[Mapping[tuple[str, str], Sequence[Release]], dict[str, str]]:
    """Read the pages of many pins; gives the releases by index and name, and by name what couldn't be read."""
    from envspec.cli.progress import counting

    known: dict[tuple[str, str], Sequence[Release]] = {}
    failed: dict[str, str] = {}
    with counting("reading pages") as tell, ThreadPoolExecutor(_AT_ONCE) as pool:
        jobs = [(pin, pool.submit(read, pin)) for pin in pins]
        for done, (pin, job) in enumerate(jobs, start=1):
            try:
                known[pin.index, pin.name] = job.result()
            except EnvspecError as error:
                failed[pin.name] = str(error)
            tell(done, len(jobs))
    return known, failed
