"""Every parser of what comes from outside, by name, and the corpus of each.

A file of `corpus/<name>/` is an example, good or bad, that the parser has to deal with; what a run finds is added.
"""

from functools import cache
from pathlib import Path

from fuzz_given import GIVEN
from fuzz_guard import Parser
from fuzz_machine import MACHINE
from fuzz_served import SERVED

PARSERS: dict[str, Parser] = {parser.name: parser for parser in (*GIVEN, *SERVED, *MACHINE)}

CORPUS = Path(__file__).parent / "corpus"


def files(name: str) -> list[Path]:
    """The files of a parser's corpus."""
    return sorted(path for path in (CORPUS / name).iterdir() if path.is_file())


@cache
def examples(name: str) -> tuple[bytes, ...]:
    """What they hold."""
    return tuple(path.read_bytes() for path in files(name))
