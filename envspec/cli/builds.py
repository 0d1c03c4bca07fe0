"""`envspec builds`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from envspec.app.builds import PLATFORMS, BuildRow, WantedBuilds, find_builds
from envspec.base.errors import InputError
from envspec.cli import options
from envspec.cli.table import align

if TYPE_CHECKING:
    from envspec.app.variant_builds import VariantRow

EPILOG = """\b
Examples:
  envspec builds torch --torch 2.9                    every wheel of torch 2.9
  envspec builds torch --cuda 12.6 --gpu V100         those for CUDA 12.6 that run on a V100
  envspec builds pytorch --platform linux-aarch64     conda-forge's builds
  envspec builds torch --variants --gpu H100          the variant wheels of its newest release, for an H100

Exit codes: 0 done, 1 no build matches, 2 the input is wrong.
"""


@click.command(epilog=EPILOG)
@click.argument("package", metavar="torch|pytorch|PACKAGE")
@click.option("--cuda", metavar="VERSION", help='Only builds for this CUDA: "12.6"; "cpu" for the CPU builds.')
@options.gpu('Only builds that run on this GPU: "V100", "hopper". Repeatable.')
@click.option(
    "--torch", "version", metavar="VERSION", help='Only builds of this release: "2.9.1"; "2.9" for every 2.9 release.'
)
@click.option("--platform", type=click.Choice(PLATFORMS), help="Only builds for this platform.")
@click.option("--python", metavar="VERSION", help='Only builds with a wheel for this Python: "3.12".')
@click.option("--conda", is_flag=True, help="Show conda-forge's builds: the same as naming pytorch.")
@click.option(
    "--variants",
    "as_variants",
    is_flag=True,
    help="List the variant wheels of PACKAGE or PACKAGE==VERSION on an index.",
)
@click.option("--index", metavar="URL", help="The index that --variants reads, by default the one for PyPI.")
@options.as_json
def command(
    package: str, version: str | None, conda: bool, as_variants: bool, index: str | None, **conditions: Any
) -> int:
    """List the builds of torch: CUDA, platform, Pythons, architectures, and their requirements

    `torch` means the wheels of PyPI and of the PyTorch index, `pytorch` means conda-forge's packages, which are
    compiled for other architectures. The facts ship with envspec; no network is used. With --variants, envspec asks an
    index for the variant wheels (PEP 825) of one release of any package.
    """
    if as_variants:
        from envspec.app.variant_builds import find_variants

        package = package if version is None else f"{package}=={version}"
        variants = find_variants(package, index, WantedBuilds(version=None, **conditions))
        options.answer("variants", {"package": package, "variants": variants}, align(_variants(variants)))
        return 0
    if index is not None:
        raise InputError("--index is for --variants", hint="add --variants")
    conda = conda or package == "pytorch"
    builds = find_builds(package, WantedBuilds(version=version, **conditions), conda=conda)
    rows = [{name: value for name, value in asdict(row).items() if name not in _OWN} for row in builds]
    document = {"package": "pytorch" if conda else "torch", "builds": rows}
    options.answer("builds", document, align(_table(builds, conda), heading=True))
    return 0


_OWN = ("channel", "arm_variant", "files_for")
"""The fields that only the rules read."""
_NAMES = (
    *("CUDA", "PLATFORM", "PYTHON", "ARCHITECTURES", "PTX", "DRIVER"),
    *("CUDNN", "NCCL", "TRITON", "GLIBC", "NOTE"),
)


def _table(rows: Iterable[BuildRow], conda: bool) -> Iterator[tuple[str, ...]]:
    yield ("PYTORCH" if conda else "TORCH", *_NAMES)
    for row in rows:
        pythons = row.pythons
        yield (
            row.version,
            row.cuda or "cpu",
            row.platform,
            f"{pythons[0]}-{pythons[-1]}" if pythons else "",
            " ".join(row.sm),
            " ".join(row.ptx),
            f">={row.driver_floor}" if row.driver_floor else "",
            row.cudnn or "",
            row.nccl or "",
            row.triton or "",
            row.glibc or "",
            ", ".join(row.notes),
        )


def _variants(rows: Iterable[VariantRow]) -> Iterator[tuple[str, ...]]:
    yield "VERSION", "VARIANT", "CUDA", "PLATFORM", "PYTHON", "ARCHITECTURES", "PTX", "DRIVER", "NEEDS"
    for row in rows:
        needs = [text for text in row.properties if not text.startswith("nvidia ::")]
        ends = sorted({row.pythons[0], row.pythons[-1]}, key=row.pythons.index)
        yield (
            *(row.version, row.variant or "(plain)", row.cuda or "", row.platform, "-".join(ends)),
            *(" ".join(row.sm), " ".join(row.ptx), f">={row.driver_floor}" if row.driver_floor else ""),
            ", ".join(needs),
        )
