"""Ways out of a refusal: changes of a spec that may mend it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict
from packaging.version import InvalidVersion, Version

from envspec.base.errors import EnvspecError

_Error = TypeVar("_Error", bound=EnvspecError)


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


def avoiding(error: _Error, name: str, version: str) -> _Error:
    """Add to an error, as an untried way, any other release of a package, unless it has no version that a bound could
    name; gives the error back."""
    with suppress(InvalidVersion):
        error.ways = (*error.ways, Way(bounds=(f"{name}!={Version(version)}",)))
    return error.with_subjects(name)
