"""The lists of a target's inputs in a lock's file: the common items of all targets stand once, in `[env]`.

Each list has a key, a field of `TargetInputs`, and the form of its items: a text, or a table of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from envspec.lock.model import SpecInputs, TargetInputs
from envspec.lock.toml_text import string
from envspec.packages.stated import StatedMetadata


class Listed(Struct, frozen=True):
    """A list of inputs. `columns` are the keys of its items, each a table; without columns, each item is a text."""

    key: str
    field: str
    columns: tuple[str, ...] = ()

    def of(self, inputs: TargetInputs) -> tuple[Any, ...]:
        return tuple(getattr(inputs, self.field))

    def line(self, row: Any) -> str:
        """Write an item as TOML."""
        if not self.columns:
            return string(row)
        return f"{{ {', '.join(f'{name} = {string(text)}' for name, text in zip(self.columns, row, strict=True))} }}"

    def value(self, row: Any) -> Any:
        """Give an item as plain values: a text, or a table."""
        return dict(zip(self.columns, row, strict=True)) if self.columns else row

    def read(self, value: Any) -> Any:
        """Read an item back from its plain values."""
        return tuple(value[name] for name in self.columns) if self.columns else value


LISTS = (
    Listed("requirements", "requirements"),
    Listed("conda-requirements", "conda_requirements"),
    Listed("constraints", "constraints"),
    Listed("overrides", "overrides", ("requirement", "reason")),
    Listed("find-links", "find_links", ("name", "page")),
    Listed("addresses", "addresses", ("name", "address")),
    Listed("accept", "accept", ("code", "reason")),
)
"""The lists, in the file's order."""

TABLES = {listed.key: listed.columns for listed in LISTS if listed.columns}
"""The keys of those lists that hold tables, with the tables' keys."""

Shared = Mapping[str, frozenset[Any]]
"""The items that every target has, by list."""


def shared_items(targets: Sequence[TargetInputs]) -> Shared:
    """Find what every target has of each list."""
    return {
        listed.key: frozenset.intersection(*(frozenset(listed.of(inputs)) for inputs in targets)) for listed in LISTS
    }


def write_lists(write: Callable[[str, list[str]], None], items: Callable[[Listed], Any]) -> None:
    """Hand each list's key, and its items as TOML in their order, to `write`. `items` gives a list's items."""
    for listed in LISTS:
        write(listed.key, [listed.line(row) for row in sorted(items(listed))])


def join(env: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Read a target's lists back, by field: the common items and its own, sorted as when they were locked."""
    return {
        listed.field: tuple(
            sorted(listed.read(value) for value in (*env.get(listed.key, ()), *table.get(listed.key, ())))
        )
        for listed in LISTS
    }


REQUIREMENTS: Mapping[str, Callable[[Any], tuple[str, ...]]] = {
    "requirements": tuple,
    "constraints": tuple,
    "overrides": lambda value: tuple(override["requirement"] for override in value),
}
"""Of each list whose texts must be requirements, for rules read them: how to find these in its value."""


KEYS = {
    "name": str, "exclude-newer": str, "image-python": str, "allow-source": list, "metadata": list,
    "without-corrections": list, "channels": list, **dict.fromkeys((listed.key for listed in LISTS), list),
    "sources": dict,
}  # fmt: skip
"""The table's keys and their types."""

_METADATA = {"name": str, "versions": str, "dependencies": list}

Check = Callable[[Any, Mapping[str, type], tuple[str, ...]], Any]


def metadata_table(stated: StatedMetadata) -> dict[str, object]:
    """Return stated metadata as values of an inline table."""
    versions = {"versions": stated.version} if stated.version else {}
    return {"name": stated.name, **versions, "dependencies": list(stated.dependencies)}


def same_metadata(targets: Sequence[TargetInputs]) -> bool:
    """Return whether all targets have the same metadata, in the same order: then it stands in `[env]`."""
    return len({inputs.metadata for inputs in targets}) == 1


def metadata_of(tables: Sequence[Any], check: Check) -> tuple[StatedMetadata, ...]:
    """Read stated metadata. `check` checks the keys of one of its tables, or raises."""
    stated = [check(table, _METADATA, ("name", "dependencies")) for table in tables]
    return tuple(
        StatedMetadata(table["name"], table.get("versions", ""), tuple(table["dependencies"])) for table in stated
    )


def inputs_of(env: Mapping[str, Any]) -> SpecInputs:
    """Read the inputs of a table whose keys are checked."""
    return SpecInputs(
        exclude_newer=env.get("exclude-newer"),
        allow_source=tuple(env.get("allow-source", ())),
        without_corrections=tuple(env.get("without-corrections", ())),
        sources=env.get("sources", {}),
        channels=tuple(env.get("channels", ())),
        image_python=env.get("image-python"),
    )
