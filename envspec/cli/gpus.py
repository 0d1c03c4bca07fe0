"""`envspec gpus`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click
from msgspec.structs import asdict

from envspec.app.gpu_names import KnownGpu, find_gpus
from envspec.cli import options
from envspec.cli.table import align

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
def command(names: tuple[str, ...], arch: str | None) -> int:
    """List GPUs: architecture, compute capability, memory, and the CUDA toolkits and drivers that support them

    NAME is a product ("H100"), a name as nvidia-smi prints it, an architecture or a compute capability ("sm_90").
    """
    gpus = find_gpus(names, arch)
    rows = [asdict(known) | asdict(gpu) | {"sm": gpu.sm} for gpu, known in gpus]
    options.answer("gpus", {"gpus": rows}, align([_HEADING, *_rows(gpus)], heading=True))
    return 0


def _rows(gpus: Sequence[KnownGpu]) -> Iterator[tuple[str, ...]]:
    for gpu, known in gpus:
        yield (
            gpu.name,
            gpu.architecture,
            f"{gpu.capability} ({gpu.sm})",
            f"{gpu.kind}, on Arm" if gpu.platform and gpu.kind != "embedded" else gpu.kind,
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
