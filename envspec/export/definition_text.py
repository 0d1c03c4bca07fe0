"""Sections and quoting of Apptainer definitions.

How a definition is read (pkg/build/types/parser/deffile.go of Apptainer and SingularityCE): a line whose first word
begins with `%` begins a section, a line that begins with `Bootstrap:` a stage, wherever they stand; Apptainer from 1.2
on replaces `{{ name }}` everywhere. So no value of a spec may put any of these into a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envspec.export.plan import ImageReference
from envspec.export.quote import comment, filled, one_line, shell


def stage_header(image: ImageReference, name: str) -> Iterator[str]:
    yield from ("Bootstrap: docker", f"From: {one_line(image.pinned, 'a header')}", f"Stage: {name}", "")


def section(name: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"%{name}"
    yield from (f"    {line}" if line else "" for line in lines)
    yield ""


def word(text: str) -> str:
    """Quote a word of a shell script so that none of its lines begins a section or a stage, and without `{{`."""
    return re.sub(r"\{(?=\{)", "{''", shell(text).replace("\r", "\r''").replace("\n", "\n''"))


def exported(variables: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Set variables for all programs that follow, some on a line."""
    return (f"export {line}" for line in filled(f"{name}={word(value)}" for name, value in variables))


def safe_text(text: str) -> str:
    """Make a line of text safe for sections that are read verbatim."""
    return re.sub(r"\{(?=\{)", "{ ", comment(" ".join(text.split()))).lstrip("%# ")


def definition(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
