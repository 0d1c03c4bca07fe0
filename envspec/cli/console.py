"""All output: messages on stderr, data on stdout, JSON, and what rich draws.

This module removes secrets and terminal control characters from every text: names, licences, URLs and errors come from
indexes, locks and other tools, and so do the characters in them. It adds the colours too, so that an escape sequence
from elsewhere never passes for one of envspec's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Protocol

import click
from msgspec import Struct
from msgspec.structs import asdict, replace

from envspec.base.errors import EnvspecError, OutsideError, Place, parts
from envspec.base.finding import LEVELS, Finding
from envspec.base.redact import redact
from envspec.base.texts import visible

if TYPE_CHECKING:
    from rich.console import Console


NARROWEST, WIDEST = 60, 200
"""The widths that output is laid out for. A narrower terminal breaks lines by itself; longer lines are hard to read."""

_MARK = f"\ufdd0{os.urandom(8).hex()}"
"""The mark that begins a style. It is random for each run, so no text from elsewhere can contain it."""
_STYLE = re.compile(rf"{_MARK}([0-9;]{{1,8}})m")
_CODES = {"dim": "2", "bold": "1"} | {
    colour: str(code)
    for code, colour in enumerate(("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"), 30)
}
_CODES["bright_black"] = "90"


_documents: list[bool] = []
"""One for each JSON document printed since `begin_output`."""


_hushed: list[bool] = []
"""One since `hush`: only errors, questions, JSON and files are printed."""


def hush() -> None:
    """Print errors and questions alone from here on (`--quiet`); JSON and files asked for on stdout stay."""
    _hushed.append(True)


_json_asked: list[bool] = []
"""One since `ask_json`: stdout gets JSON."""


def ask_json() -> None:
    """Draw no bars from here on: a program reads the answer (`--json`)."""
    _json_asked.append(True)


def wants_json() -> bool:
    return bool(_json_asked)


_verbose_asked: list[bool] = []
"""One since `ask_verbose`: each download is told."""


def ask_verbose() -> None:
    """Print each download from here on (`--verbose`)."""
    _verbose_asked.append(True)


def wants_verbose() -> bool:
    return bool(_verbose_asked)


def begin_output() -> None:
    """Forget what was printed before: a process may run several command lines."""
    for record in (_documents, _hushed, _json_asked, _verbose_asked):
        record.clear()


def has_printed_json() -> bool:
    """Return whether a JSON document has been printed on stdout, or begun."""
    return bool(_documents)


_LOOKS_OWN = re.compile(r"\n(?=(?:error|warning|note|hint): )")


def say(text: str, *, style: str | None = None, always: bool = False) -> None:
    """Print a message on stderr. The word before the first colon is coloured, where colour is wanted. `always`: also
    with `--quiet`, as errors and questions are. On a terminal, lines break between words; a hint doesn't break, for it
    is pasted."""
    if sys.stderr is None or (_hushed and not always):
        return
    # a line of a message that quotes others isn't to be taken for a message of envspec's
    text = _LOOKS_OWN.sub("\n  ", text)
    if style and _wants_colour(sys.stderr):
        head, colon, rest = text.partition(":")
        text = f"{_with_codes(head + colon, f'{_CODES[style]};1')}{rest}"
    # talk that nobody can hear is no reason to fail
    with suppress(OSError):
        text = _safe(text) if text.startswith("hint: ") else _fit(_safe(text), columns(sys.stderr))
        if _drawn:
            _say_above(_drawn[-1].console, text)
        else:
            click.echo(text, err=True, color=True)


def warn(text: str | Exception) -> None:
    """Print a warning: what is wrong, and what envspec does all the same."""
    say(f"warning: {text}", style="yellow")


def out(text: str, *, newline: bool = True) -> None:
    """Print lines of an answer on stdout. Lines wider than the terminal go on below, and no word is broken."""
    if _hushed:
        return
    click.echo(_fit(_safe(text), columns()), nl=newline, color=True)


def columns(stream: IO[str] | None = None) -> int | None:
    """Give the width of the terminal that a stream is (stdout without one), or what COLUMNS says of it; None for a pipe
    or a file, where a line is as long as it is.
    """
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    import shutil

    width = shutil.get_terminal_size((0, 0)).columns
    with suppress(OSError, ValueError):
        width = width or os.get_terminal_size(stream.fileno()).columns
    return min(max(width or 80, NARROWEST), WIDEST)


def out_file(text: str) -> None:
    """Print a whole file on stdout, byte for byte: its renderer has left out secrets. A terminal gets it without
    control characters.
    """
    if sys.stdout.isatty():
        click.echo(_fit(_safe(text), columns()), nl=False, color=True)
    else:
        click.echo(text, nl=False)


def out_json(value: Any) -> None:
    """Print a JSON document on stdout, without secrets and with terminal control characters escaped."""
    _documents.append(True)
    click.echo(json_text(value))


def json_text(value: Any) -> str:
    """Return a JSON document, without secrets and with terminal control characters escaped. A dataclass becomes the
    object of its fields, and a path its text.
    """
    import json

    text = json.dumps(_plain(value), indent=2, ensure_ascii=False)
    return text if text.isascii() else _NOT_PLAIN.sub(_json_escape, text)


def style_text(text: str, style: str) -> str:
    """Style a text for `out` ("red", "dim", "red;bold"), where stdout is a terminal that wants colour."""
    if not _wants_colour(sys.stdout):
        return text
    return _with_codes(text, ";".join(_CODES[name] for name in style.split(";")))


class Drawn(Protocol):
    """A drawing that rich removes again: its Live, or its Progress."""

    @property
    def console(self) -> Console: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


_drawn: list[Drawn] = []
"""The displays on stderr: the innermost last, the others paused."""


@contextmanager
def draw_alone(drawn: Drawn) -> Iterator[None]:
    """Draw until the block ends. What was drawn before pauses meanwhile: both have the terminal's last lines."""
    before = _drawn[-1] if _drawn else None
    if before is not None:
        before.stop()
    _drawn.append(drawn)
    try:
        drawn.start()
        yield
    finally:
        drawn.stop()
        _drawn.pop()
        if before is not None:
            before.start()


def _say_above(console: Console, text: str) -> None:
    """Print a message above what is drawn, which would begin in the middle of a line."""
    from rich.text import Text

    console.print(Text.from_ansi(text), soft_wrap=True)


def terminal_console() -> Console:
    """Give rich's console on stderr, for what is drawn there and removed again."""
    from rich.console import Console
    from rich.segment import Segment

    class Safe(Console):
        """Clean the texts that rich draws: its own control codes stay, those in texts go."""

        def render(self, *args: Any, **options: Any) -> Any:
            for segment in super().render(*args, **options):
                yield segment if segment.control else Segment(_safe(segment.text), segment.style)

    return Safe(stderr=True, quiet=bool(_hushed))


def say_traceback() -> None:
    """Print the traceback of the current exception, for a bug report."""
    import traceback

    if sys.stderr is not None:
        with suppress(OSError):
            click.echo(_safe(traceback.format_exc()), err=True, nl=False)


def silence(stream: IO[str] | None) -> None:
    """Discard the rest of a stream: after a broken pipe, Python would report it again at exit."""
    with suppress(OSError, ValueError, AttributeError), open(os.devnull, "wb") as null:
        os.dup2(null.fileno(), stream.fileno())  # type: ignore[union-attr]


def has_terminal() -> bool:
    """Return whether a person can answer questions, which are shown on stderr."""
    return os.isatty(0) and os.isatty(2)


def _wants_colour(stream: IO[str]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _with_codes(text: str, codes: str) -> str:
    return f"{''.join(f'{_MARK}{code}m' for code in codes.split(';'))}{text}{_MARK}0m"


def _safe(text: str) -> str:
    parts = _STYLE.split(text) if _MARK in text else [text]
    return "".join(f"\x1b[{part}m" if odd % 2 else visible(redact(part)) for odd, part in enumerate(parts))


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_HEAD = re.compile(r"[ │├└─|`-]*")
_BELOW = str.maketrans("├└─`-", "│    ")


def _fit(text: str, width: int | None) -> str:
    if width is None or len(text) <= width:
        return text
    return "\n".join(piece for line in text.split("\n") for piece in _pieces(line, width))


def _pieces(line: str, width: int) -> Iterator[str]:
    """Break a line between words. What goes on below is indented, and a tree's trunk goes on beside it."""
    if _visible_width(line) <= width:
        yield line
        return
    (head,) = _HEAD.findall(line)[:1]
    here = head
    indent = f"{head.translate(_BELOW)}    "
    for word in re.split(r"(?<! )(?= )", line[len(head) :]):
        if _visible_width(here + word) > width and here.strip(" │├└─|`-"):
            yield here.rstrip()
            here, word = indent, word.lstrip()
        here += word
    yield here


def _visible_width(text: str) -> int:
    """Count what is seen of a text: colours take no room."""
    return len(_COLOUR.sub("", text))


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(inner) for name, inner in asdict(value).items()}
    if isinstance(value, str | os.PathLike):
        return redact(str(value))
    if isinstance(value, dict):
        return {redact(key) if isinstance(key, str) else key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


_NOT_PLAIN = re.compile(r"[^\x00-\x7e]")


def _json_escape(match: re.Match[str]) -> str:
    """Escape characters that turn a line around or control an old terminal; JSON itself escapes only the first 32."""
    import json
    from unicodedata import category

    character = match[0]
    return character if character.isprintable() or category(character) == "Zs" else json.dumps(character)[1:-1]


# The failure of a command: its errors and its exit code, for people and as JSON.


SCHEMA = "envspec/error/1"


class Failure(Struct, frozen=True):
    """The errors of a command that has no answer, and its exit code."""

    errors: tuple[EnvspecError, ...]
    exit_code: int
    findings: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, error: EnvspecError) -> Failure:
        """Give each error of a list by itself."""
        return cls(parts(error), error.exit_code, error.findings)

    @classmethod
    def of_text(cls, message: str, *, hint: str | None = None, exit_code: int = OutsideError.exit_code) -> Failure:
        """Make a failure of an error that isn't envspec's own."""
        return cls((EnvspecError(message, hint=hint),), exit_code)

    def document(self) -> dict[str, Any]:
        """Give the JSON document that stands for an answer (`envspec/cli/schemas/error.json`)."""
        return {"schema": SCHEMA, "exit-code": self.exit_code, "errors": [error_json(error) for error in self.errors]}


FIRST = "far-behind"
"""The code of what stands above all other findings."""
_MOVES = (FIRST, "downgrade")
"""Codes of the older release that a target has, whose reason may be a release that was given up."""
_STYLES = {"info": "cyan", "warning": "yellow", "error": "red"}


def fold(diagnostics: Iterable[Finding]) -> list[Finding]:
    """Return each diagnostic once, packages that stay far behind first. An older release in place of one that was given
    up has one line: the line of the release that was given up has the reason, and gets the other's severity."""
    every = [*dict.fromkeys(diagnostics)]
    given_up = {
        at: diagnostic for at, diagnostic in enumerate(every) if diagnostic.code == "given-up" and diagnostic.package
    }
    folded = set()
    for number, diagnostic in enumerate(every):
        for at, moved in given_up.items() if diagnostic.code in _MOVES else ():
            if diagnostic.package == moved.package and {*diagnostic.targets} <= {*moved.targets}:
                folded.add(number)
                if diagnostic.severity == "warning":
                    every[at] = replace(every[at], severity=diagnostic.severity, code=diagnostic.code)
    left = (diagnostic for number, diagnostic in enumerate(every) if number not in folded)
    return sorted(left, key=lambda diagnostic: diagnostic.code != FIRST)


def print_diagnostics(diagnostics: Iterable[Finding]) -> None:
    """Print findings, and what envspec wrote on the way, on stderr. Of notes that came with the last lock too, a
    terminal gets the number."""
    counts = sys.stderr is not None and sys.stderr.isatty() and not (wants_verbose() or wants_json())
    repeated = 0
    for diagnostic in fold(diagnostics):
        if diagnostic.change:
            say(diagnostic.text)
        elif counts and diagnostic.repeated and diagnostic.severity == "info":
            repeated += 1
            continue
        else:
            place = f"{diagnostic.place}: " if diagnostic.place else ""
            say(f"{LEVELS[diagnostic.severity]}: {place}{diagnostic.text}", style=_STYLES[diagnostic.severity])
        if diagnostic.remedy:
            say(f"hint: {diagnostic.remedy}")
    if repeated:
        notes = "1 note" if repeated == 1 else f"{repeated} notes"
        say(f"{notes} as with the last lock (--verbose lists {'it' if repeated == 1 else 'them'})")


def tell(error: EnvspecError) -> None:
    """Print an error: `error: file:line:column: message`, then its hint."""
    print_failure(Failure.of(error))


_STEP = re.compile(r"(?<=\.) (?=(?:\(\d+\) )?(?:And b|B)ecause )")
_STEPS = 8
"""Reasons that are still read."""


def print_failure(failure: Failure) -> Failure:
    """Print what made a command fail: the findings up to it, and each error with its hint. Gives it back."""
    print_diagnostics(failure.findings)
    for error in failure.errors:
        say(f"error: {_first_and_last(str(error))}", style="red", always=True)
        if error.hint:
            say(f"hint: {error.hint}", always=True)
    return failure


def _first_and_last(text: str) -> str:
    """Leave out the middle of a long chain of a solver's reasons."""
    steps = _STEP.split(text)
    if len(steps) <= _STEPS:
        return text
    return f"{steps[0]} ({len(steps) - 2} steps between: --json has them) {steps[-1]}"


def error_json(error: EnvspecError) -> dict[str, Any]:
    """Give an error's JSON: a finding's, the hint as people read it, and the place in a file."""
    package = error.about[0] if error.about else None
    finding = Finding("error", error.code, error.message, remedy=error.hint, targets=error.targets, package=package)
    return {**finding.document, "code": error.code or None, "hint": error.hint, **place_json(error.place)}


def place_json(place: Place | None) -> dict[str, Any]:
    """Give the JSON of a place in a file; null where there is none."""
    return {
        "file": place.file if place else None,
        "line": place.line or None if place else None,
        "column": place.column or None if place else None,
    }
