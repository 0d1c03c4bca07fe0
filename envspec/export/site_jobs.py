"""What a site's settings mean for jobs: the account and partition where a spec names none, and the nodes that a lock
runs on, by the names that the site gave their features. Nothing is guessed: without a name, nothing is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from envspec.base.errors import InputError
from envspec.base.site import SlurmSite
from envspec.facts import compute_capability as cc
from envspec.facts.gpus import find, nearest
from envspec.spec.cluster import SlurmTable


def constraint(site: SlurmSite, architectures: Iterable[str], driver_floor: str | None) -> str | None:
    """Give sbatch's constraint for nodes with a lock's GPUs and a driver not below its floor; None where the site
    has named no such feature. Raises InputError for a GPU that no table has.
    """
    wanted = {cc.capability_of(one) for one in architectures}
    of_gpus = [feature for name, feature in site.features.items() if capabilities(site, name) <= wanted]
    floor = _version(driver_floor or "0")
    of_drivers = [feature for version, feature in site.drivers.items() if _version(version) >= floor]
    if not wanted:
        return None
    parts = [_any(names) for names in (of_gpus, of_drivers if driver_floor else []) if names]
    return "&".join(part if len(parts) > 1 else part.strip("()") for part in parts) or None


def unnamed(site: SlurmSite, architectures: Iterable[str], driver_floor: str | None) -> tuple[str, ...]:
    """Say what of a lock's needs the site's features don't name, though they name others of the kind."""
    wanted = {cc.capability_of(one) for one in architectures}
    missing = wanted.difference(*(capabilities(site, name) for name in site.features)) if site.features else set()
    told = []
    if missing:
        told.append(f"features names no GPU of compute capability {', '.join(sorted(missing, key=cc.order))}")
    newest = max(map(_version, site.drivers), default=None)
    if wanted and driver_floor and newest and newest < _version(driver_floor):
        told.append(f"drivers names none from {driver_floor} on")
    return tuple(told)


def capabilities(site: SlurmSite, name: str) -> frozenset[str]:
    """Give the compute capabilities of a GPU that the site names. Raises InputError for one that no table has."""
    found = frozenset(gpu.capability for gpu in find(name))
    if not found and (own := cc.parse(name)):
        found = frozenset({own.capability})
    if not found:
        near = nearest(name)
        hint = f"did you mean {', '.join(near)}?" if near else "`envspec gpus` lists the known ones"
        raise InputError(
            f"[site.slurm] features names an unknown GPU: {name!r}", hint=hint, place=site.places.get(name)
        )
    return found


def variables(
    site: SlurmSite, asked: SlurmTable, architectures: Iterable[str], driver_floor: str | None
) -> dict[str, str]:
    """Give sbatch's variables for what a spec leaves to the site. They would win over the job's own options, so there
    is none for what the spec says.
    """
    of_lock = None if asked.constraint else constraint(site, architectures, driver_floor)
    found = {
        "SBATCH_ACCOUNT": None if asked.account else site.account,
        "SBATCH_PARTITION": None if asked.partition else site.partition,
        "SBATCH_CONSTRAINT": of_lock,
    }
    return {name: value for name, value in found.items() if value}


def _any(names: Iterable[str]) -> str:
    distinct = sorted(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else f"({'|'.join(distinct)})"


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))
