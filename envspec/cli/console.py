"""The one place where text leaves: talk on stderr, data on stdout, JSON, and what rich draws.

Whatever goes through here has no secret in it and nothing that steers a terminal: names, licences, URLs and errors come
from indexes, locks and other tools, and so do the characters in them. Colours are put in here too, so that an escape
sequence from elsewhere is never taken for one of ours.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

import click

from envspec.redact import redact
from envspec.texts import visible

if TYPE_CHECKING:
    from rich.console import Console

_MARK = f"\ufdd0{os.urandom(8).hex()}"
"""Begins a style of ours. Nobody else can know it, so no text from elsewhere can have one."""
_STYLE = re.compile(rf"{_MARK}([0-9;]{{1,8}})m")
_CODES = {"dim": "2", "bold": "1"} | {
    colour: str(code)
    for code, colour in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"), 30)
}
_CODES["bright_black"] = "90"


def say(text: str, *, style: str | None = None) -> None:
    """A line of talk on stderr. The first word before a colon gets the colour, where colour is wanted."""
    if sys.stderr is None:
        return
    if style and _wants_colour(sys.stderr):
        head, colon, rest = text.partition(":")
        text = f"{_styled(head + colon, f'{_CODES[style]};1')}{rest}"
    # talk that nobody can hear is no reason to fail
    with suppress(OSError):
        click.echo(_safe(text), err=True, color=True)


def warn(text: str | Exception) -> None:
    """A warning: what is amiss, and what envspec does all the same."""
    say(f"warning: {text}", style="yellow")


def out(text: str, *, newline: bool = True) -> None:
    """Lines of an answer on stdout."""
    click.echo(_safe(text), nl=newline, color=True)


def out_file(text: str) -> None:
    """A whole file on stdout, byte for byte: what renders it has left secrets out. On a terminal, as it may be shown
    there."""
    if sys.stdout.isatty():
        out(text, newline=False)
    else:
        click.echo(text, nl=False)


def out_json(value: Any) -> None:
    """A JSON document on stdout. Texts in it have no secret, and characters that steer a terminal are escaped."""
    import json

    text = json.dumps(_redacted(value), indent=2, ensure_ascii=False)
    click.echo(text if text.isascii() else _NOT_PLAIN.sub(_json_escape, text))


def styled(text: str, style: str) -> str:
    """A text for `out` in a style ("red", "dim", "red;bold"), where stdout is a terminal that wants colour."""
    if not _wants_colour(sys.stdout):
        return text
    return _styled(text, ";".join(_CODES[one] for one in style.split(";")))


def drawing() -> Console:
    """rich's console on stderr, for what is drawn there and taken off again."""
    from rich.console import Console
    from rich.segment import Segment

    class Safe(Console):
        """What steers the terminal is rich's own; texts come from anywhere."""

        def render(self, *args: Any, **options: Any) -> Any:
            for segment in super().render(*args, **options):
                yield segment if segment.control else Segment(_safe(segment.text), segment.style)

    return Safe(stderr=True)


def say_traceback() -> None:
    """The traceback of the exception that is being handled, for whoever reports a fault."""
    import traceback

    if sys.stderr is not None:
        with suppress(OSError):
            click.echo(_safe(traceback.format_exc()), err=True, nl=False)


def silence_stdout() -> None:
    """Let what is left for stdout go nowhere: once it's broken, Python would complain about it again at its end."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _wants_colour(stream: IO[str]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _styled(text: str, codes: str) -> str:
    return f"{''.join(f'{_MARK}{code}m' for code in codes.split(';'))}{text}{_MARK}0m"


def _safe(text: str) -> str:
    parts = _STYLE.split(text)
    return "".join(f"\x1b[{part}m" if odd % 2 else visible(redact(part)) for odd, part in enumerate(parts))


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key) if isinstance(key, str) else key: _redacted(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(inner) for inner in value]
    return value


_NOT_PLAIN = re.compile(r"[^\x00-\x7e]")


def _json_escape(match: re.Match[str]) -> str:
    """What turns a line around or steers an old terminal; JSON itself escapes no more than the first 32."""
    import json
    from unicodedata import category

    found = match[0]
    return found if found.isprintable() or category(found) == "Zs" else json.dumps(found)[1:-1]
