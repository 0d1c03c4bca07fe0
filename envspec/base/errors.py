"""The errors envspec raises on purpose.

Each knows its exit code, so only the command line turns one into a process status.

EnvspecError
├── AnswerNo          1   the question is valid, and the answer is no
│   ├── Unsatisfiable     no set of versions satisfies the spec (`envspec.packages.conflict`)
│   └── Infeasible        the rules say that it can't work
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

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol, TypeVar

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


class Suggestion(Protocol):
    """A change that may mend what is refused (`envspec.spec.way`). `near`: it is the nearest by the facts."""

    @property
    def text(self) -> str: ...

    @property
    def near(self) -> bool: ...


def format_ways(ways: Iterable[Suggestion], otherwise: str | None = None) -> str | None:
    """Write the ways that a judge has passed as alternatives, and what is said `otherwise`."""
    passed = tuple(ways)
    near = ", or ".join(dict.fromkeys(way.text for way in passed if way.near))
    texts = (f"Nearest: {near}" if near else "", *(way.text for way in passed if not way.near), otherwise)
    return "; or ".join(filter(None, dict.fromkeys(texts))) or None


class EnvspecError(Exception):
    """The base of envspec's errors: a message for people, an optional hint (what to do next), and an exit code.

    about    names of its subjects, where whoever raised it knew them
    key      the key of the spec that it is about (`pip.indexes.internal`), likewise
    targets  the names of the targets that it is said of, likewise
    code     of the finding that it tells, likewise
    ways     untried changes of the spec: `tell_ways` makes the hint of those that work
    beside   other refusals at the same time
    findings  the findings up to it (`envspec.base.finding.carrying`), for people
    """

    exit_code: ClassVar[int] = 1
    about: tuple[str, ...] = ()
    key: str = ""
    # as in a finding, whose places and subjects are those of all of envspec's judges
    targets: tuple[str, ...] = ()
    code: str = ""
    ways: tuple[Any, ...] = ()
    beside: tuple[EnvspecError, ...] = ()
    findings: tuple[Any, ...] = ()

    def __init__(self, message: str, *, hint: str | None = None, place: Place | None = None) -> None:
        self.message = message
        self.hint = hint
        self.place = place
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message

    def __copy__(self: _Error) -> _Error:
        # not by what its kind was made of, which may be more than a message
        own: _Error = type(self).__new__(type(self), *self.args)
        own.__dict__.update(self.__dict__)
        return own

    @property
    def requested(self) -> tuple[str, ...]:
        """Its subjects in the spec, as far as it names them."""
        return self.about

    def with_subjects(self: _Error, *names: str) -> _Error:
        """Name its subjects, if it doesn't yet; gives it back."""
        self.about = self.about or names
        return self

    def tell_ways(self, passed: Iterable[Suggestion]) -> None:
        """Put the ways that work before what the hint says."""
        self.hint, self.ways = format_ways(passed, self.hint), ()


@contextmanager
def about(*names: str) -> Iterator[None]:
    """Name the subjects of an error that is raised meanwhile, if whoever raised it didn't."""
    try:
        yield
    except EnvspecError as error:
        error.with_subjects(*names)
        raise


def first_errors(errors: Iterable[_Error]) -> tuple[_Error, ...]:
    """Keep the first errors of a list, and count the others in one more."""
    every = tuple(errors)
    if len(every) <= MOST:
        return every
    place = every[0].place
    rest = type(every[MOST])(f"and {len(every) - MOST:,} more", place=Place(place.file) if place else None)
    return (*every[:MOST], rest)


class AnswerNo(EnvspecError):
    exit_code = 1

    @property
    def subjects(self) -> tuple[str, ...]:
        """All names that the refusal depends on, as far as they are known."""
        return self.about


class Infeasible(AnswerNo):
    """The rules say that it can't work, or an answer isn't what was asked for."""


class InfeasibleTargets(Infeasible):
    """Several things stand in the way. `errors` holds each of the first `MOST` with its own place and hint, and a count
    of the rest; the text has one per line.
    """

    def __init__(self, errors: Iterable[EnvspecError]) -> None:
        self.errors: tuple[EnvspecError, ...] = first_errors(errors)
        super().__init__("\n".join(str(error) for error in self.errors))


def parts(error: EnvspecError) -> tuple[EnvspecError, ...]:
    """Give the errors of a list, each with its own place and hint; any other error, and what is refused beside it."""
    return error.errors if isinstance(error, SpecErrors | InfeasibleTargets) else (error, *error.beside)


def together(errors: Iterable[EnvspecError]) -> EnvspecError:
    """Give one error of several, each told once; of one, itself."""
    every = {str(error): error for error in errors}
    spec_errors = [error for error in every.values() if isinstance(error, SpecError)]
    if len(every) == 1:
        return next(iter(every.values()))
    return SpecErrors(spec_errors) if len(spec_errors) == len(every) else InfeasibleTargets(every.values())


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
    """An index didn't answer, or answered wrongly. The message holds the URL without credentials.
    `evidence` is a value on the failure, of whoever raised it.
    """

    evidence: Any = None


class ToolError(OutsideError):
    """A program that envspec runs is missing or failed."""


class StorageError(OutsideError):
    """A file can't be read or written."""


class InternalError(EnvspecError):
    """envspec contradicts itself."""

    exit_code = 3
