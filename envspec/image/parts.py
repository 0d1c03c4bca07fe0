"""The slice of the lock in an image: each layer of packages holds what the slice says of its own, so that a package
that moves makes one layer new. The carried check puts the parts together (`envspec_check.lock.read_target`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from envspec.export.target_json import dumps

FOLDER = "packages"
"""The folder of the parts among the carried files."""
_KINDS = ("conda", "pip", "python")
"""The lists of a slice, which its layers share out."""


@dataclass(frozen=True)
class SliceParts:
    """target.json without what its layers say, and the text of each layer's part, by the layer's name."""

    target: str
    of_layers: Mapping[str, str]

    @staticmethod
    def path(layer: str) -> str:
        """Give a part's path among the carried files."""
        return f"{FOLDER}/{layer}.json"


def split_slice(document: Mapping[str, Any], layer_of: Callable[[str, str], str]) -> SliceParts:
    """Share a `target.json` out. `layer_of` names the layer of a package, by its kind and its name.

    Beside the packages, the layer of torch gets what that torch is compiled for. The digest of the slice stands
    nowhere: whoever puts the parts together takes it of them. What the spec asks for by itself stands in target.json:
    specs with the same packages have the same parts.
    """
    whole = {name: value for name, value in document.items() if name not in ("lock_digest", "code")}
    lock = {name: value for name, value in document["lock"].items() if name not in _KINDS}
    found: dict[str, dict[str, Any]] = {}
    direct: list[list[str]] = []
    for kind in _KINDS:
        for row in document["lock"].get(kind, ()):
            layer = "python" if kind == "python" else layer_of(kind, row["name"])
            if row.get("direct"):
                direct.append([kind, row["name"]])
            own = {name: value for name, value in row.items() if name != "direct"}
            found.setdefault(layer, {"lock": {}})["lock"].setdefault(kind, []).append(own)
    found.get("torch", whole)["code"] = document["code"]
    parts = {layer: dumps(found[layer]) for layer in sorted(found)}
    names = [SliceParts.path(one) for one in parts]
    return SliceParts(dumps({**whole, "lock": lock, "parts": names, "direct": direct}), parts)
