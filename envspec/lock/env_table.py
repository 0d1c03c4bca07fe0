"""The lock's `[env]` table: what all targets were solved from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envspec.lock.listed import LISTS
from envspec.lock.model import SpecInputs, TargetInputs
from envspec.packages.stated import StatedMetadata

KEYS = {
    "name": str, "exclude-newer": str, "image-python": str, "allow-source": list, "metadata": list,
    "without-corrections": list, "channels": list, **dict.fromkeys((one.key for one in LISTS), list), "sources": dict,
}  # fmt: skip
"""The table's keys and their types."""

_METADATA = {"name": str, "versions": str, "dependencies": list}

Check = Callable[[Any, Mapping[str, type], tuple[str, ...]], Any]


def metadata_table(one: StatedMetadata) -> dict[str, object]:
    """Return stated metadata as values of an inline table."""
    versions = {"versions": one.version} if one.version else {}
    return {"name": one.name, **versions, "dependencies": list(one.dependencies)}


def same_metadata(targets: Sequence[TargetInputs]) -> bool:
    """Say whether all targets have the same metadata, in the same order: then it stands in `[env]`."""
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
