"""The setup of a pip resolver on this machine: the user's indexes and logins, the caches, a scratch folder, uv."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from envspec.artifacts.metadata import MetadataCache, MetadataReader, OpenedWheels
from envspec.artifacts.sdist.source import SourceReader
from envspec.artifacts.sdist.static_source import StaticReader
from envspec.artifacts.wheel_inspector import WheelInspector, WheelPlaces
from envspec.artifacts.wheel_reader import WheelReader, WheelStore
from envspec.base.errors import IndexFailure
from envspec.base.finding import Finding
from envspec.base.progress import Counting, Progress
from envspec.base.scratch import scratch_folder
from envspec.base.threads import Pool
from envspec.configuration.settings import Settings, load_settings
from envspec.lock.inputs import page_name
from envspec.lock.model import Pin, Publisher
from envspec.net.connections import index_fetcher
from envspec.net.fetch import origin_of
from envspec.net.file_store import ARTIFACTS, FileStore
from envspec.net.index_proxy.pages import Pages
from envspec.net.index_proxy.releases import ReleaseStore
from envspec.net.provenance import ProvenanceStore
from envspec.net.remote_file import FileHashes
from envspec.net.simple_page import LivePages, mirror_pages
from envspec.resolve.pip.solve import PipResolver
from envspec.resolve.uv.program import Uv, find_uv, uvs_default_index
from envspec.spec.model import Spec


def _places(spec: Spec, settings: Settings, uv: Uv) -> WheelPlaces:
    flat = {(name, page_name(place)): settings.flat_url(name, spec.address(place)) for name, place in spec.flat_places}
    default = settings.default_index or uvs_default_index(uv, settings.cache())
    return WheelPlaces(settings.index_urls(spec.indexes), flat, default)


def recall_paths(spec: Spec, env: Mapping[str, str]) -> Callable[[Pin], frozenset[str] | None]:
    """Make the function that gives the paths which a pin's wheel installs, by the RECORD that a lock on this machine
    read; it gives None for an unread one. Nothing is fetched. Raises InputError for a broken configuration, ToolError
    without uv."""
    settings = load_settings(env)
    places, store = _places(spec, settings, find_uv(env)), WheelStore(settings.cache())

    def recall(pin: Pin) -> frozenset[str] | None:
        if pin.artifact is None:
            return None
        paths = store.recall(pin.artifact.file, pin.artifact.sha256, places.origin(pin)).paths
        return None if paths is None else frozenset(paths)

    return recall


@contextmanager
def pip_resolver(
    spec: Spec,
    env: Mapping[str, str],
    *,
    offline: bool,
    refresh: bool,
    fresh: bool = False,
    progress: Progress,
) -> Iterator[PipResolver]:
    """Make the resolver of a spec's pip half. Its scratch folder goes when the block ends. `refresh` asks the live
    PyTorch index besides the facts, and both it and `fresh` ask whether cached pages have changed.

    Raises InputError for a broken configuration, ToolError without uv, StorageError without room for scratch.
    """
    settings = load_settings(env)
    uv = find_uv(env)
    uv.offline, uv.fresh = offline, fresh or refresh
    uv.longest = max(settings.timeouts.values(), default=0)
    places = _places(spec, settings, uv)
    indexes, flat, default = places.indexes, places.flat, places.default_index
    fetcher = index_fetcher(settings, settings.index_urls(spec.index_addresses), env, offline=offline)
    fetcher.progress = progress
    opened = OpenedWheels()
    looks = any(spec.pip_terms(target).inspect is not False for target in spec.targets)
    metadata, files = MetadataCache(settings.cache()), FileStore(settings.cache() / ARTIFACTS, fetcher)

    def live_pages(variant: str) -> LivePages | None:
        url = settings.pytorch_mirror(variant)
        return mirror_pages(url, fetcher) if url else None

    reader = WheelReader(WheelStore(settings.cache()), files, opened)
    with scratch_folder(settings.scratch()) as scratch:
        yield PipResolver(
            uv=uv,
            wheels=MetadataReader(metadata, fetcher, opened if looks else None),
            sources=SourceReader(metadata, files, StaticReader(settings.cache(), fetcher), uv),
            pages=Pages(fetcher, ReleaseStore(settings.cache()), files, offline),
            cache=settings.cache(),
            scratch=scratch,
            inspector=WheelInspector(reader, places, Counting(progress)),
            indexes=indexes,
            flat=flat,
            hashes=FileHashes(settings.cache(), fetcher),
            default_index=default,
            live_pages=live_pages,
            refresh=refresh,
            progress=progress,
        )


# The publishers of a resolution's files, by their indexes (PEP 740).

_AT_ONCE = 16


def publishers(resolver: PipResolver, pins: Iterable[Pin]) -> tuple[dict[Pin, Publisher], tuple[Finding, ...]]:
    """Ask for the publishers of pins that `resolver` has just made; leaves out pins whose index names none.

    Only the index itself is asked: a mirror's page may name places that this machine doesn't reach. A failing index is
    reported, and stops nothing.
    """
    store = ProvenanceStore(resolver.cache, resolver.pages.fetcher)
    places = resolver.inspector.places
    questions = [
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

    with Pool(_AT_ONCE) as pool:
        answers = list(pool.map(lambda question: ask(question[1], question[2]), questions))
    message = "the lock names no publishers that weren't known before"
    notes = tuple(Finding("info", "publisher-not-asked", f"{message}: {failure}") for failure in failed[:1])
    return {pin: publisher for (pin, _, _), publisher in zip(questions, answers, strict=True) if publisher}, notes
