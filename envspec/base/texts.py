"""Texts from files, indexes and users as messages show them, and counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from envspec.base.redact import redact

# A fixed list, for Unicode tables differ between Python versions.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Characters that control a terminal, end a line in some script, are invisible, or turn the direction of text: no value
of a lock has one.
"""


def is_seen(text: str) -> bool:
    """Return whether a text has no character of UNSEEN."""
    # most are of printable ASCII, which costs less to see than a search
    return (text.isascii() and text.isprintable()) or not UNSEEN.search(text)


def without_unseen(text: str) -> str:
    """Clean a text from an index for a lock: one line, without invisible characters."""
    return text if is_seen(text) else " ".join(UNSEEN.sub(" ", text).split())


def printable(text: str) -> str:
    """Remove the characters that control a terminal or turn a line around from a text of a file or an index."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def visible(text: str) -> str:
    """Remove these characters from a text of several lines, and keep its line ends and tabs."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def clean_text(text: str) -> str:
    """Clean a text from elsewhere for a page or a table: printable, and without secrets."""
    return printable(redact(text))


def nearest(word: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """Find the one of `known` that `word` most likely stands for, or None where none is as much alike, from 0 to 1."""
    from difflib import get_close_matches

    by_lower = {name.lower(): name for name in known}
    matches = get_close_matches(word[:100].lower(), by_lower, n=1, cutoff=alike)
    return by_lower[matches[0]] if matches else None


def byte_size(number: int) -> str:
    """Format a file's or a download's bytes for people, in powers of ten: "512 B", "12 kB", "1.3 MB", "2.94 GB"."""
    for limit, unit, digits in ((10**9, "GB", 2), (10**6, "MB", 1), (10**3, "kB", 0)):
        if number >= limit:
            return f"{number / limit:,.{digits}f} {unit}"
    return f"{number} B"


def memory_size(number: int) -> str:
    """Format bytes of memory for people, to about three digits: "512 B", "1.5 KiB", "79.6 GiB", "1,024 TiB"."""
    value, unit = float(number), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if round(value, 1) < 1024:
            break
        value, unit = value / 1024, larger
    text = f"{value:,.{1 if value < 99.95 else 0}f}".removesuffix(".0")
    return f"{text} {unit}"


_UNITS: dict[str, int] = {
    **{unit: 1000**power for power, unit in enumerate(("b", "kb", "mb", "gb", "tb"))},
    **{unit: 1024**power for power, unit in enumerate(("kib", "mib", "gib", "tib"), 1)},
}
_SIZE = re.compile(r"([0-9]{1,15})(?:\.([0-9]{1,3}))? ?([A-Za-z]{1,3})")


def bytes_of(text: str) -> int | None:
    """The bytes of a size as people write it ("20 GB", "1.5 GiB"); None for what is no size with its unit."""
    match = _SIZE.fullmatch(text)
    unit = _UNITS.get(match[3].lower()) if match else None
    if match is None or unit is None:
        return None
    fraction = match[2] or ""
    return int(match[1]) * unit + int(int(fraction or 0) * unit / 10 ** len(fraction))


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in the places of a template (`@name@`)."""
    return re.sub(r"@(\w+)@", lambda place: values[place[1]], template)


def plural(count: int, word: str) -> str:
    """Give a count with its noun: "1 file", "2 files"."""
    return f"{count} {word}{'s' * (count != 1)}"


def few(names: Sequence[str], most: int = 12) -> str:
    """List names, cut where there are many."""
    more = len(names) - most
    # "and 1 more" is no shorter than the one
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:most])} and {more:,} more"
