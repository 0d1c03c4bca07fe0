"""NVIDIA GPUs by product name, architecture or compute capability."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from envspec.facts import gpus
from envspec.facts.compute_capability import is_integrated, parse, sm_of
from envspec.facts.tables import read, records, words

# GPU names as drivers, clouds and people write them, taken apart: brand, product, form factor, slice.
#
# What a driver prints is the product with words around it ("NVIDIA H100 80GB HBM3", "NVIDIA B300 SXM6 AC"), a slice
# of one ("NVIDIA A100-SXM4-80GB MIG 1g.10gb") or a virtual GPU ("GRID T4-16Q", "NVIDIA A100D-80C").

_BRANDS = frozenset({"nvidia", "geforce", "tesla", "quadro", "grid"})
_EXTRAS = re.compile(
    r"pcie|sxm\d?|hbm\d?e?|nvl\d*|\d+gb|\d+g|gpu|generation|max|q|d|v2|server|workstation|edition|sff|nvgpu"
    r"|ac|hgx|dgx|dgxs|cnx|fhhl|lc|ls|active|lhr|oem|with|design|refresh|developer|kit|devkit|module"
    r"|engineering|reference|embedded|mega|series|shared"
)
"""Words of a device's name that aren't part of the product's: form factor, memory, edition."""

_ARCHITECTURES = frozenset(
    {"kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "lovelace", "hopper", "blackwell", "rubin"}
)
PORTABLE = frozenset({"laptop", "mobile", "notebook"})
"""Words for a laptop's GPU, which has the architecture of the card of its name, and not its memory."""

_LISTED = re.compile(r"gpu \d+: (?P<name>.+?)(?: \(uuid: [^)]*\))?", re.IGNORECASE)
"""A line of `nvidia-smi -L`."""
_MIG = re.compile(r"[\s-]+mig\b.*$", re.IGNORECASE)
_VGPU = re.compile(r"-\d+(?:-\d+)?(?:q|cme|c|b\d?|a)$", re.IGNORECASE)
"""The profile of a virtual GPU: its memory in GB and its series (NVIDIA vGPU software, virtual GPU types); before the
memory, the number of slices of one that lies on MIG."""

_BOARD = re.compile(r"(?<=\d)(?:dx|d|xl|xm|x|l|c|p)$", re.IGNORECASE)
"""Endings that the name of a virtual GPU adds to its board's: A100D, H100XM, V100DX, RTX8000P."""

_JETSON = re.compile(r"jetson|tegra|xavier|orin|thor|nano|\btx[12]\b|drive", re.IGNORECASE)

_OTHER_MAKERS = {
    "AMD": re.compile(r"\bmi\d{2,3}[a-z]?\b|instinct|radeon|\brx ?\d{3,4}|gfx\d|\brocm\b|\bamd\b", re.IGNORECASE),
    "Intel": re.compile(
        r"\barc\b|gaudi|ponte vecchio|\bxpu\b|data ?cent(?:er|re) gpu (?:max|flex)|intel", re.IGNORECASE
    ),
    "Apple": re.compile(r"\bapple\b|\bmps\b|\bm[1-9](?: (?:pro|max|ultra))?$", re.IGNORECASE),
    "Google": re.compile(r"\btpu\b|\btpu-?v\d", re.IGNORECASE),
}


@lru_cache(maxsize=1024)
def words_of(name: str) -> tuple[str, ...]:
    """Split a name into words without brands: "RTX4070Ti" is rtx, 4070, ti."""
    text = re.sub(r"(\d)\s+gb\b", r"\1gb", name.lower())
    text = re.sub(r"\b(rtx|gtx|titan)(?=\d)", r"\1 ", text)
    text = re.sub(r"(?<=\d{4})(?=ti|super)|(?<=ti)(?=super)|(?<=[ahlv]\d{3})(?=\d+gb)", " ", text)
    return tuple(t for t in re.split(r"[^a-z0-9]+", text) if t and t not in _BRANDS)


def without_memory(own: Iterable[str]) -> list[str]:
    """Leave a product's memory out of its words: "A100" stands for all of its sizes."""
    return [word for word in own if not re.fullmatch(r"\d+gb", word)]


def boards(name: str) -> tuple[str, ...]:
    """Give the names of the board that a slice or a virtual GPU may lie on, the likeliest first; a board is itself."""
    listed = _LISTED.fullmatch(name.strip())
    whole = _MIG.sub("", listed["name"] if listed else name.strip())
    board = _VGPU.sub("", whole)
    return (whole,) if board == whole else tuple(dict.fromkeys((board, _BOARD.sub("", board))))


def is_consistent(rest: Iterable[str], architecture: str) -> bool:
    """Return whether words beside a product's own say nothing that contradicts it: its form factor, its memory, its own
    architecture. A "Quadro RTX 8000 Ada" isn't the card of 2018."""
    own = architecture.lower().split()
    return all(word in own or word == "lovelace" for word in rest if word in _ARCHITECTURES) and all(
        word in _ARCHITECTURES or word in PORTABLE or _EXTRAS.fullmatch(word) for word in rest
    )


@lru_cache(maxsize=1024)
def names_jetson(name: str) -> bool:
    """Return whether a name is of a GPU on one chip with the CPU (Jetson, DRIVE), known or not."""
    return _JETSON.search(name) is not None


def other_maker(name: str) -> str | None:
    """Name the maker of a GPU that isn't NVIDIA's: "AMD", "Intel", "Apple", "Google"; None for all other names."""
    return next((maker for maker, pattern in _OTHER_MAKERS.items() if pattern.search(name.strip())), None)


def _numbers(words: str) -> set[str]:
    return {word for word in words.split() if any(map(str.isdecimal, word))}


@lru_cache(maxsize=1024)
def _series(name: str) -> str | None:
    """The letters before the number of a GPU's name: "h" of H100, "gb" of GB200, "a" of RTX A5000; None without."""
    match = re.match(r"(?:rtx|gtx)?(?!sm|rtx|gtx)([a-z]{1,2})\d", "".join(words_of(name)))
    return match[1] if match else None


def _class_of(name: str) -> str | None:
    return "jetson" if names_jetson(name) else _series(name)


_COLUMNS = {"memory_gib": "memory", "bandwidth_gbs": "bandwidth", "sources": "source"}


class Capability(Struct, frozen=True, rename=lambda name: _COLUMNS.get(name, name.replace("_", "-"))):
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


class Gpu(Struct, frozen=True, rename=_COLUMNS):
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
    platform: str | None = None
    """The only platform that it exists on: that of the CPU on its chip or board. None for a card."""

    @property
    def datacentre(self) -> bool:
        return self.kind == "datacentre"

    @property
    def forward_compatible(self) -> bool:
        """Return whether NVIDIA's images let it in by forward compatibility: their brands are those of data-centre GPUs
        and of Quadro and RTX cards (NVIDIA: "Data Center GPUs", "Select NGC Server Ready SKUs of RTX cards")."""
        return self.kind in ("datacentre", "workstation") and not self.integrated

    @property
    def integrated(self) -> bool:
        """Return whether it shares a chip with the CPU (Jetson, DRIVE)."""
        return is_integrated(self.capability)

    @property
    def sm(self) -> str:
        return sm_of(self.capability)


@cache
def capabilities() -> dict[str, Capability]:
    """Every compute capability in the tables, by name (`"9.0"`), oldest first."""
    return {row.capability: row for row in records(Capability, read("gpus")["capabilities"])}


@cache
def _first_drivers() -> dict[str, tuple[str, ...]]:
    return {row["name"]: words(row["first"]) for row in read("gpus")["drivers"]}


@cache
def products() -> tuple[Gpu, ...]:
    """Every product, by capability."""
    table, drivers = capabilities(), _first_drivers()
    known = (
        {
            "architecture": table[row["capability"]].architecture,
            "drivers": drivers.get(row["name"], ()),
            "platform": "linux-aarch64" if is_integrated(row["capability"]) else None,
        }
        | row
        for row in read("gpus")["gpus"]
    )
    return records(Gpu, known)


@lru_cache(maxsize=1024)
def find(name: str) -> tuple[Gpu, ...]:
    """Find the GPUs that a name stands for; empty if it is unknown.

    Takes a product ("H100", "rtx-5090", "A100" for both of its memory sizes), a device's name as the driver prints it
    ("NVIDIA H100 80GB HBM3", with a MIG slice or a vGPU's profile), an architecture ("hopper") or a capability ("9.0",
    "sm_90"). Case, spaces, dashes and underscores don't matter. An architecture doesn't stand for Jetson modules of the
    same name.
    """
    return _capability(name) or _architecture(name) or (() if meanings(name) else _product(name))


def meanings(name: str) -> tuple[str, ...]:
    """List the products that an unclear name may mean: "RTX 6000" is of Turing, Ada and Blackwell. Empty for others."""
    return () if "quadro" in name.lower() else _unclear().get("".join(words_of(name)), ())


@cache
def _unclear() -> dict[str, tuple[str, ...]]:
    return {"".join(words_of(row["name"])): tuple(row["means"]) for row in read("gpus").get("unclear", ())}


class MachineType(Struct, frozen=True, rename={"sources": "source"}):
    """A family of a cloud's machine types, and the GPU that they have; None where the tables don't know it."""

    cloud: str
    family: str
    gpu: str | None = None
    sources: tuple[str, ...] = ()


_MACHINES = (
    ("AWS", re.compile(r"(?:ml\.)?([a-z]{1,4}\d[a-z0-9-]*)\.(?:\d*x?large|metal[a-z0-9-]*|small|medium)")),
    ("Azure", re.compile(r"(?:standard|basic)_([a-z]+)\d+(?:-\d+)?([a-z0-9]*(?:_[a-z0-9]+)*)")),
    (
        "Google Cloud",
        re.compile(r"([a-z]\d+[a-z]?-(?:[a-z]+gpu|standard|highmem|highcpu|ultramem|megamem))-\d+g?(?:-.*)?"),
    ),
)
"""The spellings of clouds' machine types."""


def machine(name: str) -> MachineType | None:
    """Read a name as a cloud's machine type; None for one that isn't written as any."""
    for cloud, form in _MACHINES:
        if match := form.fullmatch(name.strip().lower()):
            family = "".join(match.groups())
            rows = records(MachineType, read("gpus")["machines"])
            return next((row for row in rows if (row.cloud, row.family) == (cloud, family)), MachineType(cloud, family))
    return None


class GpuSystem(Struct, frozen=True, rename={"sources": "source"}):
    """A system of GPUs whose maker wants a `driver` or a newer one, of its branch."""

    name: str
    gpu: str
    driver: str
    sources: tuple[str, ...]


@cache
def systems() -> tuple[GpuSystem, ...]:
    """Every system in the table."""
    return records(GpuSystem, read("gpus")["systems"])


def capability_of(name: str) -> str | None:
    """Find the compute capability of a GPU ("9.0"). None if the name is unknown or stands for several."""
    capabilities = {gpu.capability for gpu in find(name)}
    return capabilities.pop() if len(capabilities) == 1 else None


def on_platform(name: str, platform: str) -> tuple[Gpu, ...]:
    """Find the GPUs that a name stands for on a platform: "hopper" isn't GH200 on linux-64. Empty where none exists
    there."""
    return tuple(gpu for gpu in find(name) if gpu.platform in (None, platform))


@lru_cache(maxsize=1024)
def nearest(name: str, most: int = 3) -> tuple[str, ...]:
    """Find the known names nearest to an unknown one, or those that an unclear one may mean. None of another class: a
    Jetson is never taken for a card, nor an H for an A. Empty where nothing is near, and for another maker's GPU."""
    from difflib import get_close_matches

    if means := meanings(name):
        return means[:most]
    if other_maker(name):
        return ()
    requested = " ".join(words_of(name)) or name.lower().strip()
    own = _class_of(name)
    candidates = _names_by_words(own) if own or words_of(name)[:1] in (("rtx",), ("gtx",)) else _names_by_words()
    near = get_close_matches(requested, candidates, n=4 * most, cutoff=0.6)
    # the number says more than what follows it: an "RTX 5090 Ti" is nearer to the RTX 5090 than to the 5070 Ti
    near.sort(key=lambda candidate: not _numbers(candidate) & _numbers(requested))
    return tuple(dict.fromkeys(candidates[candidate] for candidate in near[:most]))


@lru_cache(maxsize=1024)
def _names_by_words(gpu_class: str | None = "") -> dict[str, str]:
    """List the products, architectures and capabilities that an unknown name of a class may have meant, by their words;
    without a class all but Jetsons."""
    architectures = (row.architecture.lower() for row in capabilities().values())
    short_names = (re.sub(r"^(GeForce|Quadro) ", "", gpu.name) for gpu in products())
    names = (*short_names, *architectures, *map(sm_of, capabilities()))
    in_class = (name for name in names if (_class_of(name) == gpu_class if gpu_class != "" else not names_jetson(name)))
    return {" ".join(words_of(name)) or name.lower(): name for name in in_class}


def _capability(name: str) -> tuple[Gpu, ...]:
    name = name.strip()
    # "100" is likelier a product's number than 10.0
    architecture = None if name.isdecimal() else parse(name)
    if architecture is None:
        return ()
    capability = architecture.capability
    matches = tuple(gpu for gpu in products() if gpu.capability == capability)
    entry = capabilities().get(capability)
    if matches or not entry:
        return matches
    return (Gpu(sm_of(capability), capability, entry.architecture, "architecture", sources=entry.sources),)


def _architecture(name: str) -> tuple[Gpu, ...]:
    architecture = " ".join(name.lower().replace("ada lovelace", "ada").replace("_", " ").replace("-", " ").split())
    names = {c.architecture.lower() for c in capabilities().values()}
    if architecture not in names:
        return ()
    cards = [gpu for gpu in products() if f"{gpu.architecture.lower()} ".startswith(f"{architecture} ")]
    return tuple(gpu for gpu in cards if gpu.kind != "embedded")


def _product(name: str) -> tuple[Gpu, ...]:
    name = name.strip()
    same = next((gpu for gpu in products() if gpu.name == name), None)
    same = same or _by_name().get(name.lower())
    if same:
        return (same,)
    for board in boards(name):
        if matches := _by_joined_words().get("".join(words_of(board))) or _device(board):
            return matches
    return ()


def _device(name: str) -> tuple[Gpu, ...]:
    """Find the product in a longer device name: the one that shares most words with it, if the others fit it."""
    name_words = words_of(name)
    words, sizes = set(name_words), {int(word[:-2]) for word in name_words if re.fullmatch(r"[0-9]{1,9}gb", word)}
    best: list[Gpu] = []
    score = 0
    rows = (row for word in words for row in _rows_by_first_word().get(word, ()))
    for _, gpu, own in sorted(rows, key=itemgetter(0)):
        if len(own) < score or not words.issuperset(own):
            continue
        if is_consistent([word for word in name_words if word not in own], gpu.architecture):
            best = [*best, gpu] if len(own) == score else [gpu]
            score = len(own)
    best = list(dict.fromkeys(best))
    fitting = tuple(gpu for gpu in best if sizes & set(gpu.memory_gib))
    if not fitting:  # a size that the tables don't have yet, of which the name says the memory alone
        memory = tuple(sorted(sizes))
        fitting = tuple(
            replace(gpu, memory_gib=memory, bandwidth_gbs=None) if memory and gpu.memory_gib else gpu for gpu in best
        )
    if gpus.PORTABLE & set(name_words):  # its chip has the desktop card's architecture, not its memory
        return tuple(replace(gpu, memory_gib=(), bandwidth_gbs=None) for gpu in fitting)
    return fitting


@cache
def _by_name() -> dict[str, Gpu]:
    """The products by each name that stands for one product alone, so that such a name needs no splitting. "a100"
    stands for two and isn't here."""
    return {gpu.name.lower(): gpu for gpu in products()}


@cache
def _by_joined_words() -> dict[str, tuple[Gpu, ...]]:
    """The products by their names without spaces."""
    by_words: dict[str, dict[Gpu, None]] = {}
    for gpu in products():
        for own in _names(gpu):
            by_words.setdefault("".join(own), {})[gpu] = None
    return {joined: tuple(gpus) for joined, gpus in by_words.items()}


@cache
def _rows_by_first_word() -> dict[str, list[tuple[int, Gpu, list[str]]]]:
    """The products with the words of each of their names, in the tables' order."""
    by_word: dict[str, list[tuple[int, Gpu, list[str]]]] = {}
    for number, (gpu, own) in enumerate((product, own) for product in products() for own in _names(product)):
        by_word.setdefault(own[0], []).append((number, gpu, own))
    return by_word


def _names(gpu: Gpu) -> list[list[str]]:
    """The words of each name of a product, without memory size."""
    names = [words_of(name) for name in (gpu.name, *gpu.aliases)]
    names.append(tuple(word for word in names[0] if word != "blackwell"))
    return [own for own in map(without_memory, names) if own]
