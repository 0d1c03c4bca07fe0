"""target.json: what the preflight and the smoke check need to know of a target, without reading its lock."""

from __future__ import annotations

import json
from typing import Any

from envspec.gpu import conda_builds, torch_builds
from envspec.gpu.gpus import find
from envspec.lock.inputs import fingerprint
from envspec.lock.model import Lock, LockedTarget
from envspec.spec.model import Spec

SCHEMA = 1


def target_json(spec: Spec, lock: Lock, target: LockedTarget, lock_digest: str) -> str:
    """The text of a target's `target.json`."""
    inputs = target.inputs
    references = {
        name: {"value": one.value, "low": one.low, "high": one.high, "unit": one.unit}
        for name, one in spec.smoke.references.items()
    }
    document = {
        "schema": SCHEMA,
        "spec": spec.name,
        "target": target.name,
        "lock_digest": lock_digest,
        "fingerprint": fingerprint(lock.inputs, inputs),
        "platform": inputs.platform,
        "python": inputs.python,
        "cuda": inputs.cuda,
        "gpus": list(inputs.gpus),
        "architectures": list(target.architectures),
        "code": _code(target),
        "driver_floor": target.driver_floor,
        "services": list(spec.image.services),
        "env": sorted(spec.image.env),
        "workload": spec.smoke.workload,
        "steps": spec.smoke.steps,
        "references": references,
        "cards": _cards(inputs.gpus),
    }
    return json.dumps(document, indent=2) + "\n"


def _cards(names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The products that a target's GPUs stand for."""
    return {
        gpu.name: {
            "capability": gpu.capability,
            "bandwidth_gb_s": gpu.bandwidth_gbs,
            "memory_gib": list(gpu.memory_gib),
        }
        for name in names
        for gpu in find(name)
    }


def _code(target: LockedTarget) -> dict[str, list[str]] | None:
    """What the target's torch is compiled for: capabilities with machine code and with PTX. None where no table knows
    the build, and without CUDA."""
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
