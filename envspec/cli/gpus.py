"""`envspec gpus`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from envspec.app.gpu_names import known_gpus
from envspec.base.errors import InputError
from envspec.base.texts import nearest, printable
from envspec.cli import options
from envspec.cli.console import out
from envspec.cli.table import aligned

if TYPE_CHECKING:
    from envspec.facts.gpus import Gpu

EPILOG = """\b
Examples:
  envspec gpus                     every GPU that envspec knows
  envspec gpus H100 rtx-5090       some of them
  envspec gpus --arch hopper
"""

_HEADING = ("GPU", "ARCHITECTURE", "CAPABILITY", "KIND", "MEMORY", "BANDWIDTH", "CUDA", "DRIVER")


@click.command(epilog=EPILOG)
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=options.complete("gpu_names"))
@click.option("--arch", metavar="NAME", help='Only GPUs of this architecture: "hopper", "blackwell".')
@options.as_json
def command(names: tuple[str, ...], arch: str | None, as_json: bool) -> int:
    """List GPUs: architecture, compute capability, memory, and the CUDA toolkits and drivers that support them

    NAME is a product ("H100"), a name as nvidia-smi prints it, an architecture or a compute capability ("sm_90").
    """
    from envspec.facts import gpus

    found = known_gpus(names, option="") if names else gpus.known()
    if arch is not None:
        wanted = _architectures(arch)
        found = tuple(gpu for gpu in found if gpu.architecture in wanted)
        if not found:
            raise InputError(f"none of these GPUs has the architecture {arch}", hint="leave out --arch")
    if as_json:
        options.print_json("gpus", {"gpus": [_as_json(gpu) for gpu in found]})
    else:
        out("\n".join(aligned([_HEADING, *_rows(found)], heading=True)))
    return 0


def _architectures(name: str) -> set[str]:
    """Look up the architectures of a name: "blackwell" includes "Blackwell Ultra". Raises InputError."""
    from envspec.facts import gpus

    known = dict.fromkeys(capability.architecture for capability in gpus.capabilities().values())
    asked = " ".join(name.lower().replace("-", " ").replace("_", " ").split()).replace("ada lovelace", "ada")
    found = {known_name for known_name in known if asked and f"{known_name.lower()} ".startswith(f"{asked} ")}
    if not found:
        near = nearest(asked, [known_name.lower() for known_name in known])
        listed = ", ".join(known_name.lower() for known_name in known)
        raise InputError(
            f'--arch: unknown architecture "{printable(name)}"',
            hint=f'did you mean "{near}"?' if near else f"known architectures: {listed}",
        )
    return found


def _rows(found: Iterable[Gpu]) -> Iterator[tuple[str, ...]]:
    from envspec.facts import gpus

    for gpu in found:
        known = gpus.capabilities()[gpu.capability]
        yield (
            gpu.name,
            gpu.architecture,
            f"{gpu.capability} ({gpu.sm})",
            gpu.kind,
            f"{' / '.join(map(str, gpu.memory_gib))} GiB" if gpu.memory_gib else "",
            f"{gpu.bandwidth_gbs} GB/s" if gpu.bandwidth_gbs else "",
            _span(known.first_cuda, known.last_cuda),
            _span(_branch(known.first_driver), _branch(known.last_driver)),
        )


def _branch(number: int | None) -> str | None:
    return f"R{number}" if number else None


def _span(first: str | None, last: str | None) -> str:
    if first and last:
        return f"{first} to {last}"
    if first:
        return f"{first} or newer"
    return f"{last} or older" if last else ""


def _as_json(gpu: Gpu) -> dict[str, Any]:
    from envspec.facts import gpus

    known = gpus.capabilities()[gpu.capability]
    return {
        "name": gpu.name,
        "architecture": gpu.architecture,
        "capability": gpu.capability,
        "sm": gpu.sm,
        "kind": gpu.kind,
        "memory_gib": list(gpu.memory_gib),
        "bandwidth_gbs": gpu.bandwidth_gbs,
        "aliases": list(gpu.aliases),
        "first_cuda": known.first_cuda,
        "last_cuda": known.last_cuda,
        "first_driver": known.first_driver,
        "last_driver": known.last_driver,
        "sources": list(gpu.sources),
    }
