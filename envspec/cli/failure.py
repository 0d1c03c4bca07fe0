"""What made a command fail: its errors and its exit code, for people and as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envspec.base.errors import EnvspecError, InfeasibleTargets, OutsideError, Place, SpecErrors
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


def parts(error: EnvspecError) -> tuple[EnvspecError, ...]:
    """Give the errors of a list, each with its own place and hint; any other error alone."""
    return error.errors if isinstance(error, SpecErrors | InfeasibleTargets) else (error,)


def error_json(error: EnvspecError) -> dict[str, Any]:
    """Give an error's JSON: message, hint, and the place in a file."""
    return {"message": error.message, "hint": error.hint, **place_json(error.place)}


def place_json(place: Place | None) -> dict[str, Any]:
    """Give the JSON of a place in a file; null where there is none."""
    return {
        "file": place.file if place else None,
        "line": place.line or None if place else None,
        "column": place.column or None if place else None,
    }
