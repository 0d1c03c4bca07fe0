"""GPUs by the names that people give them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from envspec.base.errors import InputError
from envspec.base.texts import nearest, printable
from envspec.facts import gpus
from envspec.facts.gpus import Capability, Gpu, other_maker

KnownGpu: TypeAlias = "tuple[Gpu, Capability]"


def known_gpus(names: Iterable[str], option: str = "--gpu: ") -> tuple[Gpu, ...]:
    """Look up the GPUs that the names stand for, each once. Raises InputError for a name that the tables don't have."""
    known: dict[Gpu, None] = {}
    for name in names:
        meant = gpus.find(name)
        if not meant:
            raise unknown_gpu(name, option)
        known.update(dict.fromkeys(meant))
    return tuple(known)


def find_gpus(names: Iterable[str], arch: str | None) -> tuple[KnownGpu, ...]:
    """Look up GPUs with their capabilities: all, or those of these names and of this architecture. Raises
    InputError."""
    chosen = known_gpus(names, option="") or gpus.products()
    if arch is not None:
        architectures = _architectures(arch)
        chosen = tuple(gpu for gpu in chosen if gpu.architecture in architectures)
        if not chosen:
            raise InputError(f"none of these GPUs has the architecture {arch}", hint="leave out --arch")
    return tuple((gpu, gpus.capabilities()[gpu.capability]) for gpu in chosen)


def _architectures(name: str) -> set[str]:
    """Look up the architectures of a name: "blackwell" includes "Blackwell Ultra". Raises InputError."""
    known = dict.fromkeys(capability.architecture for capability in gpus.capabilities().values())
    spelling = " ".join(name.lower().replace("-", " ").replace("_", " ").split()).replace("ada lovelace", "ada")
    matches = {known_name for known_name in known if spelling and f"{known_name.lower()} ".startswith(f"{spelling} ")}
    if not matches:
        near = nearest(spelling, [known_name.lower() for known_name in known])
        listed = ", ".join(known_name.lower() for known_name in known)
        message = f'--arch: unknown architecture "{printable(name)}"'
        raise InputError(message, hint=f'did you mean "{near}"?' if near else f"known architectures: {listed}")
    return matches


def unknown_gpu(name: str, option: str = "--gpu: ") -> InputError:
    """Give the error for a name that the tables don't have, with the nearest ones that they have."""
    message, hint = explain_unknown(name)
    return InputError(f"{option}{message}", hint=hint)


def wrong_gpu(name: str) -> tuple[str, str] | None:
    """Explain a GPU's wrong name, with names to write instead; None for a name that the tables have."""
    return None if gpus.find(name) else explain_unknown(name)


_INSTEAD = {
    "AMD": "take an NVIDIA GPU, or a CPU target (without `cuda` and `gpus`); for ROCm, install PyTorch by hand",
    "Intel": "take an NVIDIA GPU, or a CPU target (without `cuda` and `gpus`); for XPU, install PyTorch by hand",
    "Apple": "take a CPU target for osx-arm64 (without `cuda` and `gpus`): PyTorch's wheels for it have MPS as well",
    "Google": "take an NVIDIA GPU, or a CPU target (without `cuda` and `gpus`)",
}


def explain_unknown(name: str) -> tuple[str, str]:
    """Explain why a name stands for no GPU of the tables, with names to write instead."""
    shown = printable(name)
    maker = other_maker(name)
    if maker:
        return f'"{shown}" is {maker}\'s, and envspec locks for NVIDIA GPUs (CUDA) and CPUs only', _INSTEAD[maker]
    if machine := gpus.machine(name):
        write = f'write "{machine.gpu}", the GPU that it has' if machine.gpu else 'name its GPU, such as "H100"'
        return f'"{shown}" is a machine type of {machine.cloud}, not a GPU', f"{write}; `envspec gpus` lists the names"
    near = [f'"{candidate}"' for candidate in gpus.nearest(name)]
    if gpus.meanings(name):
        return f'"{shown}" is the name of several GPUs', f"name one: {', '.join(near[:-1])} or {near[-1]}"
    meant = f"did you mean {' or '.join([', '.join(near[:-1]), near[-1]] if near[1:] else near)}? " if near else ""
    suggestion = 'of a newer GPU, name the compute capability ("sm_90"); `envspec gpus` lists the names'
    return f'unknown GPU "{shown}"', f"{meant}{suggestion[0].upper() if near else suggestion[0]}{suggestion[1:]}"
