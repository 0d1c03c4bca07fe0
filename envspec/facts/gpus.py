"""NVIDIA GPUs by product name, architecture or compute capability."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from envspec.facts import gpu_names
from envspec.facts.compute_capability import is_integrated, parse, sm_of
from envspec.facts.tables import read, words


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
    drivers: tuple[str, ...] = ()
    """The first driver of each branch that lists it, oldest first, up to a branch that does from its start. Empty where
    that isn't known, or its capability's branch says all."""

    @property
    def datacentre(self) -> bool:
        return self.kind == "datacentre"

    @property
    def forward_compatible(self) -> bool:
        """Whether NVIDIA's images let it in by forward compatibility: their brands are those of data-centre GPUs and of
        Quadro and RTX cards (NVIDIA: "Data Center GPUs", "Select NGC Server Ready SKUs of RTX cards")."""
        return self.kind in ("datacentre", "workstation") and not self.integrated

    @property
    def integrated(self) -> bool:
        """Whether it shares a chip with the CPU (Jetson, DRIVE)."""
        return is_integrated(self.capability)

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
def _first_drivers() -> dict[str, tuple[str, ...]]:
    return {row["name"]: words(row["first"]) for row in read("gpus")["drivers"]}


@cache
def products() -> tuple[Gpu, ...]:
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
            _first_drivers().get(row["name"], ()),
        )
        for row in read("gpus")["gpus"]
    )


@lru_cache(maxsize=1024)
def find(name: str) -> tuple[Gpu, ...]:
    """Find the GPUs that a name stands for; empty if it is unknown.

    Takes a product ("H100", "rtx-5090", "A100" for both of its memory sizes), a device's name as the driver prints it
    ("NVIDIA H100 80GB HBM3", with a MIG slice or a vGPU's profile), an architecture ("hopper") or a capability ("9.0",
    "sm_90"). Case, spaces, dashes and underscores don't matter. An architecture doesn't stand for Jetson modules of the
    same name.
    """
    return _capability(name) or _architecture(name) or _product(name)


def capability_of(name: str) -> str | None:
    """Find the compute capability of a GPU ("9.0"). None if the name is unknown or stands for several."""
    capabilities = {gpu.capability for gpu in find(name)}
    return capabilities.pop() if len(capabilities) == 1 else None


def nearest(name: str, most: int = 3) -> tuple[str, ...]:
    """Find the known names nearest to an unknown one, of its own class; empty if nothing is near."""
    known_names = [_short(gpu.name) for gpu in products()]
    known_names += [c.architecture.lower() for c in capabilities().values()]
    known_names += [sm_of(c) for c in capabilities()]
    return gpu_names.nearest(name, known_names, most)


def _capability(name: str) -> tuple[Gpu, ...]:
    name = name.strip()
    # "100" is likelier a product's number than 10.0
    architecture = None if name.isdecimal() else parse(name)
    if architecture is None:
        return ()
    capability = architecture.capability
    found = tuple(gpu for gpu in products() if gpu.capability == capability)
    entry = capabilities().get(capability)
    if found or not entry:
        return found
    return (Gpu(sm_of(capability), capability, entry.architecture, "architecture", sources=entry.sources),)


def _architecture(name: str) -> tuple[Gpu, ...]:
    wanted = " ".join(name.lower().replace("ada lovelace", "ada").replace("_", " ").replace("-", " ").split())
    names = {c.architecture.lower() for c in capabilities().values()}
    if wanted not in names:
        return ()
    cards = [gpu for gpu in products() if f"{gpu.architecture.lower()} ".startswith(f"{wanted} ")]
    return tuple(gpu for gpu in cards if gpu.kind != "embedded")


def _product(name: str) -> tuple[Gpu, ...]:
    name = name.strip()
    same = next((gpu for gpu in products() if gpu.name == name), None)
    same = same or _by_name().get(name.lower())
    if same:
        return (same,)
    for board in gpu_names.boards(name):
        joined = "".join(gpu_names.words(board))
        exact = tuple(gpu for gpu, names in _products_with_names() if any("".join(own) == joined for own in names))
        if found := exact or _device(board):
            return found
    return ()


def _device(name: str) -> tuple[Gpu, ...]:
    """Find the product in a longer device name: the one that shares most words with it, if the others fit it."""
    asked = gpu_names.words(name)
    sizes = {int(word[:-2]) for word in asked if re.fullmatch(r"\d+gb", word)}
    best: list[Gpu] = []
    score = 0
    for gpu, names in _products_with_names():
        for own in names:
            rest = [word for word in asked if word not in own]
            fits = set(own) <= set(asked) and gpu_names.is_said_around(rest, gpu.architecture)
            if fits and len(own) >= score:
                best = [*best, gpu] if len(own) == score else [gpu]
                score = len(own)
    best = list(dict.fromkeys(best))
    fitting = tuple(gpu for gpu in best if sizes & set(gpu.memory_gib)) or tuple(best)
    if gpu_names.PORTABLE & set(asked):  # its chip has the desktop card's architecture, not its memory
        return tuple(replace(gpu, memory_gib=(), bandwidth_gbs=None) for gpu in fitting)
    return fitting


@cache
def _by_name() -> dict[str, Gpu]:
    """The products by each name that stands for one product alone, so that such a name needs no splitting. "a100"
    stands for two and isn't here."""
    return {gpu.name.lower(): gpu for gpu in products()}


@cache
def _products_with_names() -> tuple[tuple[Gpu, list[list[str]]], ...]:
    """Every product with its names."""
    return tuple((gpu, _names(gpu)) for gpu in products())


def _names(gpu: Gpu) -> list[list[str]]:
    """The words of each name of a product, without memory size."""
    names = [gpu_names.words(name) for name in (gpu.name, *gpu.aliases)]
    names.append(tuple(word for word in names[0] if word != "blackwell"))
    return [own for own in map(gpu_names.without_memory, names) if own]


def _short(name: str) -> str:
    return re.sub(r"^(GeForce|Quadro) ", "", name)
