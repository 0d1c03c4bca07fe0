"""The lock's `[env]` table: what all targets were solved from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envspec.lock.listed import LISTS
from envspec.lock.model import SpecInputs
from envspec.packages.stated import StatedMetadata

KEYS = {
    "name": str, "exclude-newer": str, "allow-source": list, "metadata": list, "without-corrections": list,
    "channels": list, **dict.fromkeys((one.key for one in LISTS), list), "sources": dict,
}  # fmt: skip
"""The table's keys and their types."""

_METADATA = {"name": str, "versions": str, "dependencies": list}


def metadata_table(one: StatedMetadata) -> dict[str, object]:
    """Return stated metadata as values of an inline table."""
    versions = {"versions": one.version} if one.version else {}
    return {"name": one.name, **versions, "dependencies": list(one.dependencies)}


def inputs_of(env: Mapping[str, Any], check: Callable[[Any, Mapping[str, type], tuple[str, ...]], Any]) -> SpecInputs:
    """Read the inputs of a table whose keys are checked. `check` does the same for the tables in it, or raises."""
    stated = [check(table, _METADATA, ("name", "dependencies")) for table in env.get("metadata", ())]
    return SpecInputs(
        exclude_newer=env.get("exclude-newer"),
        allow_source=tuple(env.get("allow-source", ())),
        metadata=tuple(
            StatedMetadata(table["name"], table.get("versions", ""), tuple(table["dependencies"])) for table in stated
        ),
        without_corrections=tuple(env.get("without-corrections", ())),
        sources=env.get("sources", {}),
        channels=tuple(env.get("channels", ())),
    )
