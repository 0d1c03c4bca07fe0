"""The update of `data/host_code.toml`: the packages whose compiled wheels hold code for the host alone, each read
whole."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from datetime import date

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from envspec.binaries.device_code import device_code
from envspec.packages.requirement import canonical_name
from tools.refresh.published import PLATFORMS, PublishedFile, ReadableIndex

_NAMES = re.compile(r'^names = """\n(.*?)\n"""$', re.M | re.DOTALL)
_AS_OF = re.compile(r'^as-of = "[^"]*"$', re.M)
_COUNT = re.compile(r"\d+ wheels")


def refreshed_host_code(
    text: str, names: Iterable[str], index: ReadableIndex, today: date
) -> tuple[str, tuple[str, ...]]:
    """Read the newest wheel of each package to its end, list those that hold code for the host alone, and take the
    others out; of all packages in the table where none is named. Gives the table's text, and what wasn't decided.

    Raises IndexFailure.
    """
    block = _NAMES.search(text)
    listed = set(block[1].split()) if block else set()
    notes: list[str] = []
    for name in sorted(map(canonical_name, names)) or sorted(listed):
        file = newest_wheel(index.files(name))
        if file is None:
            notes.append(f"{name} has no compiled wheel for linux-64: it stays as it was")
            continue
        with index.open(file) as wheel:
            code = device_code(wheel, to_the_end=True)
        if code.libraries or code.versions:
            listed.discard(name)
        elif code.complete:
            listed.add(name)
        else:
            notes.append(f"{file} is too large to be read to its end: {name} stays as it was")
    filled = textwrap.fill(" ".join(sorted(listed)), 118, break_on_hyphens=False, break_long_words=False)
    if block and filled.split() == block[1].split():
        return text, tuple(notes)
    changed = _NAMES.sub(lambda _: f'names = """\n{filled}\n"""', text)
    changed = _AS_OF.sub(lambda _: f'as-of = "{today}"', changed)
    return _COUNT.sub(lambda _: f"{len(listed)} wheels", changed), tuple(notes)


def newest_wheel(files: Sequence[PublishedFile]) -> str | None:
    """Give the newest release's first wheel for linux-64; None for a project without one."""
    candidates = []
    for published in files:
        try:
            _, version, _, tags = parse_wheel_filename(published.file)
        except InvalidWheelFilename:
            continue
        here = any(re.fullmatch(PLATFORMS["linux-64"], tag.platform) for tag in tags)
        if here and not published.yanked and not version.is_prerelease:
            candidates.append((version, published.file))
    newest = max((version for version, _ in candidates), default=None)
    return min((file for version, file in candidates if version == newest), default=None)
