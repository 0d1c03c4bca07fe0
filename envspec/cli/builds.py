"""`envspec builds`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from envspec.app.gpu_names import known_gpus
from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import nearest, printable
from envspec.cli import options
from envspec.cli.console import out
from envspec.cli.table import aligned

if TYPE_CHECKING:
    from envspec.app.build_rows import BuildRow

EPILOG = """\b
Examples:
  envspec builds torch --torch 2.9                    every wheel of torch 2.9
  envspec builds torch --cuda 12.6 --gpu V100         those for CUDA 12.6 that run on a V100
  envspec builds pytorch --platform linux-aarch64     conda-forge's builds
  envspec builds torch --variants --gpu H100          the variant wheels of its newest release, for an H100

\b
Exit codes: 0 done, 1 no build matches, 2 the input is wrong.
"""

PLATFORMS = ("linux-64", "linux-aarch64", "osx-arm64", "win-64")


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
    package: str,
    cuda: str | None,
    gpus: tuple[str, ...],
    version: str | None,
    platform: str | None,
    python: str | None,
    conda: bool,
    as_variants: bool,
    index: str | None,
    as_json: bool,
) -> int:
    """List the builds of torch: CUDA, platform, Pythons, architectures, and what they need

    `torch` means the wheels of PyPI and of the PyTorch index, `pytorch` means conda-forge's packages, which are
    compiled for other architectures. The facts ship with envspec; the network isn't used. With --variants, an index is
    asked for the variant wheels (PEP 825) of one release of any package.
    """
    from envspec.app.build_rows import conda_rows, pip_rows, running

    if as_variants:
        _refuse_malformed(cuda, None, python)
        package = package if version is None else f"{package}=={version}"
        return _variants(package, index, cuda, gpus, platform, python, as_json=as_json)
    if index is not None:
        raise InputError("--index is for --variants", hint="add --variants")
    if package not in ("torch", "pytorch"):
        raise InputError(
            f'envspec has no table of builds for "{printable(package)}"',
            hint="the tables hold torch (wheels) and pytorch (conda-forge); `envspec inspect` reads any wheel, "
            "and --variants asks an index for variant wheels",
        )
    _refuse_malformed(cuda, version, python)
    meant = known_gpus(gpus)
    from_conda = conda or package == "pytorch"
    if version is not None:
        _refuse_unknown(version, from_conda)
    rows = conda_rows(cuda) if from_conda else pip_rows(cuda)
    found = [
        row
        for row in (running(rows, meant) if meant else rows)
        if (version is None or _is_of(row.build.version, version))
        and platform in (None, row.platform)
        and (python is None or not row.build.pythons or python in row.build.pythons)
    ]
    if not found:
        asked = {"with CUDA": cuda, "on": ", ".join(gpus), "for": platform, "with Python": python}
        words = " ".join(f"{word} {value}" for word, value in asked.items() if value)
        message = " ".join(part for part in ("no build of", package, version, words) if part)
        raise AnswerNo(message, hint=_nearest(from_conda, cuda, gpus, version, platform, python))
    if as_json:
        name = "pytorch" if from_conda else "torch"
        options.print_json("builds", {"package": name, "builds": [_as_json(row) for row in found]})
    else:
        out("\n".join(aligned(_table(found, from_conda), heading=True)))
    return 0


def _variants(
    package: str,
    index: str | None,
    cuda: str | None,
    gpus: tuple[str, ...],
    platform: str | None,
    python: str | None,
    *,
    as_json: bool,
) -> int:
    from envspec.app.variant_builds import suiting, table, variant_rows

    meant = known_gpus(gpus)
    found = [
        row
        for row in suiting(variant_rows(package, index), cuda, meant)
        if platform in (None, row.platform) and (python is None or python in row.pythons)
    ]
    if not found:
        raise AnswerNo(f"no variant of {package} is like that", hint="leave out an option")
    if as_json:
        options.print_json("variants", {"package": package, "variants": [asdict(row) for row in found]})
    else:
        out("\n".join(aligned(table(found))))
    return 0


def _refuse_malformed(cuda: str | None, version: str | None, python: str | None) -> None:
    for option, value, pattern, example in (
        ("--cuda", cuda, r"\d{1,2}\.\d{1,2}(\.\d+)?|cpu", "12.6"),
        ("--torch", version, r"\d{1,2}(\.\d{1,3}){0,2}", "2.9.1"),
        ("--python", python, r"3\.\d{1,2}", "3.12"),
    ):
        if value is not None and not re.fullmatch(pattern, value, re.ASCII):
            raise InputError(f'{option}: "{printable(value)}" is not a version', hint=f"for example {example}")
    if cuda not in (None, "cpu"):
        from envspec.facts import toolkits
        from envspec.packages.version_numbers import numbers

        known = [toolkit.version for toolkit in toolkits.known()]
        if toolkits.toolkit(str(cuda)) is None and numbers(str(cuda)) < numbers(known[-1]):
            newer = next(version for version in known if numbers(version) > numbers(str(cuda)))
            raise InputError(
                f"--cuda: there is no CUDA {cuda}", hint=f"the next newer CUDA that envspec knows is {newer}"
            )


def _is_of(version: str, asked: str) -> bool:
    return f"{version}.".startswith(f"{asked}.")


def _refuse_unknown(version: str, from_conda: bool) -> None:
    from envspec.facts import conda_builds, torch_builds

    known = list(conda_builds.versions()) if from_conda else [release.version for release in torch_builds.releases()]
    if any(_is_of(one, version) for one in known):
        return
    if torch_builds.order(version) > torch_builds.order(known[-1]):
        raise InputError(
            f"torch {version} is newer than envspec's tables (up to {known[-1]})",
            hint="read its wheel: envspec inspect WHEEL",
        )
    near = nearest(version, known)
    raise InputError(f"envspec's tables have no torch {version}", hint=f"did you mean {near}?" if near else None)


def _nearest(
    from_conda: bool,
    cuda: str | None,
    gpus: Sequence[str],
    version: str | None,
    platform: str | None,
    python: str | None,
) -> str:
    """Suggest the nearest build that exists, as the rules judge it."""
    from envspec.app.build_rows import nearest_build

    exact = None if cuda == "cpu" else cuda
    return nearest_build(from_conda, exact, gpus, version, platform or "linux-64", python) or "leave out an option"


def _table(rows: list[BuildRow], from_conda: bool) -> Iterator[tuple[str, ...]]:
    yield (
        "PYTORCH" if from_conda else "TORCH",
        "CUDA",
        "PLATFORM",
        "PYTHON",
        "ARCHITECTURES",
        "PTX",
        "DRIVER",
        "CUDNN",
        "NCCL",
        "TRITON",
        "GLIBC",
        "NOTE",
    )
    for row in rows:
        build, pythons = row.build, row.build.pythons
        yield (
            build.version,
            build.cuda or "cpu",
            row.platform,
            f"{pythons[0]}-{pythons[-1]}" if pythons else "",
            " ".join(build.sm),
            " ".join(build.ptx),
            f">={row.driver}" if row.driver else "",
            build.cudnn or "",
            row.nccl or "",
            row.triton or "",
            build.glibc or "",
            ", ".join(row.notes),
        )


def _as_json(row: BuildRow) -> dict[str, Any]:
    build = row.build
    return {
        "version": build.version,
        "variant": build.variant,
        "cuda": build.cuda,
        "platform": row.platform,
        "pythons": list(build.pythons),
        "sm": list(build.sm),
        "ptx": list(build.ptx),
        "driver_floor": row.driver,
        "cudnn": build.cudnn,
        "nccl": row.nccl,
        "triton": row.triton,
        "glibc": build.glibc,
        "pypi": row.pypi,
        "not_in_facts": list(row.unheld),
        "ptx_only": row.ptx_only,
        "torchvision": list(row.torchvision),
        "torchaudio": list(row.torchaudio),
        "trust": build.trust,
        "sources": list(row.sources),
    }
