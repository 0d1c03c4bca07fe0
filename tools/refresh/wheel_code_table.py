"""The update of `data/wheel_code.toml`: the answers of large wheels for GPUs, each read to its end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from typing import Any

import msgspec
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from envspec.artifacts.wheel_reader import WheelSays
from envspec.binaries.build_notes import build_notes
from envspec.binaries.device_code import device_code
from envspec.packages.requirement import canonical_name
from tools.refresh.published import PLATFORMS, PublishedFile, ReadableIndex

_AS_OF = re.compile(r'^as-of = "[^"]*"$', re.M)
_ROW = re.compile(r'^  \{ file = "([^"]+)", sha256 = "([0-9a-f]{64})", .*$', re.M)
_PACKAGES = re.compile(r'^packages = """\n(.*?)\n"""$', re.M | re.DOTALL)
_PYTHONS = re.compile(r"cp3\d\d?|py3|py2")


def refreshed_wheel_code(
    text: str, requirements: Iterable[str], index: ReadableIndex, today: date
) -> tuple[str, tuple[str, ...]]:
    """Read the Linux wheels of a package's newest release ("cupy-cuda13x"), or of one that is named ("vllm==0.11.0"),
    and add what they say; of all packages in the table where none is asked for. A wheel that has a row is left, since
    its hash names its content. Gives the table's text, and what wasn't read to its end.

    Raises IndexFailure, and UnreadableWheel for a damaged wheel.
    """
    block = _PACKAGES.search(text)
    rows = {match[2]: match[0] for match in _ROW.finditer(text)}
    notes, before = [], len(rows)
    for requirement in list(requirements) or (block[1].split() if block else []):
        name, _, version = requirement.partition("==")
        for file in wheels_of(index.files(canonical_name(name)), version or None):
            if file.sha256 is None or file.sha256 in rows:
                continue
            with index.open(file.file) as wheel:
                code = device_code(wheel, to_the_end=True)
                says = WheelSays(notes=build_notes(wheel), code=code, to_the_end=True)
            if code.complete:
                rows[file.sha256] = _row(file.file, file.sha256, says)
            else:
                notes.append(f"{file.file} is too large to be read to its end")
    if len(rows) == before:
        return text, tuple(notes)
    listed = sorted(rows.values())
    start = text.index("wheels = [\n") + len("wheels = [\n")
    filled = text[:start] + "".join(f"{row}\n" for row in listed) + "]\n"
    return _AS_OF.sub(lambda _: f'as-of = "{today}"', filled), tuple(notes)


def wheels_of(files: Sequence[PublishedFile], version: str | None) -> Iterator[PublishedFile]:
    """List the wheels for Linux, of Python 3.10 and newer, of a release, or of the newest final one."""
    candidates = []
    for file in files:
        try:
            _, of, _, tags = parse_wheel_filename(file.file)
        except InvalidWheelFilename:
            continue
        here = any(
            re.fullmatch(PLATFORMS[platform], tag.platform)
            for tag in tags
            for platform in PLATFORMS
            if "linux" in platform
        )
        fits = any(_PYTHONS.fullmatch(tag.interpreter) and not tag.abi.endswith("t") for tag in tags)
        old = all(re.fullmatch(r"cp3\d", tag.interpreter) and tag.abi != "abi3" for tag in tags)
        if here and fits and not old and not file.yanked:
            candidates.append((of, file))
    chosen = Version(version) if version else max((of for of, _ in candidates if not of.is_prerelease), default=None)
    yield from (file for of, file in candidates if of == chosen)


def _row(file: str, sha256: str, says: WheelSays) -> str:
    document = {"notes": {}, "code": {}} | _without_defaults(msgspec.to_builtins(says))
    text = msgspec.json.encode(document).decode()
    if not re.fullmatch(r"[ -&(-~]*", text):
        raise ValueError(f"{file}: what it says can't stand in a fact table")
    return f"""  {{ file = "{file}", sha256 = "{sha256}", says = '{text}', source = "scan" }},"""


def _without_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        filled = {key: _without_defaults(part) for key, part in value.items()}
        # of a compressed bundle no GPU is known, and it holds HIP code all the same
        return {
            key: part
            for key, part in filled.items()
            if (part not in (None, [], 0, {}) and (key, part) != ("complete", True)) or (key, part) == ("hip", [])
        }
    return [_without_defaults(part) for part in value] if isinstance(value, (list, tuple)) else value
