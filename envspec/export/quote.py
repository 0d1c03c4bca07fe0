"""Quoting of values for the recipes' formats. A spec's text counts as hostile until this module has quoted it.

Every function takes a text and gives a token that its format reads back as the same text, and raises `Unquotable` where
the format can't write the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envspec.base.errors import InputError

_SHELL_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class Unquotable(InputError):
    """A text that a format can't hold."""


def shell(text: str) -> str:
    """Quote one word for a POSIX shell. Raises Unquotable for a NUL, which no process can receive."""
    _refuse_nul(text, "a shell command")
    if _SHELL_SAFE.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def check_line(text: str, what: str) -> str:
    """Check that a text is one line to every reader, and give it unchanged. Raises Unquotable."""
    _refuse_nul(text, what)
    if text.splitlines() not in ([], [text]):
        raise Unquotable(f"{what} can't hold a line end: {text[:60]!r}", hint="write it on one line")
    return text


def dockerfile(text: str) -> str:
    """Quote a value of ENV, LABEL or ARG: in double quotes, where only the backslash, the quote and `$` are special.

    Raises Unquotable for a line end, which no Dockerfile value can hold.
    """
    check_line(text, "a Dockerfile's value")
    return '"' + re.sub(r'([\\"$])', r"\\\1", text) + '"'


def definition_word(text: str) -> str:
    """Quote a word of a shell script of an Apptainer definition so that none of its lines begins a section or a stage,
    and without `{{`."""
    quoted = re.sub(r"\{(?=\{)", "{''", shell(text).replace("\r", "\r''").replace("\n", "\n''"))
    return f"'{quoted}'" if quoted.startswith("%") else quoted


def definition_text(text: str) -> str:
    """Make a line of text safe for an Apptainer definition's sections that are read verbatim."""
    return re.sub(r"\{(?=\{)", "{ ", comment(" ".join(text.split()))).lstrip("%# ")


def exports(variables: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Set variables for all programs of a script that follow, some on a line."""
    return (f"export {line}" for line in fill((f"{name}={definition_word(value)}" for name, value in variables), 104))


def lua(text: str) -> str:
    """Write a Lua string in double quotes; characters that aren't printable ASCII are written byte by byte."""
    out = []
    for byte in text.encode("utf-8", "surrogatepass"):
        char = chr(byte)
        if char in '"\\':
            out.append("\\" + char)
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append(f"\\{byte:03d}")
    return '"' + "".join(out) + '"'


def nix(text: str) -> str:
    """Write a Nix string. Raises Unquotable for a NUL, which Nix can't write."""
    _refuse_nul(text, "a Nix string")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${").replace("\r", "\\r")
    # "$${" means a lone dollar and then a brace, so a dollar before one is escaped as well
    escaped = re.sub(r"\$(?=\\\$\{)", r"\\$", escaped)
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'


def comment(text: str) -> str:
    """Escape line ends and invisible characters of a text for a comment that ends with its line."""
    return _INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _refuse_nul(text: str, what: str) -> None:
    if "\0" in text:
        raise Unquotable(f"{what} can't hold a NUL character")


def fill(words: Iterable[str], width: int = 112) -> Iterator[str]:
    """Put words into lines of at most `width` characters. A word that is longer or has a line's end stands alone."""
    line = ""
    for word in words:
        if line and ("\n" in line + word or len(line) + len(word) >= width):
            yield line
            line = ""
        line = f"{line} {word}" if line else word
    if line:
        yield line
