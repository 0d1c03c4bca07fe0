"""`envspec cache fill --mirror`: a folder that any web server serves as the mirror of what locks pin."""

from __future__ import annotations

import asyncio
import html
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from envspec.app.collecting import collect_conda_too
from envspec.app.fill import Filled, find_build, open_to_all, permitted_targets
from envspec.app.observer import say
from envspec.app.outputs import open_output, write_text
from envspec.base.storage import storage_error
from envspec.install.interpreter import MIRROR as PYTHON
from envspec.lock.conda_files import artifact_of, channel_of
from envspec.lock.model import Pin
from envspec.net.file_store import sha256_of
from envspec.packages.requirement import canonical_name
from envspec.spec.model import Spec

OPTION = "--mirror"
PAGE = "index.html"


def fill_mirror(paths: Sequence[str], targets: Sequence[str], locks_dir: Path | None, folder: Path) -> Filled:
    """Put the files of locked targets into a folder, laid out as `[mirrors]` wants each of its keys served.

    That is `python/RELEASE/FILE` for builds of Python; `INDEX/PROJECT/FILE` for an index, with the project's page (the
    simple repository API, HTML); `INDEX/FILE` and its pages for a flat one; `CHANNEL/SUBDIR/FILE` for a channel, with
    repodata. What is there stays, and pages list it too. Raises Forbidden, Malicious, IndexFailure, InputError,
    StorageError.
    """
    wanted: dict[PurePosixPath, tuple[Path, str]] = {}
    pages: set[PurePosixPath] = set()
    channels: set[str] = set()
    for spec, lock, target in permitted_targets(paths, targets, locks_dir):
        pins = [pin for pin in target.fetched if pin.artifact is not None and pin.url is None]
        found = collect_conda_too(spec, target, pins)
        for pin in pins:
            place = _place_of(pin, spec)
            wanted[place] = (found[pin.index, artifact_of(pin).file], artifact_of(pin).sha256)
            if pin.kind == "conda":
                channels.add(channel_of(pin)[0])
            else:
                pages.update(place.with_name(_page_name(url)) for url in spec.flat_pages.get(pin.index, (PAGE,)))
        if left := sorted({pin.name for pin in target.fetched if pin.url is not None or pin.git is not None}):
            say(f"note: no mirror stands for the own addresses of {', '.join(left)}", style="cyan")
        if (build := lock.python(target)) and (archive := find_build(build)):
            wanted[PurePosixPath(PYTHON, build.build, build.file)] = (archive, build.sha256)
    for place, (file, sha256) in wanted.items():
        there = folder / place
        if not there.is_file() or sha256_of(there) != sha256:
            with file.open("rb") as source, open_output(there, OPTION) as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    for page in sorted(pages):
        write_text(folder / page, _links(folder / page.parent), OPTION)
    try:
        for channel in sorted(channels):
            _index_channel(folder / channel)
        if wanted:
            open_to_all(folder)
    except OSError as error:
        raise storage_error(error, folder, option=OPTION) from None
    size = sum(file.stat().st_size for file, _ in wanted.values())
    return Filled(folder, len(wanted), size, mirrors=tuple(sorted({_key_of(place, channels) for place in wanted})))


def _place_of(pin: Pin, spec: Spec) -> PurePosixPath:
    file = artifact_of(pin).file
    if pin.kind == "conda" or pin.index in spec.flat_pages:
        return PurePosixPath(pin.index, file)
    return PurePosixPath(pin.index, canonical_name(pin.name), file)


def _key_of(place: PurePosixPath, channels: set[str]) -> str:
    """Give the key of `[mirrors]` that a file belongs to."""
    return next((one for one in channels if place.is_relative_to(one)), place.parts[0])


def _page_name(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def _links(folder: Path) -> str:
    """Make the page of the files in a folder."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.suffix != ".html")
    lines = [f'<a href="{quote(one.name)}#sha256={sha256_of(one)}">{html.escape(one.name)}</a><br>\n' for one in files]
    return f"<!DOCTYPE html>\n<html><body>\n{''.join(lines)}</body></html>\n"


def _index_channel(channel: Path) -> None:
    from rattler.index import index_fs

    (channel / "noarch").mkdir(exist_ok=True)
    asyncio.run(index_fs(channel, write_shards=False))
