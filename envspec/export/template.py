"""Recipes as templates: texts in files of their own, with `<< value | filter >>` where a plan's values stand.

A value goes through a filter that quotes it for its place. An unknown name is an error, and a test reads the templates:
none has a value without one of `FILTERS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envspec.export import quote
from envspec.export.quote import Unquotable

if TYPE_CHECKING:
    from jinja2 import Environment

FOLDER = Path(__file__).parent / "templates"
WIDTH = 120
"""The greatest length of a line, where its words are shorter."""
_NAME = re.compile(r"[A-Za-z0-9_@%+=:,./*-]*")


class Variable(str):
    """The name of a variable of the shell, as a word of a command: its value is one word."""


Command = tuple[str, ...]
"""The words of a command."""


def name(text: str) -> str:
    """Check that a name or a path of envspec's own is one word to every reader, and give it unchanged."""
    if not _NAME.fullmatch(text):
        raise Unquotable(f"a recipe can't hold the name {text[:60]!r}")
    return text


def names(texts: Iterable[str]) -> str:
    """Check names, and join them."""
    return " ".join(name(text) for text in texts if text)


def word(text: str) -> str:
    """Quote a word of a command. Raises Unquotable for a line end, which ends an instruction."""
    if isinstance(text, Variable):
        return f'"${name(text)}"'
    if "\n" in text or "\r" in text:
        raise Unquotable(f"a command can't hold a line end: {text[:60]!r}", hint="write it on one line")
    return quote.shell(text)


def command(words: Iterable[str]) -> str:
    """Write a command: a word with `=` before the program sets a variable."""
    return " ".join(map(word, words))


def commands(sequence: Iterable[Command]) -> str:
    """Write commands, one a line, that end with the first that fails."""
    return " \\\n    && ".join(map(command, sequence))


def run(step: tuple[Iterable[str], Iterable[Command]]) -> str:
    """Write what a RUN mounts and its commands: the first on the mounts' line where it fits."""
    mounts, lines = names(step[0]), commands(step[1])
    line = f"{mounts} {lines}" if mounts else lines
    if len(f"RUN {line}".partition("\n")[0]) <= WIDTH or not mounts:
        return line
    return " \\\n    ".join([*quote.fill(mounts.split(), WIDTH - 6), lines])


def pairs(values: Mapping[str, str]) -> str:
    """Write the values of an ENV or a LABEL, in quotes where they aren't plain words."""
    lines: list[str] = []
    for key, value in values.items():
        pair = f"{name(key)}={_value(value)}"
        at = next((at for at, line in enumerate(lines) if len(line) + len(pair) < WIDTH - 6), len(lines))
        lines[at:] = [f"{lines[at]} {pair}", *lines[at + 1 :]] if at < len(lines) else [pair]
    return " \\\n    ".join(lines)


def _value(text: str) -> str:
    return text if text and _NAME.fullmatch(text) else quote.dockerfile(text)


def comments(lines: Iterable[str]) -> str:
    """Write lines as comments."""
    return "\n".join(f"# {quote.comment(line)}".rstrip() for line in lines)


def script(lines: Iterable[str]) -> str:
    """Write lines of a shell that envspec has put together, with quoted words, in a section of a definition."""
    return "\n    ".join(lines)


def steps(sequence: Iterable[Command]) -> str:
    """Write commands, one a line, in a script of a definition: long ones go on in the next line."""
    return script(" \\\n        ".join(quote.fill(map(_definition_word, words), 108)) for words in sequence)


def _definition_word(text: str) -> str:
    return word(text) if isinstance(text, Variable) else quote.definition_word(text)


def exports(variables: Iterable[tuple[str, str]]) -> str:
    """Set variables for all programs of a script of a definition that follow."""
    return script(quote.exports(variables))


def files(pairs: Iterable[tuple[str, str]]) -> str:
    """Write lines of `%files`: paths without spaces, there and here."""
    return script(f"{name(source)} {name(place)}" for source, place in pairs)


def lines(texts: Iterable[str]) -> str:
    """Write lines of a shell of envspec's own."""
    return "\n".join(texts)


def shell_words(texts: Iterable[str]) -> str:
    """Write paths, which may begin with a variable of the shell."""
    return " ".join(f'"{text[0]}{name(text[1:])}"' if text.startswith("$") else name(text) for text in texts)


def case(patterns: Iterable[str]) -> str:
    """Write the names of variables as a pattern of a `case`, on as few lines as it takes."""
    return " \\\n    ".join(quote.fill((f"{name(pattern)} |" for pattern in patterns), 100)).removesuffix(" |") + ")"


def patterns(globs: Iterable[str]) -> str:
    """Write the names of variables as regular expressions, words of a list."""
    return script(quote.fill(quote.shell(name(glob.replace("?", "")) and glob.replace("*", ".*")) for glob in globs))


def option(text: str) -> str:
    """Check that an option of sbatch is one line. The spec's reader has checked the rest of it."""
    return quote.check_line(text, "an option of sbatch")


def labels(values: Mapping[str, str]) -> str:
    """Write the lines of `%labels`."""
    return script(f"{name(key)} {quote.definition_text(value)}" for key, value in values.items())


FILTERS = {
    "case": case,
    "comment": quote.comment,
    "comments": comments,
    "definition_word": quote.definition_word,
    "exports": exports,
    "files": files,
    "image": lambda text: quote.check_line(text, "a header"),
    "json": lambda value: json.dumps(list(value)),
    "labels": labels,
    "lines": lines,
    "name": name,
    "names": names,
    "option": option,
    "patterns": patterns,
    "sentence": lambda texts: ", ".join(map(name, texts)),
    "shell_words": shell_words,
    "number": lambda value: str(int(value)),
    "pairs": pairs,
    "run": run,
    "script": script,
    "steps": steps,
    "value": quote.dockerfile,
}
"""The filters that make a value safe in its place. What isn't one of them changes a value before."""


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        undefined=StrictUndefined,
        autoescape=False,  # each value has a filter of its own
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        variable_start_string="<<",
        variable_end_string=">>",
    )
    made.filters |= FILTERS
    made.filters["image_argument"] = lambda stage: f"{stage.upper().replace('-', '_')}_IMAGE"
    return made


def render(template: str, **values: Any) -> str:
    """Fill a template of this folder. Raises Unquotable for a value that its place can't hold."""
    return _environment().get_template(template).render(**values)


def fold(text: str) -> str:
    """Break long lines of a Dockerfile between words. Builders join such lines before they read them, so a quoted value
    can be broken, too: its next line begins where it goes on."""
    return "\n".join(piece for line in text.split("\n") for piece in _fold(line))


def _fold(line: str) -> Iterator[str]:
    # what reads an ARG of a Dockerfile, as `at_site` does, looks for it on one line
    if len(line) <= WIDTH or line.startswith(("#", "ARG ")):
        yield line
        return
    start, indent, last = 0, "", None
    for at, quoted in _spaces(line):
        if last and at + len(indent) - start >= WIDTH - 1:
            yield f"{indent}{line[start : last[0] + 1]}\\"
            start, indent, last = last[0] + 1, "" if last[1] else " " * 8, None
        # a line that begins with # is a comment, wherever it stands; an option stays with its value
        alone = not line[:at].rpartition(" ")[2].startswith("--")
        if alone and line[at + 1 : at + 2] not in ("", " ", "#", "\\") and line[at - 1] != " ":
            last = at, quoted
    if last and len(indent) + len(line) - start > WIDTH:
        yield f"{indent}{line[start : last[0] + 1]}\\"
        start, indent = last[0] + 1, "" if last[1] else " " * 8
    yield indent + line[start:]


def _spaces(line: str) -> Iterator[tuple[int, bool]]:
    """Give the places of spaces behind a line's indentation, each with whether it is in quotes."""
    quotes, skipped = "", False
    begin = len(line) - len(line.lstrip())
    for at, char in enumerate(line):
        if skipped:
            skipped = False
        elif char == "\\" and quotes != "'":
            skipped = True
        elif char in "\"'" and quotes in ("", char):
            quotes = "" if quotes else char
        elif char == " " and at > begin:
            yield at, bool(quotes)
