"""GPU names as drivers, clouds and people write them, taken apart: brand, product, form factor, slice.

What a driver prints is the product with words around it ("NVIDIA H100 80GB HBM3", "NVIDIA B300 SXM6 AC"), a slice of
one ("NVIDIA A100-SXM4-80GB MIG 1g.10gb") or a virtual GPU ("GRID T4-16Q", "NVIDIA A100D-80C").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_BRANDS = frozenset({"nvidia", "geforce", "tesla", "quadro", "grid"})
_EXTRAS = re.compile(
    r"pcie|sxm\d?|hbm\d?e?|nvl\d*|\d+gb|\d+g|gpu|generation|max|q|d|v2|server|workstation|edition|sff|nvgpu"
    r"|ac|hgx|dgx|dgxs|cnx|fhhl|lc|ls|active|lhr|oem|with|design|refresh|developer|kit|devkit|module"
    r"|engineering|reference|embedded|mega|series"
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
"""What the name of a virtual GPU adds to its board's: A100D, H100XM, V100DX, RTX8000P."""

_JETSON = re.compile(r"jetson|tegra|xavier|orin|thor|nano|\btx[12]\b|drive", re.IGNORECASE)

_OTHERS = {
    "AMD": re.compile(r"\bmi\d{2,3}[a-z]?\b|instinct|radeon|\brx ?\d{3,4}|gfx\d|\brocm\b|\bamd\b", re.IGNORECASE),
    "Intel": re.compile(
        r"\barc\b|gaudi|ponte vecchio|\bxpu\b|data ?cent(?:er|re) gpu (?:max|flex)|intel", re.IGNORECASE
    ),
    "Apple": re.compile(r"\bapple\b|\bmps\b|\bm[1-9](?: (?:pro|max|ultra))?$", re.IGNORECASE),
    "Google": re.compile(r"\btpu\b|\btpu-?v\d", re.IGNORECASE),
}


@lru_cache(maxsize=1024)
def words(name: str) -> tuple[str, ...]:
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


def is_said_around(rest: Iterable[str], architecture: str) -> bool:
    """Say whether words beside a product's own say nothing that contradicts it: its form factor, its memory, its own
    architecture. A "Quadro RTX 8000 Ada" isn't the card of 2018."""
    own = architecture.lower().split()
    return all(word in own or word == "lovelace" for word in rest if word in _ARCHITECTURES) and all(
        word in _ARCHITECTURES or word in PORTABLE or _EXTRAS.fullmatch(word) for word in rest
    )


@lru_cache(maxsize=1024)
def names_jetson(name: str) -> bool:
    """Say whether a name is of a GPU on one chip with the CPU (Jetson, DRIVE), known or not."""
    return _JETSON.search(name) is not None


def other_maker(name: str) -> str | None:
    """Name the maker of a GPU that isn't NVIDIA's: "AMD", "Intel", "Apple", "Google"; None for all other names."""
    return next((maker for maker, pattern in _OTHERS.items() if pattern.search(name.strip())), None)


def nearest(name: str, known: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Find the known names nearest to an unknown one. None of another class: a Jetson is never taken for a card, nor an
    H for an A. Empty where nothing is near, and for another maker's GPU."""
    from difflib import get_close_matches

    asked = " ".join(words(name)) or name.lower().strip()
    if other_maker(name):
        return ()
    candidates = {" ".join(words(one)) or one.lower(): one for one in known if _same_class(name, one)}
    near = get_close_matches(asked, candidates, n=4 * most, cutoff=0.6)
    # the number says more than what follows it: an "RTX 5090 Ti" is nearer to the RTX 5090 than to the 5070 Ti
    near.sort(key=lambda one: not _numbers(one) & _numbers(asked))
    return tuple(dict.fromkeys(candidates[one] for one in near[:most]))


def _numbers(words: str) -> set[str]:
    return {word for word in words.split() if any(map(str.isdecimal, word))}


def _same_class(asked: str, known: str) -> bool:
    if names_jetson(asked) or names_jetson(known):
        return names_jetson(asked) and names_jetson(known)
    return _series(asked) in (None, _series(known))


@lru_cache(maxsize=1024)
def _series(name: str) -> str | None:
    """The letters before the number of a data-centre GPU's name: "h" of H100, "gb" of GB200; None for other names."""
    found = re.match(r"(?!sm)(?!rtx|gtx)([a-z]{1,2})\d", "".join(words(name)[:1]))
    return found[1] if found else None
