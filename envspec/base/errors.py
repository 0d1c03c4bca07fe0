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

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from envspec.base.conflict import Conflict, Stray

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
    """A change of the spec that may mend what is refused. Its text is written from the fields that are tried.

    cuda     of the targets that the refusal is of; likewise `glibc`, which the machines must have, `cuda_compat` and
             `platform`
    cpu      the targets are for CPUs: without their `cuda` and `gpus`
    python   the spec's Python in place of its own, of the releases in `python_range`, if it is given
    exclude_newer  the spec's day ("2025-01-02")
    of_any_day     packages that the spec's day doesn't hold for
    line     a requirement in place of the spec's on its package
    more     requirements of the spec besides
    conda    a match spec in place of the spec's on its package; one more where the spec has none
    bounds   constraints of the spec besides
    overrides  requirements that take the place of all others on their packages
    sources  packages and the indexes of the spec that they come from
    replaced  packages of the base that the lock may replace
    inspect  whether wheels are read for what their METADATA leaves out
    corrections    of published metadata that the spec does without
    without  packages that the spec asks for no more
    accept   findings that are taken knowingly: codes, each with the package that it is of, if it is of one
    allow    packages whose sources the user would have to trust besides
    near     it is the nearest change by the facts, and told as that: "torch 2.7.1", "CUDA 12.6"
    note     the change's effect, or the terms beside it that stay
    """

    cuda: str | None = None
    glibc: str | None = None
    cuda_compat: bool | None = None
    platform: str | None = None
    cpu: bool = False
    python: str | None = None
    python_range: str | None = None
    exclude_newer: str | None = None
    of_any_day: tuple[str, ...] = ()
    line: str | None = None
    more: tuple[str, ...] = ()
    conda: str | None = None
    bounds: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    replaced: tuple[str, ...] = ()
    inspect: bool | None = None
    corrections: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    accept: tuple[tuple[str, str | None], ...] = ()
    allow: tuple[str, ...] = ()
    near: bool = False
    note: str = ""

    def beside(self, other: Way) -> Way | None:
        """Give both changes as one, the other's where one value is changed twice; None where that is no single one."""
        if self.conda or other.conda or (self.line and other.line) or self.accept or other.accept:
            return None
        mine, theirs = asdict(self), asdict(other)
        joined = {
            name: tuple(dict.fromkeys((*mine[name], *value))) if isinstance(value, tuple) else value or mine[name]
            for name, value in theirs.items()
        }
        of_python = mine if other.python is None else theirs
        note = self.note if self.note == other.note else ""
        return Way(**{**joined, "python_range": of_python["python_range"], "near": False, "note": note})

    @property
    def is_of_machines(self) -> bool:
        """Return whether the machines decide alone whether it works."""
        return self == Way(glibc=self.glibc, note=self.note)

    @property
    def text(self) -> str:
        """The change as the user writes it."""
        if self.near and not self.allow:
            return " ".join(filter(None, (self._words, self.note)))
        taken = {code: [package for of, package in self.accept if of == code] for code, _ in self.accept}
        reasons = {
            code: ", ".join(f'{package} = "why"' for package in packages if package) for code, packages in taken.items()
        }
        accepted = ", ".join(f"{code} = {{ {of} }}" if of else f'{code} = "why"' for code, of in reasons.items())
        of_any_day = ", ".join(f"[env.exclude-newer-package.{name}]" for name in self.of_any_day)
        python = (self.python_range or "").removeprefix("==") or self.python
        overrides = ", ".join(f'{{ requirement = "{line}", reason = "why" }}' for line in self.overrides)
        sources = ", ".join(f'{name} = "{index}"' for name, index in self.sources)
        replaced = ", ".join(f'{name} = "why"' for name in self.replaced)
        parts = (
            (self.glibc, f'if the machines have it, set glibc = "{self.glibc}" in the target'),
            (self.accept, f"if you know that it is safe here, add to [pip]: accept = {{ {accepted} }}"),
            (python, f'python = "{python}"'),
            (self.platform, f'platform = "{self.platform}" in the target'),
            (self.cpu, "leave `cuda` and `gpus` out, for a CPU target"),
            (self.cuda_compat, "cuda-compat = true in the target"),
            (self.cuda_compat is False, "leave `cuda-compat` out"),
            (self.cuda, f'cuda = "{self.cuda}" in the target'),
            (self.exclude_newer, f'exclude-newer = "{self.exclude_newer}" in [env]'),
            (self.of_any_day, f"if any day of {', '.join(self.of_any_day)} will do, write {of_any_day} with a reason"),
            (self.line, f'write "{self.line}"'),
            (self.more, f"add {_quote(self.more)} to [pip] dependencies"),
            (self.conda, f'add "{self.conda}" to [conda] dependencies'),
            (self.bounds, f"add to [pip]: constraints = [{_quote(self.bounds)}]"),
            (self.overrides, f"if it works for you all the same, add to [pip]: overrides = [{overrides}]"),
            (self.sources, f"add to [pip]: sources = {{ {sources} }}"),
            (self.replaced, f"replace the base's: [base] replace = {{ {replaced} }}"),
            (self.inspect is False, "do without what wheels say: add inspect = false to [pip]"),
            (self.corrections, f"add to [pip]: without-corrections = [{_quote(self.corrections)}]"),
            (self.without, f"leave {', '.join(self.without)} out"),
            (self.allow, f"if you trust its code, add to [pip]: allow-source = [{_quote(self.allow)}]"),
        )
        return " and ".join(text for value, text in parts if value) + (f": {self.note}" if self.note else "")

    @property
    def _words(self) -> str:
        """The packages, the CUDA and the Python of the change, as people say them."""
        packages = [
            requirement.replace(" ", "").replace("==", " ") for requirement in (self.line, self.conda) if requirement
        ]
        cuda = [f"CUDA {self.cuda}"] if self.cuda else []
        if packages and cuda and self.bounds:
            packages, cuda = [f"{packages[0]} for {cuda[0]}"], []
        python = [f"Python {self.python}"] if self.python else []
        return " with ".join(
            (*packages, *cuda, *python, *(requirement.replace("==", " ") for requirement in self.bounds))
        )


def _quote(texts: Iterable[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def format_ways(ways: Iterable[Way], otherwise: str | None = None) -> str | None:
    """Write the ways that a judge has passed as alternatives, and what is said `otherwise`."""
    passed = tuple(ways)
    near = ", or ".join(dict.fromkeys(way.text for way in passed if way.near))
    texts = (f"Nearest: {near}" if near else "", *(way.text for way in passed if not way.near), otherwise)
    return "; or ".join(filter(None, dict.fromkeys(texts))) or None


class EnvspecError(Exception):
    """The base of envspec's errors: a message for people, an optional hint (what to do next), and an exit code.

    about    the packages that it is about, where whoever raised it knew them
    key      the key of the spec that it is about (`pip.indexes.internal`), likewise
    targets  the names of the targets that it is said of, likewise
    code     of the finding that it tells, likewise
    ways     untried changes of the spec: `tell_ways` makes the hint of those that work
    beside   the refusals of other targets at the same time
    findings  the findings up to it (`envspec.base.finding.carrying`), for people
    """

    exit_code: ClassVar[int] = 1
    about: tuple[str, ...] = ()
    key: str = ""
    targets: tuple[str, ...] = ()
    code: str = ""
    ways: tuple[Way, ...] = ()
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
        """The packages of the spec that it is about, as far as it names them."""
        return self.about

    def with_packages(self: _Error, *packages: str) -> _Error:
        """Name the packages that it is about, if it doesn't yet; gives it back."""
        self.about = self.about or packages
        return self

    def avoiding(self: _Error, name: str, version: str) -> _Error:
        """Add, as an untried way, any other release of a package, unless it has no version that a bound could name;
        gives it back."""
        from packaging.version import InvalidVersion, Version

        self.about = self.about or (name,)
        with suppress(InvalidVersion):
            self.ways = (*self.ways, Way(bounds=(f"{name}!={Version(version)}",)))
        return self

    def tell_ways(self, passed: Iterable[Way]) -> None:
        """Put the ways that work before what the hint says."""
        self.hint, self.ways = format_ways(passed, self.hint), ()


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
    """No set of versions satisfies the spec for a target."""

    code = "unsatisfiable"
    conflict: Conflict = Conflict()

    @property
    def packages(self) -> tuple[str, ...]:
        return self.about or tuple(sorted(self.conflict.packages))

    @property
    def requested(self) -> tuple[str, ...]:
        return self.about or self.conflict.requested


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
    """Give the errors of a list, each with its own place and hint; any other error, and what is refused beside it."""
    return error.errors if isinstance(error, SpecErrors | InfeasibleTargets) else (error, *error.beside)


def together(errors: Iterable[EnvspecError]) -> EnvspecError:
    """Give one error of several, each told once; of one, itself."""
    every = {str(error): error for error in errors}
    spec_errors = [error for error in every.values() if isinstance(error, SpecError)]
    if len(every) == 1:
        return next(iter(every.values()))
    return SpecErrors(spec_errors) if len(spec_errors) == len(every) else InfeasibleTargets(every.values())


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
    """An index didn't answer, or answered wrongly. The message holds the URL without credentials.
    `stray` is what couldn't be fetched by its own address.
    """

    stray: Stray | None = None


class ToolError(OutsideError):
    """A program that envspec runs is missing or failed."""


class StorageError(OutsideError):
    """A file can't be read or written."""


class InternalError(EnvspecError):
    """envspec contradicts itself."""

    exit_code = 3
