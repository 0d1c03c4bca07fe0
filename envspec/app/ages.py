"""When the files of a lock were published: asked of the indexes and channels, and of the facts that ship."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from envspec.base.errors import OutsideError
from envspec.lock.model import LockedTarget
from envspec.spec.model import Spec

_WORKERS = 16


def upload_times(
    spec: Spec, targets: Iterable[LockedTarget], env: Mapping[str, str], *, offline: bool
) -> dict[tuple[str, str], str | None]:
    """When each file came (RFC 3339), by index and file name; a file without a date has None or is left out. Raises
    OutsideError where an index can't be asked."""
    from envspec.base.settings import load_settings
    from envspec.net.connections import index_fetcher
    from envspec.review.audit.packages import packages
    from envspec.review.audit.sources import IndexPages, pypi_address, shipped_files

    targets = tuple(targets)
    if offline:
        raise OutsideError(
            "the site's policy wants to know how old each release is, and --offline forbids asking",
            hint="run without --offline",
        )
    found = packages(targets)
    times: dict[tuple[str, str], str | None] = {key: facts.uploaded for key, facts in shipped_files(found).items()}
    settings = load_settings(env)
    wanted = sorted(
        {(one.index, one.name) for one in found if one.indexed_files and not _has_times(times, one.index, one)}
    )
    if wanted:
        named = settings.index_urls(spec.indexes)
        fetcher = index_fetcher(settings, named, env)
        pages = IndexPages(pypi_address(settings, env), named, settings.pytorch_mirror, fetcher)
        with ThreadPoolExecutor(_WORKERS) as pool:
            for (index, _), page in zip(wanted, pool.map(lambda key: pages.ask(*key), wanted), strict=True):
                times |= {(index, file): facts.uploaded for file, facts in (page or {}).items()}
    conda = [pin for target in targets for pin in target.pins if pin.kind == "conda"]
    if conda:
        from envspec.base.progress import Progress
        from envspec.resolve.conda.look_up import published
        from envspec.resolve.conda.setup import conda_resolver

        resolver = conda_resolver(spec, env, offline=offline, progress=Progress())
        times |= published(resolver, conda, {target.inputs.platform for target in targets})
    return times


def _has_times(times: Mapping[tuple[str, str], str | None], index: str, package: object) -> bool:
    files = getattr(package, "indexed_files", ())
    return all(times.get((index, artifact.file)) for artifact in files)
