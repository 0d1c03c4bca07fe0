"""`envspec cache fill --mirror`: a folder that any web server serves as the mirror of what locks pin."""

from __future__ import annotations

import html
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from urllib.parse import quote

from msgspec.structs import replace

from envspec.app.collecting import collect_conda_too
from envspec.app.fill import Filled, find_build, open_path, permitted_targets
from envspec.app.observer import note
from envspec.app.outputs import open_output, write_text
from envspec.app.release_dates import ask_dates, dated_files, known_dates
from envspec.base.plain_files import read_plain
from envspec.base.storage import storage_error
from envspec.base.threads import run_async
from envspec.install.interpreter import MIRROR as PYTHON
from envspec.lock.conda_files import artifact_of, channel_of
from envspec.lock.model import LockedTarget, Pin
from envspec.net.file_store import sha256_of
from envspec.net.simple_page import Links
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
    required: dict[PurePosixPath, tuple[Path, str]] = {}
    pages: dict[PurePosixPath, dict[str, str]] = {}
    channels: set[str] = set()
    for spec, lock, target in permitted_targets(paths, targets, locks_dir):
        pins = [pin for pin in target.fetched if pin.artifact is not None and pin.url is None]
        paths_of_files, times = collect_conda_too(spec, target, pins), _dates_of(spec, target, pins)
        for pin in pins:
            place = _place_of(pin, spec)
            required[place] = (paths_of_files[pin.index, artifact_of(pin).file], artifact_of(pin).sha256)
            if pin.kind == "conda":
                channels.add(channel_of(pin)[0])
                continue
            link = _link(place.name, artifact_of(pin).sha256, times.get((pin.index, artifact_of(pin).file)))
            for url in spec.flat_pages.get(pin.index, (PAGE,)):
                pages.setdefault(place.with_name(url.rstrip("/").rpartition("/")[2]), {})[place.name] = link
        if left := sorted({pin.name for pin in target.fetched if pin.url is not None or pin.git is not None}):
            note(f"no mirror stands for the own addresses of {', '.join(left)}")
        if (build := lock.python(target)) and (archive := find_build(build)):
            required[PurePosixPath(PYTHON, build.build, build.file)] = (archive, build.sha256)
    for place, (file, sha256) in required.items():
        destination = folder / place
        if not destination.is_file() or sha256_of(destination) != sha256:
            with file.open("rb") as source, open_output(destination, OPTION) as copy:
                shutil.copyfileobj(source, copy, 1 << 20)
    for page, links in pages.items():
        write_text(folder / page, _page_with(links, folder / page), OPTION)
    try:
        for channel in sorted(channels):
            _index_channel(folder / channel)
        repodata = (path for channel in channels for path in (folder / channel).glob("*/repodata*"))
        written = {*required, *pages, *(PurePosixPath(path.relative_to(folder)) for path in repodata)}
        # all that the folder has of others' stays as closed as it was
        for path in {above for place in written for above in (place, *place.parents)}:
            open_path(folder / path)
    except OSError as error:
        raise storage_error(error, folder, option=OPTION) from None
    size = sum(file.stat().st_size for file, _ in required.values())
    return Filled(folder, len(required), size, mirrors=tuple(sorted({_key_of(place, channels) for place in required})))


def _place_of(pin: Pin, spec: Spec) -> PurePosixPath:
    file = artifact_of(pin).file
    if pin.kind == "conda" or pin.index in spec.flat_pages:
        return PurePosixPath(pin.index, file)
    return PurePosixPath(pin.index, canonical_name(pin.name), file)


def _key_of(place: PurePosixPath, channels: set[str]) -> str:
    """Give the key of `[mirrors]` that a file belongs to."""
    return next((channel for channel in channels if place.is_relative_to(channel)), place.parts[0])


def _dates_of(spec: Spec, target: LockedTarget, pins: Sequence[Pin]) -> Mapping[tuple[str, str], str]:
    """Give when pip packages' files were published: a policy, or a bound of a spec, asks the mirror too."""
    files = dated_files([replace(target, pins=tuple(pin for pin in pins if pin.kind == "pip"))], ())
    known = known_dates(files, (target,)).times
    lacking = {key: pin for key, pin in files.items() if key not in known}
    return {**known, **(ask_dates(spec, lacking) if lacking else {})}


def _link(file: str, sha256: str, uploaded: str | None) -> str:
    date = f' data-upload-time="{html.escape(uploaded)}"' if uploaded else ""
    return f'<a href="{quote(file)}#sha256={sha256}"{date}>{html.escape(file)}</a><br>'


def _page_with(links: Mapping[str, str], page: Path) -> str:
    """Give a page with these links, by file, and those that it has already."""
    old = Links("")
    with suppress(FileNotFoundError):
        old.feed(read_plain(page).decode())
    listed = {
        row["filename"]: _link(row["filename"], row["hashes"]["sha256"], row.get("upload-time")) for row in old.rows
    }
    lines = [f"{line}\n" for _, line in sorted({**listed, **links}.items())]
    return f"<!DOCTYPE html>\n<html><body>\n{''.join(lines)}</body></html>\n"


def _index_channel(channel: Path) -> None:
    from rattler.index import index_fs

    (channel / "noarch").mkdir(exist_ok=True)
    run_async(index_fs(channel, write_shards=False))
