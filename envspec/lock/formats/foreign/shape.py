"""Checked access to the values of a parsed TOML or YAML document; a value of another type is `Malformed`."""

from __future__ import annotations

import codecs
import errno
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from envspec.base.documents import Unreadable, read_toml, read_yaml
from envspec.base.errors import InputError, Place, StorageError
from envspec.base.plain_files import read_operand
from envspec.base.reader.document import decode
from envspec.base.redact import without_credentials
from envspec.lock.formats.foreign.side import LoosePin, version_text
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.packages.requirement import head_of

# Files with a solution for each platform: their packages as a lock.


def lock_of(targets: Mapping[tuple[str, str], Iterable[Pin]]) -> Lock:
    """Make a lock with a target for each (name, platform). Every package counts as direct: these files don't say."""
    locked_targets = [_target(target, platform, list(pins)) for (target, platform), pins in sorted(targets.items())]
    return Lock("", SpecInputs(), tuple(locked_targets))


def _target(name: str, platform: str, pins: list[Pin]) -> LockedTarget:
    python = next((version_text(pin) for pin in pins if pin.kind == "conda" and pin.name == "python"), "")
    minor = re.match(r"\d+\.\d+", python)
    inputs = TargetInputs(
        platform,
        minor[0] if minor else "3.12",
        None,
        requirements=tuple(sorted(pin.name for pin in pins if pin.kind == "pip")),
        conda_requirements=tuple(sorted(pin.name for pin in pins if pin.kind == "conda")),
    )
    return LockedTarget(name, inputs, tuple(sorted(pins, key=lambda pin: (pin.kind, pin.name))))


# Indexes and channels by name, as envspec's locks call them: URLs of hosts and mirrors mean the same by them.


_PYTORCH = re.compile(r"/whl/(?:nightly/|test/)?(cpu|cu\d+|rocm[\d.]+|xpu)(?:/|$)")
_PYPI_FILE = re.compile(r"/packages/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}/")
"""The layout of files on PyPI and every mirror of it."""


def index_name(url: str | None) -> str:
    """Return an index's name by its URL, or by the URL of a file on it: "pypi", "pytorch/cu126", or host and path.

    None, for a format that names no index where it is the default one, is "pypi". A mirror of PyPI has PyPI's own
    paths; registries of one's own have "pypi" and "simple" deeper in theirs.
    """
    if not url:
        return "pypi"
    bare = without_credentials(url)
    parts = urlsplit(bare)
    if match := _PYTORCH.search(parts.path):
        return f"pytorch/{match[1]}"
    folders = [part for part in parts.path.split("/") if part]
    on_its_host = folders[:1] == ["simple"] and "pypi" in (parts.hostname or "").split(".")
    if _PYPI_FILE.search(parts.path) or on_its_host or folders[:2] == ["pypi", "simple"]:
        return "pypi"
    return f"{parts.hostname or ''}{parts.path}".strip("/") or bare


def is_pypi_itself(url: str) -> bool:
    """Return whether an index's URL is PyPI's own, and no mirror's: its host has no name before "pypi"."""
    return bool(re.fullmatch(r"pypi\.[a-z]+", urlsplit(url).hostname or "")) and index_name(url) == "pypi"


def channel_name(file_url: str) -> str:
    """Return a channel's name and subdir by the URL of one of its files: "conda-forge/linux-64"."""
    folders = [part for part in urlsplit(without_credentials(file_url)).path.split("/")[:-1] if part]
    return "/".join(folders[-2:]) or "unknown"


def subdir(file_url: str) -> str:
    """Return the subdir ("linux-64", "noarch") by the URL of a file."""
    return channel_name(file_url).rpartition("/")[2]


def conda_file(file: str) -> tuple[str, str, str]:
    """Return name, version and build from a file's name: `numpy-2.1.0-py312h1_0.conda`. Raises ValueError for another
    name."""
    stem = file.removesuffix(".conda").removesuffix(".tar.bz2")
    name, version, build = stem.rsplit("-", 2)
    return name, version, build


_SHA256 = re.compile(r"[0-9a-f]{64}")


class Malformed(Exception):
    """A document doesn't follow its format. The message is for people; the reader adds the file. `line` counts from 1,
    and is 0 where it isn't known.
    """

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


def table(value: Any, what: str) -> Mapping[str, Any]:
    """Return a table, or an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise Malformed(f"{what} must be a table")
    return value


def tables(value: Any, what: str) -> list[Mapping[str, Any]]:
    """Return a list of tables, or an empty one for None."""
    return [table(row, f"an entry of {what}") for row in sequence(value, what)]


def sequence(value: Any, what: str) -> list[Any]:
    """Return a list, or an empty one for None."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{what} must be a list")
    return value


def strings(value: Any, what: str) -> tuple[str, ...]:
    return tuple(string(text, f"an entry of {what}") for text in sequence(value, what))


def string(value: Any, what: str) -> str:
    """Return a text. YAML reads an unquoted version such as 1.10 as a number, which has lost its zero."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    shown = f"a {type(value).__name__}" if isinstance(value, list | dict) else repr(value)
    raise Malformed(f"{what} must be a string, not {shown}"[:200])


def optional(value: Any, what: str) -> str | None:
    return None if value is None else string(value, what)


def size(value: Any) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def file_name(url: str) -> str:
    """Return the file's name at the end of a URL or a path."""
    return unquote(re.split(r"[?#]", url, maxsplit=1)[0].replace("\\", "/").rpartition("/")[2])


def artifact(url: str, hashes: Mapping[str, Any], length: Any = None) -> Artifact:
    """Return a file by its URL or name. A SHA-256 that the document doesn't give stays empty."""
    sha256, md5 = hashes.get("sha256"), hashes.get("md5")
    if sha256 is not None and not (isinstance(sha256, str) and _SHA256.fullmatch(sha256)):
        raise Malformed(f"the sha256 of {file_name(url)} must be 64 hexadecimal digits")
    return Artifact(file_name(url), sha256 or "", size(length), md5 if isinstance(md5, str) else None)


def digest(text: str | None) -> dict[str, str]:
    """Return `sha256:0123…` as hashes by algorithm."""
    kind, _, value = (text or "").partition(":")
    return {kind: value} if value else {}


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VERSION = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")


def check_pin(pin: Pin) -> None:
    """Check a pin. Raises Malformed for an unreadable name, version or requirement."""
    if not _NAME.fullmatch(pin.name):
        raise Malformed(f"{pin.name[:80]!r} isn't the name of a package")
    if not isinstance(pin, LoosePin) and not _VERSION.fullmatch(pin.version):
        raise Malformed(f"the version of {pin.name[:80]} is {pin.version[:80]!r}, which isn't a version")
    for line in pin.dependencies if pin.kind == "pip" else ():
        try:
            head_of(line)
        except ValueError:
            raise Malformed(f"{pin.name[:80]} requires {line[:80]!r}, which isn't a requirement") from None


# A file of another tool as text, TOML or YAML; what is wrong with it is told of the file.


class malformed:
    """Turn Malformed, and the errors of URL and version parsers, into an InputError that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RecursionError):
            raise InputError("this is nested too deeply", place=Place(str(self.path))) from None
        if isinstance(error, Malformed | ValueError):
            raise InputError(str(error)[:500], place=Place(str(self.path), getattr(error, "line", 0))) from None


MOST_BYTES = 64 << 20
"""The largest file of another tool that is read."""


def text_of(path: Path, hint: str = "") -> str:
    """Read a file's text, its lines ended as on Linux. `hint` names the files that are wanted.

    Raises InputError, StorageError.
    """
    place = Place(str(path))
    try:
        content = read_operand(path, MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"this is larger than {MOST_BYTES >> 20} MiB", place=place, hint=hint or None)
        # pip reads requirements by such a mark; TOML, Python and locks are UTF-8
        marked = _read_by_mark(content) if path.suffix in (".txt", ".in") else None
        text = marked or decode(content.removeprefix(codecs.BOM_UTF8), str(path))
    except (FileNotFoundError, NotADirectoryError):
        raise InputError("there is no such file", place=place) from None
    except IsADirectoryError:
        raise InputError("this is a folder", place=place, hint="name the file in it") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise InputError("there is no such file: its name is too long", place=place) from None
        raise StorageError(f"this can't be read: {error.strerror}", place=place) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CODING = re.compile(rb"#.*coding[:=]\s*([-\w.]+)")


def _read_by_mark(content: bytes) -> str | None:
    """Decode a text in another encoding than UTF-8 that it names itself, by its first bytes or as PEP 263 has it; None
    for others. Source: pip 26.3, `_internal/req/req_file.py`."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content.removeprefix(mark).decode(encoding, "replace")
    named = next(filter(None, map(_CODING.match, content.split(b"\n", 2)[:2])), None)
    with suppress(LookupError, UnicodeDecodeError):
        return content.decode(named[1].decode()) if named else None
    return None


def toml_of(text: str) -> Mapping[str, Any]:
    """Parse TOML. Raises Malformed."""
    try:
        return read_toml(text)
    except Unreadable as error:
        raise Malformed(f"this is not TOML: {error}", error.line) from None


def yaml_of(text: str) -> Mapping[str, Any]:
    """Parse YAML. Raises Malformed."""
    try:
        data = read_yaml(text)
    except Unreadable as error:
        raise Malformed(f"this is not YAML: {error}", error.line) from None
    if not isinstance(data, dict):
        raise Malformed("this is not a table of YAML")
    return data
