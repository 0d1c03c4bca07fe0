"""How two answers differ, what of it was told, and the fewest requirements that still show the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

Versions = Mapping[str, str]


def differences(ours: Versions, theirs: Versions) -> tuple[str, ...]:
    """List `name ours theirs` of each package that differs, `-` where one has none."""
    names = sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
    return tuple(f"{name} {ours.get(name, '-')} {theirs.get(name, '-')}" for name in names)


def plain(text: str) -> str:
    """Write what a tool said in one line, without addresses and paths of the machine that asked."""
    return " ".join(re.sub(r"https?://\S+|(?<![\w.])/[\w./+-]+", "…", text).split())


def told_names(differs: Sequence[str], told: str) -> tuple[str, ...]:
    """List those of the packages that differ which are named in what lock said."""
    words = {re.sub(r"[-_.]+", "-", word).lower().strip("-") for word in re.findall(r"[A-Za-z0-9][\w.-]*", told)}
    return tuple(name for name in (one.split(" ")[0] for one in differs) if name in words)


def told_pins(ours: Versions, theirs: Versions, told: str) -> tuple[str, ...]:
    """Pin the packages that lock told of as lock has them: with these, the other tool would give the same answer, if
    lock told everything that it moved. Those that don't differ are pinned too: a moved one may lead to another of
    theirs. None where none that differs was told."""
    if not (moved := told_names(differences(ours, theirs), told)):
        return ()
    also = told_names([f"{name} -" for name in ours], told)
    return tuple(f"{name}=={ours[name]}" for name in dict.fromkeys((*moved, *also)) if name in ours)


def shrunk(parts: Sequence[str], shows: Callable[[tuple[str, ...]], bool], probes: int = 40) -> tuple[str, ...]:
    """Find a part of the parts that still shows the difference, and nothing of which can go (Zeller's ddmin). Asks at
    most `probes` times; what was found until then is the answer."""
    asked: dict[tuple[str, ...], bool] = {}

    def ask(some: tuple[str, ...]) -> bool:
        if some not in asked:
            asked[some] = bool(some) and len(asked) < probes and shows(some)
        return asked[some]

    left, pieces = tuple(parts), 2
    while len(left) > 1 and len(asked) < probes:
        size = -(-len(left) // pieces)
        chunks = [left[start : start + size] for start in range(0, len(left), size)]
        without = [tuple(one for other in chunks if other is not chunk for one in other) for chunk in chunks]
        smaller = next((some for some in (*chunks, *without) if len(some) < len(left) and ask(some)), None)
        if smaller is not None:
            left, pieces = smaller, 2 if smaller in chunks else max(pieces - 1, 2)
        elif size == 1:
            break
        else:
            pieces = min(2 * pieces, len(left))
    return left
