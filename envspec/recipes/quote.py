"""Values as the formats of the recipes write them. What a spec says is hostile until it went through here.

Every function takes a text and gives a token that its format reads back as that very text; where a format has no way to
write a text, `Unquotable` says so.
"""

from __future__ import annotations

import re

from envspec.errors import InputError

_SHELL_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class Unquotable(InputError):
    """A text that a format can't hold."""


def shell(text: str) -> str:
    """One word for a POSIX shell. Raises Unquotable for a NUL, which no process can be given."""
    _refuse_nul(text, "a shell command")
    if _SHELL_SAFE.fullmatch(text):
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def one_line(text: str, what: str) -> str:
    """The text itself, if it stands on one line in every reader's eyes. Raises Unquotable."""
    _refuse_nul(text, what)
    if text.splitlines() not in ([], [text]):
        raise Unquotable(f"{what} can't hold a line end: {text[:60]!r}", hint="write it on one line")
    return text


def dockerfile(text: str) -> str:
    """A value of ENV, LABEL or ARG: in double quotes, where only the backslash, the quote and `$` mean something.

    Raises Unquotable for a line end, which no Dockerfile value can hold.
    """
    one_line(text, "a Dockerfile's value")
    return '"' + re.sub(r'([\\"$])', r"\\\1", text) + '"'


def lua(text: str) -> str:
    """A Lua string in double quotes; what isn't printable ASCII is written byte by byte."""
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
    """A Nix string. Raises Unquotable for a NUL, which Nix has no way to write."""
    _refuse_nul(text, "a Nix string")
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("${", "\\${").replace("\r", "\\r")
    # "$${" means a lone dollar and then a brace, so a dollar before one is escaped as well
    escaped = re.sub(r"\$(?=\\\$\{)", r"\\$", escaped)
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'


def comment(text: str) -> str:
    """A text in a comment that ends with its line: line ends and invisible characters are escaped."""
    return _INVISIBLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def _refuse_nul(text: str, what: str) -> None:
    if "\0" in text:
        raise Unquotable(f"{what} can't hold a NUL character")
