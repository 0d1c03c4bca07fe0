"""The errors envspec raises on purpose.

Each knows its exit code, so only the command line turns one into a process status.

EnvspecError
├── AnswerNo          1   the question is valid, and the answer is no
│   ├── Unsatisfiable     no set of versions satisfies the spec
│   ├── Infeasible        the GPU rules say that it can't work
│   └── WrongBuild        a CPU build, or one of another CUDA major, got into a CUDA target
├── InputError        2   what the user gave is wrong
│   ├── SpecError         a spec, or another file that people write, with the place and the value
│   │   └── SpecErrors        several of them at once
│   ├── LockError         a lock that is damaged, edited by hand or of a newer schema
│   │   └── UnsoundLock       one whose pins can't be right for its spec (`envspec.lock.judge`)
│   └── NotPlain          a link, a pipe or a device where a plain file or a folder belongs
├── OutsideError      3   something outside envspec failed
│   ├── IndexFailure      an index (network, bad answer, wrong hash)
│   ├── ToolError         a program is missing or failed
│   └── StorageError      a file can't be read or written (disk full, read-only)
└── InternalError     3   envspec contradicts itself; never the user's fault
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, TypeVar

from msgspec import Struct

MOST = 50
"""The number of errors that a list names. A file made by a program may have thousands."""


_Error = TypeVar("_Error", bound="EnvspecError")


class Place(Struct, frozen=True):
    """A place in a file. Lines and columns count from 1; 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}" if self.column else f"{self.file}:{self.line}"


class Way(Struct, frozen=True):
    """A change of the spec that may mend what is refused. Only `format_ways` reads its text, and takes a judge.

    text     what the user writes
    near     it is the nearest change by the facts, and told as that
    python   the spec's Python in place of its own, of the releases in `python_range`, if it is given; likewise the
             targets' `cuda` and `glibc`, and the spec's `exclude_newer`
    line     a requirement in place of the spec's on its package; a bound where the spec has none
    conda    a match spec in place of the spec's on its package; one more where the spec has none
    bounds   constraints besides: what the user writes, or what has to come of it
    accept   codes of findings that are taken knowingly, as a spec has them
    sources  packages and the indexes of the spec that they come from, as a spec has them
    without  packages that the spec asks for no more
    bare     the targets say nothing of GPUs and drivers
    of_all   it is for every target, whichever it is told of: a Python, a date and sources always are
    """

    text: str = ""
    near: bool = False
    python: str | None = None
    python_range: str | None = None
    cuda: str | None = None
    glibc: str | None = None
    exclude_newer: str | None = None
    line: str | None = None
    conda: str | None = None
    bounds: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    without: tuple[str, ...] = ()
    bare: bool = False
    of_all: bool = False

    @property
    def is_for_all(self) -> bool:
        return bool(self.of_all or self.python or self.exclude_newer or self.sources)


Tried = Callable[[Way], "str | None"]
"""A judge of ways: gives what else one takes (', with allow-source = ["lib"]'), None for one that doesn't work."""


def format_ways(ways: Iterable[Way], tried: Tried, otherwise: str | None = None) -> str | None:
    """Write the ways that work, and what is said `otherwise`, which names no version. None where that is nothing."""
    passed = [(way, f"{way.text}{more}") for way in ways if (more := tried(way)) is not None]
    near = [text for way, text in passed if way.near]
    parts = [f"Nearest: {', or '.join(near)}" if near else "", *(text for way, text in passed if not way.near)]
    return "; or ".join(filter(None, [*dict.fromkeys(parts), otherwise])) or None


class EnvspecError(Exception):
    """The base of envspec's errors: a message for people, an optional hint (what to do next), and an exit code.

    about    the packages that it is about, where whoever raised it knew them
    key      the key of the spec that it is about (`pip.indexes.internal`), likewise
    targets  the names of the targets that it is said of, likewise
    code     of the finding that it tells, likewise
    ways     untried changes of the spec: `tell_ways` makes the hint of those that work
    """

    exit_code: ClassVar[int] = 1
    about: tuple[str, ...] = ()
    key: str = ""
    targets: tuple[str, ...] = ()
    code: str = ""
    ways: tuple[Way, ...] = ()

    def __init__(self, message: str, *, hint: str | None = None, place: Place | None = None) -> None:
        self.message = message
        self.hint = hint
        self.place = place
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message

    @property
    def asked(self) -> tuple[str, ...]:
        """The packages of the spec that it is about, as far as it names them."""
        return self.about

    def with_packages(self: _Error, *packages: str) -> _Error:
        """Name the packages that it is about, if it doesn't yet; gives it back."""
        self.about = self.about or packages
        return self

    def tell_ways(self, tried: Tried) -> None:
        """Put the ways that work before what the hint says."""
        self.hint, self.ways = format_ways(self.ways, tried, self.hint), ()


@contextmanager
def about(*packages: str) -> Iterator[None]:
    """Name the packages that an error is about which is raised meanwhile, if whoever raised it didn't."""
    try:
        yield
    except EnvspecError as error:
        error.with_packages(*packages)
        raise


def first_errors(errors: Iterable[_Error], most: int = MOST) -> tuple[_Error, ...]:
    """Keep the first errors of a list, and count the others in one more."""
    every = tuple(errors)
    if len(every) <= most:
        return every
    place = every[0].place
    rest = type(every[most])(f"and {len(every) - most:,} more", place=Place(place.file) if place else None)
    return (*every[:most], rest)


class AnswerNo(EnvspecError):
    exit_code = 1

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages that it names, as far as that is known."""
        return self.about


class Unsatisfiable(AnswerNo):
    """No set of versions satisfies the spec for a target. `corrections` are the names of the corrections of published
    metadata that may be part of it, `proof` are the words of the proof that may be packages.
    """

    code = "unsatisfiable"
    corrections: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()

    @property
    def packages(self) -> tuple[str, ...]:
        return self.about or self.proof

    @property
    def asked(self) -> tuple[str, ...]:
        return self.about or tuple(_ASKED.findall(self.message))


_ASKED = re.compile(r"asks for ([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)")


class Infeasible(AnswerNo):
    """The GPU rules say that a target can't work."""


class InfeasibleTargets(Infeasible):
    """Several things stand in the way. `errors` holds each of the first `MOST` with its own place and hint, and a count
    of the rest; the text has one per line.
    """

    def __init__(self, errors: Iterable[EnvspecError]) -> None:
        self.errors: tuple[EnvspecError, ...] = first_errors(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


def parts(error: EnvspecError) -> tuple[EnvspecError, ...]:
    """Give the errors of a list, each with its own place and hint; any other error alone."""
    return error.errors if isinstance(error, SpecErrors | InfeasibleTargets) else (error,)


def together(errors: Iterable[EnvspecError]) -> EnvspecError:
    """Give one error of several, each told once; of one, itself."""
    every = {str(one): one for one in errors}
    several = [one for one in every.values() if isinstance(one, SpecError)]
    if len(every) == 1:
        return next(iter(every.values()))
    return SpecErrors(several) if len(several) == len(every) else InfeasibleTargets(every.values())


class WrongBuild(AnswerNo):
    """A CPU build, or a build for another CUDA major, got into a CUDA target."""


class InputError(EnvspecError):
    exit_code = 2


class SpecError(InputError):
    """A spec, a configuration or another file that people write is wrong. `place` names file, line and column; the
    message quotes the value."""


class SpecErrors(SpecError):
    """A spec, or such a file, has several errors. `errors` holds each of the first `MOST` with its place and hint, and
    a count of the rest; the text has one per line.
    """

    def __init__(self, errors: Iterable[SpecError]) -> None:
        self.errors: tuple[SpecError, ...] = first_errors(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


class LockError(InputError):
    """A lock can't be used: damaged, edited by hand, or of a newer schema."""


class NotPlain(InputError):
    """A link, a named pipe, a socket or a device stands where a plain file or a folder belongs. `place` names it."""


class OutsideError(EnvspecError):
    exit_code = 3


class IndexFailure(OutsideError):
    """An index didn't answer, or answered wrongly. The message holds the URL without credentials."""


class ToolError(OutsideError):
    """A program that envspec runs is missing or failed."""


class StorageError(OutsideError):
    """A file can't be read or written."""


class InternalError(EnvspecError):
    """envspec contradicts itself."""

    exit_code = 3
