"""A target of a lock as link judges it: which of its files are read, and what is below its wheels."""

from __future__ import annotations

from collections.abc import Iterable

from envspec.lock.model import LockedTarget, Pin
from envspec.packages.variants import read_name
from envspec.prove.link.model import WheelFacts
from envspec.prove.link.symbols import family
from envspec.prove.link.system import System, is_known_base, numbers, runtime_of_gcc, runtime_of_glibc

_GLIBC = "2.17"
"""The glibc of a target whose lock has none: the oldest that manylinux wheels admit."""


def system_of(target: LockedTarget, base: str, packages: Iterable[str]) -> System:
    """Give what a target's wheels stand on. `base` is the image's name, `packages` what recipes add to it."""
    inputs = target.inputs
    glibc = numbers(inputs.glibc or _GLIBC)
    conda = [pin for pin in target.pins if pin.kind == "conda"]
    gcc = next((pin for pin in conda if pin.name in ("libstdcxx", "libstdcxx-ng")), None)
    return System(
        glibc,
        runtime_of_gcc(numbers(gcc.version)) if gcc else runtime_of_glibc(glibc),
        inputs.python,
        driver=inputs.cuda is not None,
        cuda=inputs.cuda,
        base=base,
        packages=frozenset(packages),
        known=is_known_base(base),
        conda=bool(conda),
    )


def is_read(pin: Pin) -> bool:
    """Say whether link reads a package: a wheel for a platform. `any` says that there is no compiled code in it."""
    return pin.is_wheel and pin.artifact is not None and not read_name(pin.artifact.file).plain.endswith("-any.whl")


def is_built(pin: Pin) -> bool:
    """Say whether a package is compiled on the user's machine, so that there is nothing to read."""
    return pin.kind == "pip" and not pin.is_wheel


def torch_abi(facts: WheelFacts) -> str | None:
    """Say which of torch's interfaces a wheel uses: "stable", which every later torch has, or "unstable"; None for one
    that uses neither."""
    used = {family(symbol) for file in facts.files for symbol in file.facts.undefined}
    return "unstable" if "torch" in used else "stable" if "stable" in used else None
