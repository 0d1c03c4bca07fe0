"""The publishers of a resolution's files, by their indexes (PEP 740)."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from envspec.base.errors import IndexFailure
from envspec.base.finding import Finding
from envspec.lock.model import Pin, Publisher
from envspec.net.fetch import origin_of
from envspec.net.provenance import ProvenanceStore
from envspec.resolve.pip.solve import PipResolver

_AT_ONCE = 16


def publishers(resolver: PipResolver, pins: Iterable[Pin]) -> dict[Pin, Publisher]:
    """Ask for the publishers of pins that `resolver` has just made; leaves out those of which no index says any.

    Only the index itself is asked: a mirror's page may name places that this machine doesn't reach. An index that fails
    is told, and stops nothing.
    """
    store = ProvenanceStore(resolver.cache, resolver.pages.fetcher)
    places = resolver.inspector.places
    wanted = [
        (pin, file.provenance, file.sha256)
        for pin in pins
        if (file := places.file(pin)) is not None
        and file.provenance is not None
        and file.sha256 is not None
        and origin_of(file.provenance) == origin_of(places.origin(pin))
    ]
    failed: list[str] = []

    def ask(url: str, sha256: str) -> Publisher | None:
        if failed:
            return None
        try:
            claimed = store.publisher(url, sha256)
        except IndexFailure as error:
            failed.append(error.message)
            return None
        return Publisher(**claimed) if claimed else None

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda one: ask(one[1], one[2]), wanted))
    if failed:
        resolver.notice(
            Finding(
                "info", "publisher-not-asked", f"the lock names no publishers that weren't known before: {failed[0]}"
            )
        )
    return {pin: publisher for (pin, _, _), publisher in zip(wanted, found, strict=True) if publisher}
