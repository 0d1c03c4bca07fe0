"""What `envspec link` ships: the facts of torch's and CUDA's wheels in locks, as far as this machine has read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from envspec.facts.cuda_stack import TORCH, is_toolkit
from envspec.lock.model import LockedTarget
from envspec.prove.link.model import WheelFacts
from envspec.prove.link.store import LinkStore, pack
from envspec.prove.link.target import is_read
from envspec.prove.link.wheel import MACHINES


def shipped_facts(targets: Iterable[LockedTarget], store: LinkStore, path: Path) -> tuple[str, ...]:
    """Write the facts of the targets' torch and CUDA wheels to `path`; give the files that weren't read here.

    Raises OSError.
    """
    found: dict[tuple[str, int], WheelFacts] = {}
    unread = set[str]()
    for target in targets:
        machine = MACHINES.get(target.inputs.platform)
        for pin in target.pins:
            wanted = (pin.name in TORCH or is_toolkit(pin.name)) and is_read(pin)
            if machine is None or not wanted or pin.artifact is None:
                continue
            facts = store.get(pin.artifact.sha256, machine)
            if facts is None:
                unread.add(f"{pin.artifact.file} of {pin.index}")
            else:
                found[pin.artifact.sha256, machine] = facts
    pack(found, path)
    return tuple(sorted(unread))
