"""target.json: the target's slice of the lock, its pins, and how their versions are compared."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, NamedTuple, Optional, Tuple


def slice_digest(lock: dict[str, Any]) -> str:
    """Return the digest of a slice's values but the schema's number, as envspec gives it."""
    values = {key: value for key, value in lock.items() if key != "lock-version"}
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def read_target(path: str) -> Any:
    """target.json. `parts` names the files with what the slice says of packages: in images that envspec made itself,
    one of each layer; in those of recipes, by kind, what they are installed from. They lie beside it; recipes have them
    one folder above. Raises OSError, ValueError.
    """
    with open(path, encoding="utf-8") as file:
        target = json.load(file)
    if not isinstance(target, dict) or "parts" not in target:
        return target
    try:
        parts, folder = target.pop("parts"), os.path.dirname(path)
        for kind in parts if isinstance(parts, dict) else ():
            rows = [row for name in parts[kind] for row in read_rows(folder, name)]
            target["lock"][kind] = sorted(rows, key=lambda row: str(row["name"]))
        for name in parts if isinstance(parts, list) else ():
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                part = json.load(file)
            for kind, rows in part.pop("lock").items():
                target["lock"][kind] = sorted(target["lock"].get(kind, []) + rows, key=lambda row: str(row.get("name")))
            target.update(part)
        for kind, name in target.pop("direct", ()):
            next(row for row in target["lock"][kind] if row["name"] == name)["direct"] = True
    except (AttributeError, KeyError, StopIteration, TypeError) as error:
        raise ValueError("its parts are those of no slice: %s" % error) from None
    target["lock_digest"] = slice_digest(target["lock"])
    return target


def read_rows(folder: str, name: str) -> list[dict[str, Any]]:
    """Read the slice's words on each package in a file of requirements, behind its line. Raises OSError, ValueError."""
    own = os.path.join(folder, name)
    with open(own if os.path.exists(own) else os.path.join(folder, os.pardir, name), encoding="utf-8") as file:
        rows = (line.partition("  # ")[2] for line in file)
        return [json.loads(row) for row in rows if row]


class Pin(NamedTuple):
    """A package of the target."""

    kind: str
    name: str
    version: str
    build: Optional[str]
    channel: Optional[str]
    provides: Tuple[str, ...]


def pins(lock: dict[str, Any]) -> list[Pin]:
    """Return the packages of a target's slice of the lock, behind those that its base has ("provided")."""
    locked = []
    for kind in ("provided", "conda", "pip"):
        for package in lock.get(kind, []):
            provides = tuple(package.get("provides", ()))
            version, build = package.get("version", ""), package.get("build")
            locked.append(Pin(kind, package["name"], version, build, package.get("index"), provides))
    return locked


def locked_torch(lock: dict[str, Any]) -> Pin | None:
    for pin in pins(lock):
        if (pin.kind, pin.name) in (("pip", "torch"), ("conda", "pytorch"), ("provided", "torch")):
            return pin
    return None


FRAMEWORKS = {
    "torch": r"torch|pytorch(-(gpu|cpu))?",
    "jax": r"jax",
    "tensorflow": r"tensorflow(-(cpu|gpu|intel))?",
    "onnxruntime": r"onnxruntime(-gpu)?",
    "cupy": r"cupy(-cuda\d+x)?",
    "rapids": r"(cudf|cuml)(-cu\d+)?",
}
"""The frameworks that have checks, and the packages that bring each."""


def frameworks(lock: dict[str, Any]) -> dict[str, str]:
    """Return the frameworks of a target's slice of the lock, each with its version."""
    versions = {canonical(name): pin.version for pin in pins(lock) for name in (pin.name, *pin.provides)}
    by_framework = {key: [name for name in versions if re.fullmatch(FRAMEWORKS[key], name)] for key in FRAMEWORKS}
    return {key: versions[names[0]] for key, names in by_framework.items() if names}


def is_direct(lock: dict[str, Any], framework: str) -> bool:
    """Return whether the spec itself asks for a framework, and no other package brought it."""
    rows = [*lock.get("pip", []), *lock.get("conda", [])]
    return any(row.get("direct") and re.fullmatch(FRAMEWORKS[framework], canonical(row["name"])) for row in rows)


def canonical(name: str) -> str:
    """Return a distribution's name as the lock has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def same_version(first: str, second: str) -> bool:
    """Return whether two spellings are one version: "1.0" and "1.0.0", "2.9.1+CU128" and "2.9.1+cu128"."""
    return plain_version(first) == plain_version(second)


def plain_version(text: str) -> str:
    public, _, local = text.strip().lower().lstrip("v").partition("+")
    release = re.match(r"(?:\d+!)?\d+(?:\.\d+)*", public)
    if release:
        rest = re.sub(r"[-_.]+", "", public[release.end() :])
        public = re.sub(r"(?<=\d)(?:\.0+)+$", "", re.sub(r"\b0+(?=\d)", "", release.group())) + rest
    return public + ("+" + re.sub(r"[-_]", ".", local) if local else "")


def numbers(version: str) -> tuple[int, ...]:
    """Return a version as numbers: "525.60.13" is (525, 60, 13)."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:4]) or (0,)
