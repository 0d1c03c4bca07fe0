"""The slice of a lock for one target, which an image or an environment carries, and its digest.

A slice is the document that `envspec.lock.write` makes of that target alone, as values: other targets, and the images
that recipes stand on, are no part of it. So changes elsewhere in the lock leave the slice as it is.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from envspec.lock.listed import LISTS, metadata_table
from envspec.lock.model import LOCK_VERSION, Lock, LockedTarget, Pin
from envspec.lock.write import artifact_table, env_head, in_order, known_fields, package_head, target_head


def slice_of(lock: Lock, target: LockedTarget) -> dict[str, Any]:
    """Return the slice, in values that JSON has: the keys and their order are those of `envspec.lock`."""
    inputs, own = lock.inputs, target.inputs
    env = {
        **env_head(lock),
        "metadata": [metadata_table(stated) for stated in own.metadata],
        "without-corrections": list(inputs.without_corrections),
        "channels": list(inputs.channels),
        # an index that moves makes no other image
        **{
            listed.key: [listed.value(row) for row in sorted(listed.of(own))]
            for listed in LISTS
            if listed.key != "addresses"
        },
        "sources": dict(sorted(inputs.sources.items())),
    }
    of_target = _drop_empty(target_head(target)) | ({} if own.inspect else {"inspect": False})
    document: dict[str, Any] = {
        "lock-version": LOCK_VERSION,
        "env": _drop_empty(env),
        "targets": {target.name: of_target},
    }
    if inputs.base is not None:
        document["base"] = {inputs.base.kind: inputs.base.place, **_drop_empty({"replace": dict(inputs.base.replace)})}
        document["inventory"] = [known_fields(base) for base in lock.bases if base.platform == own.platform]
    python = lock.python(target)
    if python is not None:
        document["python"] = [known_fields(python)]
    for kind in ("conda", "pip"):
        pins = sorted((pin for pin in target.pins if pin.kind == kind), key=lambda pin: pin.name)
        if pins:
            document[kind] = [package_row(pin) for pin in pins]
    return document


def slice_digest(document: dict[str, Any]) -> str:
    """Return `sha256:` and the digest of a slice's values, whatever the layout of the file that holds them.

    The schema's number isn't part of it: records name digests, and another schema doesn't change what is installed.
    """
    values = {key: value for key, value in document.items() if key != "lock-version"}
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def package_row(pin: Pin) -> dict[str, Any]:
    """Return a package's row in the slice."""
    wheels = None if pin.built_with is None else [known_fields(wheel) for wheel in in_order(pin.built_with)]
    return _drop_empty(
        {
            **package_head(pin),
            "direct": pin.direct,
            "provides": list(pin.provides),
            "dependencies": sorted(set(pin.dependencies)),
            "overwrites": sorted(pin.overwrites),
            "built-with": wheels,
            "artifacts": [artifact_table(pin.artifact)] if pin.artifact else [],
        }
    )


def _drop_empty(values: dict[str, Any]) -> dict[str, Any]:
    """Drop the values that the lock's file leaves out: unknown, empty and false ones. An empty build environment stays:
    it differs from an unknown one."""
    empty: tuple[object, ...] = ([], {}, False)
    return {
        name: value
        for name, value in values.items()
        if value is not None and (name == "built-with" or value not in empty)
    }
