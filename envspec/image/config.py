"""The configuration and the manifest of an image: what a Dockerfile's last lines say, over what the base has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from envspec.export.metadata import ENTRYPOINT, HEALTH_CHECK, image_variables, labels
from envspec.export.plan import UID, WORKSPACE, Plan
from envspec.image.base import BaseImage
from envspec.image.layer import Descriptor, PackedLayer
from envspec.image.manifest import CONFIG, MANIFEST, oci_layer

LAYER = "envspec.layer"
KEY = "envspec.layer.key"
"""The annotations of a layer: its name, and the digest of what it is made from."""
WITHOUT = "envspec.without"
BUILT = "envspec.built"
"""The wheels that were built where the image was made, of what the lock has as source: each by its digest."""
VERSION = "envspec.version"
"""The envspec that made the image: another one may make others of the same lock."""
SBOM = "envspec.sbom"
"""The annotation with the bill of materials: in the manifest, so that it takes no layer, and no layer has to be pulled
to read it."""
SBOM_DIGEST = "envspec.sbom.digest"
_NANOSECONDS = 10**9


def config_document(
    plan: Plan, base: BaseImage, layers: Sequence[PackedLayer], more: Mapping[str, str]
) -> dict[str, Any]:
    """Make the configuration. `more` are labels beside those of recipes."""
    old = base.manifest.config
    own = old.get("config") if isinstance(old.get("config"), dict) else {}
    assert isinstance(own, dict)
    created = datetime.fromtimestamp(plan.epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    history = old.get("history") if isinstance(old.get("history"), list) else []
    config = {
        **own,
        "User": f"{UID}:{UID}",
        "WorkingDir": WORKSPACE,
        "Env": _variables(own.get("Env"), image_variables(plan)),
        "Labels": {**(own.get("Labels") or {}), **image_labels(plan, base), **more},
        "Entrypoint": list(ENTRYPOINT),
        "Healthcheck": {
            "Test": ["CMD", *HEALTH_CHECK.command],
            "Interval": HEALTH_CHECK.interval * _NANOSECONDS,
            "Timeout": HEALTH_CHECK.timeout * _NANOSECONDS,
            "StartPeriod": HEALTH_CHECK.start_period * _NANOSECONDS,
        },
    }
    config.pop("Cmd", None)
    if plan.services:
        ports: dict[str, Any] = {f"{service.port}/tcp": {} for service in plan.services}
        config["ExposedPorts"] = {**(own.get("ExposedPorts") or {}), **ports}
    platform = {name: old[name] for name in ("os", "architecture", "variant", "os.version") if name in old}
    steps = [{"created": created, "created_by": f"envspec image: {layer.name}"} for layer in layers]
    return {
        **platform,
        "created": created,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [*base.manifest.diff_ids, *(layer.diff_id for layer in layers)]},
        "history": [*(history or []), *steps],
    }


def image_labels(plan: Plan, base: BaseImage) -> dict[str, str]:
    """Make the labels of recipes, with the base that the image really has."""
    found = labels(plan)
    found["org.opencontainers.image.base.digest"] = base.digest
    if base.digest != plan.base.digest and not plan.base.name.endswith(f"@{base.digest}"):
        # wherever the same base comes from, it makes the same image
        found.pop("org.opencontainers.image.base.name", None)
    return found


def manifest_document(
    config: Descriptor, base: BaseImage, layers: Sequence[PackedLayer], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """Make the manifest: the base's layers as they are, then the image's own."""
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": Descriptor(CONFIG, config.digest, config.size).document(),
        "layers": [
            *(oci_layer(layer).document() for layer in base.manifest.layers),
            *({**one.blob.document(), "annotations": {LAYER: one.name, KEY: one.key}} for one in layers),
        ],
        "annotations": dict(sorted(annotations.items())),
    }


def _variables(old: Any, own: Mapping[str, str]) -> list[str]:
    """Put variables over those of the base, as ENV does."""
    found = dict(one.partition("=")[::2] for one in old if isinstance(one, str)) if isinstance(old, list) else {}
    return [f"{name}={value}" for name, value in {**found, **own}.items()]
