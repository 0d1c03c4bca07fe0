"""The failure of a command: its errors and its exit code, for people and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envspec.base.errors import EnvspecError, OutsideError, Place, parts
from envspec.base.finding import Finding
from envspec.cli.console import say

SCHEMA = "envspec/error/1"


@dataclass(frozen=True)
class Failure:
    """The errors of a command that has no answer, and its exit code."""

    errors: tuple[EnvspecError, ...]
    exit_code: int

    @classmethod
    def of(cls, error: EnvspecError) -> Failure:
        """Give each error of a list by itself."""
        return cls(parts(error), error.exit_code)

    @classmethod
    def saying(cls, message: str, *, hint: str | None = None, exit_code: int = OutsideError.exit_code) -> Failure:
        """Make one of an error that isn't envspec's own."""
        return cls((EnvspecError(message, hint=hint),), exit_code)

    def document(self) -> dict[str, Any]:
        """Give the JSON document that stands for an answer (`envspec/cli/schemas/error.json`)."""
        return {"schema": SCHEMA, "exit-code": self.exit_code, "errors": [error_json(one) for one in self.errors]}


def tell(error: EnvspecError) -> None:
    """Print an error: `error: file:line:column: message`, then its hint."""
    print_failure(Failure.of(error))


def print_failure(failure: Failure) -> Failure:
    """Print what made a command fail, each error with its hint; gives it back."""
    for one in failure.errors:
        say(f"error: {one}", style="red", always=True)
        if one.hint:
            say(f"hint: {one.hint}", always=True)
    return failure


def error_json(error: EnvspecError) -> dict[str, Any]:
    """Give an error's JSON: a finding's, the hint as people read it, and the place in a file."""
    package = error.about[0] if error.about else None
    one = Finding("error", error.code, error.message, remedy=error.hint, targets=error.targets, package=package)
    return {**one.document, "code": error.code or None, "hint": error.hint, **place_json(error.place)}


def place_json(place: Place | None) -> dict[str, Any]:
    """Give the JSON of a place in a file; null where there is none."""
    return {
        "file": place.file if place else None,
        "line": place.line or None if place else None,
        "column": place.column or None if place else None,
    }
