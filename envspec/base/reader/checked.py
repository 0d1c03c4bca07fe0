"""A document whose structure has been checked: what can be judged further, and every problem found so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envspec.base.errors import MOST, Place, SpecError, SpecErrors
from envspec.base.reader.document import Document
from envspec.base.reader.nodes import Table
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import violations


class Checked:
    """The sound parts of a document, so that one mistake is reported once and hides no other.

    `problem` gathers problems, and `raise_problems` raises them all.
    """

    def __init__(self, document: Document, form: Table) -> None:
        self.document = document
        self._problems: list[tuple[SpecError, str | Callable[[], str | None] | None]] = []
        found = violations(document.data, form)
        self._unusable = frozenset(violation.path for violation in found if violation.unusable)
        for violation in found:
            self.problem(violation.path, violation.message, violation.hint, at_key=violation.at_key)

    def sound(self, *path: str | int) -> bool:
        """Return whether everything at `path` and above it is usable. What is under it may not be."""
        return not any(path[:length] in self._unusable for length in range(1, len(path) + 1))

    def sound_throughout(self, *path: str | int) -> bool:
        """Return whether everything at, above and under `path` is usable."""
        return self.sound(*path) and not any(bad[: len(path)] == path for bad in self._unusable)

    def has(self, *path: str | int) -> bool:
        """Return whether the user wrote something at `path`, sound or not."""
        return path in self.document.positions

    def value(self, *path: str | int) -> Any:
        """Return the value at `path`, None where it is missing or unusable."""
        value: Any = self.document.data
        if not (self.has(*path) and self.sound(*path)):
            return None
        for part in path:
            value = value[part]
        return value

    def table(self, *path: str | int) -> dict[str, Any]:
        """Return the sound keys of a table, empty where it is missing or unusable."""
        return {str(key[-1]): value for key, value in self.children(*path)}

    def children(self, *path: str | int) -> list[tuple[Path, Any]]:
        """Return the sound keys of a table, or elements of an array, each with its path."""
        value = self.value(*path)
        if value is None:
            return []
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        return [((*path, key), child) for key, child in pairs if self.sound(*path, key)]

    def place(self, *path: str | int, at_key: bool = False) -> Place:
        return self.document.place(path, at_key=at_key)

    def problem(
        self, path: Path, message: str, hint: str | Callable[[], str | None] | None = None, *, at_key: bool = False
    ) -> None:
        """Note a problem. A hint that is a function is called only for a problem that is reported."""
        self._problems.append((SpecError(message, place=self.place(*path, at_key=at_key)), hint))

    def raise_problems(self) -> None:
        """Raise what was found: nothing, one SpecError, or SpecErrors in the file's order."""
        in_order = sorted(self._problems, key=_line_and_column)
        for error, hint in in_order[:MOST]:
            error.hint = hint() if callable(hint) else hint
        errors = [error for error, _ in in_order]
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise SpecErrors(errors)


def _line_and_column(problem: tuple[SpecError, object]) -> tuple[int, int]:
    error = problem[0]
    return (error.place.line, error.place.column) if error.place else (0, 0)
