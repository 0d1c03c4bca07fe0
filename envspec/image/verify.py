"""The check that an image is a lock's: its labels first, then its content, made anew and compared by the digests of its
layers.

A label proves nothing, for anyone can write one; where it says something else, that is answer enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from envspec import __version__
from envspec.base.finding import Finding
from envspec.export.plan import EPOCH, Plan, labels
from envspec.image.base import BaseImage
from envspec.image.build import DATES, VERSION, config_document, image_labels
from envspec.image.layer import Descriptor, LayerPlan, PackedLayer, diff_id
from envspec.image.manifest import ImageManifest

_LOCK = "envspec.lock.digest"
_BY_LABEL = ("envspec.spec", "envspec.target", _LOCK, "envspec.fingerprint")


def label_of(image: ImageManifest, name: str) -> str:
    """Give a label of an image; an empty text where it has none."""
    config = image.config.get("config")
    table = config.get("Labels") if isinstance(config, dict) else None
    value = table.get(name) if isinstance(table, dict) else None
    return value if isinstance(value, str) else ""


def by_labels(plan: Plan, image: ImageManifest) -> tuple[Finding, ...]:
    """Compare an image's labels with the lock."""
    own = labels(plan)
    findings = []
    for name in _BY_LABEL:
        value = label_of(image, name)
        if value != own.get(name, ""):
            what = f"says {value}" if value else "isn't there"
            findings.append(Finding("error", "label", f"the label {name} {what}; the lock gives {own.get(name)}"))
    return tuple(findings)


def by_content(
    plan: Plan,
    image: ImageManifest,
    base: BaseImage,
    layers: tuple[LayerPlan, ...],
    more: Mapping[str, str],
    annotations: Mapping[str, str],
    on_layer: Callable[[str], None] = lambda name: None,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> Iterator[Finding]:
    """Compute the layers anew, without writing them, and compare them and the configuration with an image's."""
    made = []
    for layer in layers:
        on_layer(layer.name)
        content = diff_id(layer, EPOCH, on_bytes)
        made.append(PackedLayer(layer.name, layer.key, Descriptor("", "", 0), content))
    names = ["the base"] * len(base.manifest.diff_ids) + [layer.name for layer in made]
    expected = [*base.manifest.diff_ids, *(layer.diff_id for layer in made)]
    actual = list(image.diff_ids)
    if len(actual) != len(expected):
        yield Finding("error", "layers", f"the image has {len(actual)} layers, and the lock gives {len(expected)}")
    for name, own, digest in zip(names, expected, actual, strict=False):
        if own != digest:
            yield Finding("error", "layer", f"the layer {name} is {digest}, and the lock gives {own}")
    config = config_document(plan, base, tuple(made), more)
    for key in sorted({*config["config"], *image.config.get("config", {})}):
        if config["config"].get(key) != image.config.get("config", {}).get(key):
            yield Finding("error", "configuration", f"{key} has another value than the lock gives{_why(image, key)}")
    # what was known is no part of the lock: another policy has to know more, or less
    recorded = {name: text for name, text in image.annotations.items() if name != DATES}
    if recorded and recorded != {**image_labels(plan, base), **more, **annotations}:
        yield Finding("error", "annotations", "its annotations aren't what the lock gives")


def _why(image: ImageManifest, key: str) -> str:
    other = label_of(image, VERSION)
    return f" (it was made by envspec {other}, and this is {__version__})" if other not in ("", __version__) else ""
