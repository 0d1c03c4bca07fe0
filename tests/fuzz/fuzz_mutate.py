"""Inputs that are nearly right: valid examples, flipped, cut, repeated, spliced, and with nasty tokens in them.

One source of chance drives it all, so a mutation can be had again: `random.Random(seed)`, or Hypothesis's own, which
then shrinks what fails.
"""

import math
import time
from collections.abc import Callable, Sequence
from random import Random

LONGEST = 64 << 10
"""Bytes of an input at most: whether time grows with length is tests/hostile/test_time_grows_with_size_only.py's."""

_TEXTS = (
    *("", " ", "\0", "\r\n", "\r", "\n\n", "\t", "\ufeff", "\u202e", "\u2066", "\u2028", "\u0085", "\x1b[2J", "\x7f"),
    *("é", "İ", "ß", "ſ", "²", "١", "½", "𝟙", "\U0001f600", "\ufffd", "\ufdfa"),
    *("..", "../../x", "/", "//", "/etc/passwd", "\\", "C:\\x", "~", "~root", ".", "-", "--", "a" * 300),
    *("0", "-1", "1e999", "-1e999", "NaN", "Infinity", "-0.0", "9" * 20, "9" * 5000, "0x7fffffffffffffff", "1!" * 9),
    *("true", "null", "[]", "{}", '""', "''", '"\\ud800"', '"\\u0000"', "2026-02-30", "9999-12-31T23:59:60Z"),
    *("[" * 600, "(" * 600, "{" * 600, '{"a":' * 600, "[" * 20_000, "a." * 2000, ")" * 9, "]" * 9, "}" * 9),
    *("'", '"', "'''", '"""', "`", "<", "<!", "<![", "<!--", "<![CDATA[", "&#x110000;", "&amp", "${HOME}", "%00", "%"),
    *("=", "==", "===", "!=", ">=", "<", "~=", "*", ".*", "!", "+", "@", ";", ":", "::", ",", "|", "&", "#", "\\\n"),
    *("http://[", "http://[::1]:x/", "https://u:p@h/", "file:///dev/zero", "git+https://h/x.git@v1", "//h:99999999/"),
    *("sha256:", "sha256=", "python_version", "extra == 'a'", "__cuda", "lock-version = 99\n", "\n[[pip]]\n"),
    *("&a [*a]", "!!python/object:x", "<<: *a", "? a", "- ", "%YAML 1.1\n---\n", "<<<<<<< \n", "=======\n"),
)
TOKENS: tuple[bytes, ...] = (
    *(text.encode() for text in _TEXTS),
    *(b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xff\xfe", b"PK\x03\x04", b"PK\x05\x06", b"\x7fELF", b"\x1f\x8b\x08"),
    *(b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\0" * 512),
)
"""What parsers stumble over: NUL, controls of direction, halves of a surrogate pair, numbers without end, deep nesting,
`..`, CRLF, a byte order mark, digits that aren't ASCII's, marks of archives."""


def mutated(examples: Sequence[bytes], random: Random) -> bytes:
    """One of the examples with one to four changes in a row."""
    data = random.choice(examples)
    for _ in range(random.randint(1, 4)):
        data = random.choice(CHANGES)(data, examples, random)
    return data[:LONGEST]


def smallest(data: bytes, fails: Callable[[bytes], bool], tries: int = 400, seconds: float = math.inf) -> bytes:
    """A shorter input that still fails: pieces are left out, large ones first, as long as that is so, and time is."""
    size, end = max(1, len(data) // 2), time.monotonic() + seconds
    while size and tries > 0:
        at, shorter = 0, False
        while at < len(data) and tries > 0:
            tries = tries - 1 if time.monotonic() < end else 0
            without = data[:at] + data[at + size :]
            if fails(without):
                data, shorter = without, True
            else:
                at += size
        if not shorter:
            size //= 2
    return data


def flipped(data: bytes, examples: Sequence[bytes], random: Random) -> bytes:
    """Another bit, or another byte, in one place."""
    if not data:
        return data
    at = random.randrange(len(data))
    other = data[at] ^ (1 << random.randrange(8)) if random.randrange(2) else random.randrange(256)
    return data[:at] + bytes((other,)) + data[at + 1 :]


def cut(data: bytes, examples: Sequence[bytes], random: Random) -> bytes:
    """Without its end, or without a piece."""
    start, end = _piece(data, random)
    return data[:start] if random.randrange(2) else data[:start] + data[end:]


def repeated(data: bytes, examples: Sequence[bytes], random: Random) -> bytes:
    """A piece of it several times."""
    start, end = _piece(data, random)
    return data[:end] + data[start:end] * random.choice((1, 2, 7, 300)) + data[end:]


def spliced(data: bytes, examples: Sequence[bytes], random: Random) -> bytes:
    """The beginning of it and the end of another example, or a piece of that one within it."""
    other = random.choice(examples)
    at, (start, end) = _place(data, random), _piece(other, random)
    return data[:at] + (other[start:] if random.randrange(2) else other[start:end] + data[at:])


def swapped(data: bytes, examples: Sequence[bytes], random: Random) -> bytes:
    """Two lines exchanged."""
    lines = data.split(b"\n")
    one, two = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]
    return b"\n".join(lines)


def inserted(data: bytes, examples: Sequence[bytes], random: Random) -> bytes:
    """A nasty token in one place."""
    at = _place(data, random)
    return data[:at] + random.choice(TOKENS) + data[at:]


def replaced(data: bytes, examples: Sequence[bytes], random: Random) -> bytes:
    """A nasty token in place of a word or of a value in quotes."""
    start = end = _place(data, random)
    while start and data[start - 1] not in _BOUNDS:
        start -= 1
    while end < len(data) and data[end] not in _BOUNDS:
        end += 1
    return data[:start] + random.choice(TOKENS) + data[end:]


_BOUNDS = frozenset(b" \t\r\n\"'`,;:=()[]{}<>@#|/")

Change = Callable[[bytes, Sequence[bytes], Random], bytes]
CHANGES: tuple[Change, ...] = (flipped, cut, repeated, spliced, swapped, inserted, replaced, replaced)


def _place(data: bytes, random: Random) -> int:
    return random.randint(0, len(data))


def _piece(data: bytes, random: Random) -> tuple[int, int]:
    start = _place(data, random)
    longest = random.choice((1, 8, 64, 4096))
    return start, min(len(data), start + random.randint(0, longest))
