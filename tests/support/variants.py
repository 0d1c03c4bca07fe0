"""Variant wheels (PEP 825) and the files about them, as an index has them: real wheels with a `variant.json`."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from support.packages import Dist, wheel

SCHEMA = "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"
"""The schema that uv 0.13.8 reads behind its preview feature."""

Properties = Mapping[str, Mapping[str, Sequence[str]]]
"""Namespace → feature → values."""

PROVIDERS: Mapping[str, Any] = {
    "nvidia": {
        "requires": ["nvidia-variant-provider"],
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
    },
    "x86_64": {"requires": ["x86-64-variant-provider"]},
    "aarch64": {"requires": ["aarch64-variant-provider"]},
    "blas": {
        "static-properties": {"lib": ["openblas", "mkl"], "threads": ["omp", "none"]},
        "feature-order": ["threads", "lib"],
    },
}
"""The providers that uv has built in, and one that lists its values."""


def cuda(version: str, *architectures: int) -> Properties:
    """The properties of a build for a CUDA and some architectures."""
    arches = [f"{one}_real" for one in architectures]
    return {"nvidia": {"cuda_version_lower_bound": [version], **({"sm_arch": arches} if arches else {})}}


def document(
    variants: Mapping[str, Properties], namespaces: Sequence[str] = ("nvidia",), providers: object = None
) -> bytes:
    """A file about variants."""
    known = {name: PROVIDERS[name] for name in namespaces if name in PROVIDERS}
    said = {"$schema": SCHEMA, "default-priorities": {"namespace": list(namespaces)}, "variants": variants}
    return json.dumps({**said, "providers": known if providers is None else providers}).encode()


def variant_wheel(
    name: str,
    version: str,
    label: str,
    properties: Properties,
    *requires: str,
    namespaces: Sequence[str] = ("nvidia",),
    files: Mapping[str, bytes] | None = None,
    tag: str = "py3-none-any",
) -> Dist:
    """A wheel of a variant, which has its label in a module of its own."""
    stem = name.replace("-", "_")
    inside = {
        f"{stem}-{version}.dist-info/variant.json": document({label: properties}, namespaces),
        f"{stem}_label.py": f"label = {label!r}\n".encode(),
        **(files or {}),
    }
    made = wheel(name, version, *requires, files=inside, tag=tag)
    return replace(made, file=f"{made.file.removesuffix('.whl')}-{label}.whl")


def about(
    name: str,
    version: str,
    variants: Mapping[str, Properties],
    namespaces: Sequence[str] = ("nvidia",),
    providers: object = None,
) -> Dist:
    """The file about a release's variants."""
    file = f"{name.replace('-', '_')}-{version}-variants.json"
    return Dist(name, version, file, document(variants, namespaces, providers), None)


def release(
    name: str,
    version: str,
    variants: Mapping[str, Properties],
    *requires: str,
    namespaces: Sequence[str] = ("nvidia",),
    tag: str = "py3-none-any",
) -> list[Dist]:
    """All files of a release with these variants."""
    wheels = [
        variant_wheel(name, version, label, properties, *requires, namespaces=namespaces, tag=tag)
        for label, properties in variants.items()
    ]
    return [*wheels, about(name, version, variants, namespaces)]
