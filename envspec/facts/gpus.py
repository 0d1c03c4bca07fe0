"""NVIDIA GPUs by product name, architecture or compute capability."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from envspec.facts.compute_capability import parse, sm_of
from envspec.facts.tables import read, words

_BRANDS = frozenset({"nvidia", "geforce", "tesla", "quadro"})
_EXTRAS = re.compile(
    r"pcie|sxm\d?|hbm\d?e?|nvl|\d+gb|mig|\d+g|gpu|generation|ada|blackwell|max|q|d|server|workstation|edition|sff|nvgpu"
)
"""Words of a device's name that aren't part of the product's: form factor, memory, edition."""


@dataclass(frozen=True)
class Capability:
    """A compute capability.

    `first_cuda` and `last_cuda` bound the CUDA toolkits that compile for it, `first_driver` and `last_driver` the
    driver branches (570 for R570) that run it; None is unknown or unbounded.
    """

    capability: str
    architecture: str
    first_cuda: str | None
    last_cuda: str | None
    first_driver: int | None
    last_driver: int | None
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Gpu:
    """A product. `memory_gib` holds every size it was sold with; `bandwidth_gbs` is nominal, in GB/s."""

    name: str
    capability: str
    architecture: str
    kind: str
    """`datacentre`, `workstation`, `consumer`, `embedded` (Jetson), or `architecture` for a bare capability."""
    memory_gib: tuple[int, ...] = ()
    bandwidth_gbs: int | None = None
    aliases: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    @property
    def datacentre(self) -> bool:
        return self.kind == "datacentre"

    @property
    def sm(self) -> str:
        return sm_of(self.capability)


@cache
def capabilities() -> dict[str, Capability]:
    """Every compute capability in the tables, by name (`"9.0"`), oldest first."""
    return {
        row["capability"]: Capability(
            row["capability"],
            row["architecture"],
            row.get("first-cuda"),
            row.get("last-cuda"),
            row.get("first-driver"),
            row.get("last-driver"),
            words(row["source"]),
        )
        for row in read("gpus")["capabilities"]
    }


@cache
def known() -> tuple[Gpu, ...]:
    """Every product, by capability."""
    table = capabilities()
    return tuple(
        Gpu(
            row["name"],
            row["capability"],
            table[row["capability"]].architecture,
            row["kind"],
            tuple(row.get("memory", ())),
            row.get("bandwidth"),
            tuple(row.get("aliases", ())),
            words(row["source"]),
        )
        for row in read("gpus")["gpus"]
    )


def find(name: str) -> tuple[Gpu, ...]:
    """Find the GPUs that a name stands for; empty if it is unknown.

    Takes a product ("H100", "rtx-5090", "A100" for both of its memory sizes), a device's name as the driver prints it
    ("NVIDIA H100 80GB HBM3"), an architecture ("hopper") or a capability ("9.0", "sm_90"). Case, spaces, dashes and
    underscores don't matter. An architecture doesn't stand for Jetson modules of the same name.
    """
    return _capability(name) or _architecture(name) or _product(name)


def capability_of(name: str) -> str | None:
    """Find the compute capability of a GPU ("9.0"). None if the name is unknown or stands for several."""
    capabilities = {gpu.capability for gpu in find(name)}
    return capabilities.pop() if len(capabilities) == 1 else None


def suggest(name: str) -> str | None:
    """Find the known name nearest to a misspelt one. None if nothing is near."""
    from difflib import get_close_matches

    names = {_short(gpu.name).lower(): _short(gpu.name) for gpu in known()}
    names |= {c.architecture.lower(): c.architecture.lower() for c in capabilities().values()}
    names |= {sm_of(c): sm_of(c) for c in capabilities()}
    near = get_close_matches(name.lower().replace("-", " ").strip(), names, n=1, cutoff=0.6)
    return names[near[0]] if near else None


def _capability(name: str) -> tuple[Gpu, ...]:
    name = name.strip()
    # "100" is likelier a product's number than 10.0
    architecture = None if name.isdecimal() else parse(name)
    if architecture is None:
        return ()
    capability = architecture.capability
    products = tuple(gpu for gpu in known() if gpu.capability == capability)
    entry = capabilities().get(capability)
    if products or not entry:
        return products
    return (Gpu(sm_of(capability), capability, entry.architecture, "architecture", sources=entry.sources),)


def _architecture(name: str) -> tuple[Gpu, ...]:
    wanted = " ".join(re.split(r"[\s_-]+", name.strip().lower().replace("ada lovelace", "ada")))
    names = {c.architecture.lower() for c in capabilities().values()}
    if wanted not in names:
        return ()
    cards = [gpu for gpu in known() if f"{gpu.architecture.lower()} ".startswith(f"{wanted} ")]
    return tuple(gpu for gpu in cards if gpu.kind != "embedded")


def _tokens(name: str) -> list[str]:
    """Split a name into words without brands: "RTX4070Ti" is rtx, 4070, ti."""
    text = re.sub(r"(\d)\s+gb\b", r"\1gb", name.lower())
    text = re.sub(r"\b(rtx|gtx|titan)(?=\d)", r"\1 ", text)
    text = re.sub(r"(?<=\d{4})(?=ti|super)|(?<=ti)(?=super)|(?<=[ahlv]\d{3})(?=\d+gb)", " ", text)
    return [t for t in re.split(r"[^a-z0-9]+", text) if t and t not in _BRANDS]


def _product(name: str) -> tuple[Gpu, ...]:
    same = _by_name().get(name.strip().lower())
    if same:
        return (same,)
    joined = "".join(_tokens(name))
    exact = tuple(gpu for gpu, names in _named() if any("".join(tokens) == joined for tokens in names))
    return exact or _device(name)


def _device(name: str) -> tuple[Gpu, ...]:
    """Find the product in a longer device name: the one that shares most words with it and leaves only `_EXTRAS`."""
    asked = _tokens(name)
    laptop = "laptop" in asked
    sizes = {int(t[:-2]) for t in asked if re.fullmatch(r"\d+gb", t)}
    asked = [t for t in asked if t != "laptop"]
    best: list[Gpu] = []
    score = 0
    for gpu, names in _named():
        for own in names:
            rest = [t for t in asked if t not in own]
            if set(own) <= set(asked) and all(_EXTRAS.fullmatch(t) for t in rest) and len(own) >= score:
                best = [*best, gpu] if len(own) == score else [gpu]
                score = len(own)
    best = list(dict.fromkeys(best))
    fitting = tuple(gpu for gpu in best if sizes & set(gpu.memory_gib)) or tuple(best)
    if laptop:  # its chip has the desktop card's architecture, not its memory
        return tuple(replace(gpu, memory_gib=(), bandwidth_gbs=None) for gpu in fitting)
    return fitting


@cache
def _by_name() -> dict[str, Gpu]:
    """The products by each name that stands for one product alone, so that such a name needs no splitting. "a100"
    stands for two and isn't here."""
    return {gpu.name.lower(): gpu for gpu in known()}


@cache
def _named() -> tuple[tuple[Gpu, list[list[str]]], ...]:
    """Every product with its names."""
    return tuple((gpu, _names(gpu)) for gpu in known())


def _names(gpu: Gpu) -> list[list[str]]:
    """The words of each name of a product, without memory size: "A100" stands for both of its sizes."""
    names = [_tokens(name) for name in (gpu.name, *gpu.aliases)]
    names.append([t for t in names[0] if t != "blackwell"])
    return [[t for t in tokens if not re.fullmatch(r"\d+gb", t)] for tokens in names]


def _short(name: str) -> str:
    return re.sub(r"^(GeForce|Quadro) ", "", name)
