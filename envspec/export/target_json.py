"""target.json: a target's slice of the lock, and other facts for the preflight and the smoke check."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from envspec.base.errors import InputError
from envspec.export import compat
from envspec.export.environment import project_of
from envspec.facts import conda_builds, peaks, torch_builds
from envspec.facts.gpus import find, nearest
from envspec.lock.inputs import fingerprint
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.slice import slice_digest, slice_of
from envspec.spec.model import Reference, Spec

SCHEMA = 2
_BY_LINE = ("references", "cards", "lock")
"""The tables whose rows stand on lines of their own."""
_TOGETHER = {"schema", "spec", "platform", "python", "gpus", "services", "env", "workload", "steps"}
"""The facts that the next one follows on the same line."""


def target_document(spec: Spec, lock: Lock, target: LockedTarget) -> dict[str, Any]:
    """Make the content of `target.json`. `lock` is the target's slice of the lock, and `lock_digest` that slice's
    digest.
    """
    inputs = target.inputs
    own = slice_of(lock, target)
    references = {name: reference_row(reference) for name, reference in spec.smoke.references.items()}
    return {
        "schema": SCHEMA,
        "spec": spec.name,
        "target": target.name,
        "lock_digest": slice_digest(own),
        "fingerprint": fingerprint(lock.inputs, inputs),
        "platform": inputs.platform,
        "python": inputs.python,
        "cuda": inputs.cuda,
        "gpus": list(inputs.gpus),
        "architectures": list(target.architectures),
        "code": _code(target),
        "driver_floor": target.driver_floor,
        **({"forward_branches": compat.branches(spec, target)} if compat.is_wanted(spec, target) else {}),
        **({"base": _base(lock, target)} if lock.inputs.base else {}),
        **({"project": project.name} if (project := project_of(spec, target)) else {}),
        **({"fabric": spec.image.fabric} if inputs.cuda else {}),
        "services": list(spec.image.services),
        "env": sorted(spec.image.env),
        "workload": spec.smoke.workload,
        "steps": spec.smoke.steps,
        "references": references,
        "cards": cards(inputs.gpus),
        "lock": own,
    }


def _base(lock: Lock, target: LockedTarget) -> dict[str, Any]:
    """Give the contents of a target's base, and its folder: in an image, the root."""
    base = lock.inputs.base
    packages = lock.inventories[target.inputs.platform].packages
    return {"root": base.place if base and base.kind == "prefix" else "/", "packages": dict(sorted(packages.items()))}


def of_recipes(document: dict[str, Any], parts: Mapping[str, Sequence[str]]) -> str:
    """Render the `target.json` of recipes, of which no line changes with a package that moves. The slice's packages
    stand in `parts`, files by kind, behind what is installed; whoever puts them together takes the digest of all.
    """
    rest = {name: value for name, value in document.items() if name not in ("lock_digest", "fingerprint")}
    lock = {name: value for name, value in document["lock"].items() if name not in ("conda", "pip")}
    return dumps({**rest, "parts": parts, "lock": lock})


def dumps(document: dict[str, Any]) -> str:
    """Render a `target.json`: JSON with a line for each card and package, and for what belongs together."""
    out = "{"
    before = None
    for name, value in document.items():
        rows = [f"    {json.dumps(key)}: {_value(row, name)}" for key, row in value.items()] if name in _BY_LINE else []
        text = "{\n" + ",\n".join(rows) + "\n  }" if rows else json.dumps(value)
        out += f"{',' if before else ''}{' ' if before in _TOGETHER else chr(10) + '  '}{json.dumps(name)}: {text}"
        before = name
    return out + "\n}\n"


def _value(value: Any, table: str) -> str:
    """Render a table of the slice, a line for each package and each thing that the spec asks for."""
    if not isinstance(value, list):
        lists = (
            table == "lock" and isinstance(value, dict) and any(isinstance(element, list) for element in value.values())
        )
        return json.dumps(value, indent=2).replace("\n", "\n    ") if lists else json.dumps(value)
    return "[\n" + ",\n".join(f"      {json.dumps(package)}" for package in value) + "\n    ]"


def cards(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """List the products that a target's GPUs stand for, each with the forms that it is sold in and what they differ
    in.
    """
    rows: dict[str, dict[str, Any]] = {}
    for gpu in (gpu for name in names for gpu in find(name)):
        card: dict[str, Any] = {
            "capability": gpu.capability,
            "bandwidth_gb_s": gpu.bandwidth_gbs,
            "memory_gib": list(gpu.memory_gib),
        }
        rows[gpu.name] = card
        for peak in peaks.of(gpu.name):
            rates = {"tflop_s": dict(peak.tflop_s), "nvlink_gb_s": peak.nvlink_gb_s, "trust": peak.trust}
            own = {"bandwidth_gb_s": peak.bandwidth_gb_s} if peak.bandwidth_gb_s else {}
            if peak.name == gpu.name:
                card.update({**own, **rates})
            else:
                card.setdefault("forms", {})[peak.name] = {**own, **rates}
    return rows


def reference_row(reference: Reference) -> dict[str, Any]:
    """Make the entry of `target.json` for one reference: the GPUs as the names of its cards. Raises InputError for a
    GPU that no table has, on which nothing would be judged."""
    for name in reference.gpus:
        if not find(name):
            hint = (
                f"did you mean {', '.join(near)}?" if (near := nearest(name)) else "envspec gpus lists the known ones"
            )
            raise InputError(f"a reference in [smoke.references] is for an unknown GPU: {name}", hint=hint)
    own = {"gpus": list(cards(reference.gpus))} if reference.gpus else {}
    return {"value": reference.value, "low": reference.low, "high": reference.high, "unit": reference.unit, **own}


def _code(target: LockedTarget) -> dict[str, list[str]] | None:
    """Give the compute capabilities that the target's torch has machine code and PTX for. None for a build that no
    table has, and without CUDA.
    """
    inputs = target.inputs
    pip, conda = target.pin("torch", "pip"), target.pin("pytorch", "conda")
    builds: tuple[torch_builds.TorchBuild, ...] | tuple[conda_builds.CondaBuild, ...] = ()
    if inputs.cuda and pip:
        builds = torch_builds.builds(pip.version, inputs.cuda, inputs.platform)
    elif inputs.cuda and conda:
        builds = conda_builds.builds(conda.version, inputs.cuda, inputs.platform)
    if not builds:
        return None
    return {"sm": list(builds[-1].sm), "ptx": list(builds[-1].ptx)}
