"""`envspec inspect`: the CUDA code compiled into a wheel or an environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app.gpu_names import unknown_gpu
from envspec.app.observer import observer
from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import byte_size, printable
from envspec.cli import options
from envspec.cli.console import out, warn

if TYPE_CHECKING:
    from envspec.binaries.library import Inspection, Library
    from envspec.binaries.report import QueriedGpu

RARE = 0.1
"""The share of a library's most common architecture below which another is shown apart, with its count."""

_NAMED = 3
"""The number of libraries that an error names before it counts the rest."""

_EXAMPLE = """\b
Example:
  envspec inspect torchvision-0.24.1-cp312-cp312-manylinux_2_28_x86_64.whl --gpu H100 --gpu sm_120
"""


@click.command("inspect", epilog=_EXAMPLE)
@click.argument("path", metavar="WHEEL-OR-PREFIX", type=click.Path(path_type=Path))
@options.gpu('A product ("H100"), "sm_90" or "9.0". Repeatable.')
@click.option(
    "--spec",
    "spec_path",
    metavar="SPEC",
    shell_complete=options.complete("spec_paths"),
    help="Judge against the GPUs of this spec's targets.",
)
@options.target
@options.as_json
def command(path: Path, gpus: tuple[str, ...], spec_path: str | None, targets: tuple[str, ...], as_json: bool) -> None:
    """Show the GPU architectures and PTX compiled into a wheel, an environment's folder or a library

    envspec reads the fat binaries themselves, not a build's own metadata. With --gpu or --spec, the exit code is 1 when
    a library has no code that one of these GPUs can run.
    """
    from envspec.binaries.inspect import inspect
    from envspec.binaries.report import report, without_code_for

    names = dict.fromkeys((*gpus, *_gpus_of_targets(spec_path, targets)))
    asked = [gpu for name in names for gpu in _gpus(name)]
    with observer().progress() as progress:
        inspection = inspect(path, progress)
    if not inspection.binaries and path.is_dir() and not _is_environment(path):
        raise InputError(
            f"{printable(str(path))} isn't an environment and contains no library",
            hint="give a wheel, the folder of an environment, or a library",
        )
    _warn(inspection)
    if as_json:
        options.print_json("inspect", report(inspection, asked))
    else:
        out("\n".join(_lines(inspection, asked)))
    lacking = [(gpu, paths) for gpu in asked if (paths := without_code_for(inspection, gpu))]
    if lacking:
        raise AnswerNo(
            "; ".join(f"no code for {gpu} in {_first(paths)}" for gpu, paths in lacking),
            hint="look for a build that lists the GPU's architecture, or PTX of an earlier one",
        )


def _is_environment(folder: Path) -> bool:
    """Say whether a folder without libraries is an environment all the same."""
    marks = ("pyvenv.cfg", "conda-meta", "*.dist-info", "lib/python*/site-packages", "Lib/site-packages")
    return any(next(folder.glob(mark), None) for mark in marks)


def _gpus_of_targets(spec_path: str | None, names: tuple[str, ...]) -> tuple[str, ...]:
    """List the GPUs of a spec's targets: of all targets, or of those given."""
    if spec_path is None:
        if names:
            raise InputError("--target needs --spec", hint="envspec inspect WHEEL --spec SPEC --target NAME")
        return ()
    from envspec.app.inputs import read_spec
    from envspec.spec.targets import refuse_unknown_targets

    spec = read_spec(spec_path)
    known = {target.name: target.gpus for target in spec.targets}
    refuse_unknown_targets(names, list(known), spec.path)
    gpus = tuple(gpu for name, several in known.items() if not names or name in names for gpu in several)
    if not gpus:
        raise InputError(f"{spec.path} names no GPU for these targets", hint="give --gpu, or a target that has `gpus`")
    return gpus


def _gpus(name: str) -> Iterator[QueriedGpu]:
    """Look up the compute capabilities of a name, each once: one for a product, several for "ampere"."""
    from envspec.binaries.report import QueriedGpu
    from envspec.facts.compute_capability import Architecture, known, parse

    # a bare number is likelier a product's
    if not name.isdecimal() and (architecture := parse(name)):
        yield QueriedGpu(name, Architecture(architecture.number))
        return
    from envspec.facts.gpus import find

    capabilities = {gpu.capability: known(gpu.capability) for gpu in find(name)}
    if not capabilities:
        raise unknown_gpu(name)
    yield from (QueriedGpu(name, architecture) for architecture in capabilities.values())


def _lines(inspection: Inspection, gpus: list[QueriedGpu]) -> Iterator[str]:
    name = printable(Path(inspection.source).name or inspection.source)
    for label, properties in inspection.variant.items():
        yield f"variant {label}: {', '.join(properties) or 'for every machine'}"
    if not inspection.libraries:
        yield f"{name}: no CUDA code ({_count(inspection.binaries, 'binary', 'binaries')} read)"
        return
    yield f"{name}: CUDA code in {len(inspection.libraries)} of {_count(inspection.binaries, 'binary', 'binaries')}"
    for library in inspection.libraries:
        yield ""
        yield from _library_lines(library, gpus)


def _library_lines(library: Library, gpus: list[QueriedGpu]) -> Iterator[str]:
    from envspec.binaries.architecture import Code, Kind

    files = f", {library.files:,} files" if library.files > 1 else ""
    modules = _count(library.module_count, "module", "modules")
    yield f"{printable(library.path)}  {byte_size(library.size)}{files}, {modules}"
    for kind in Kind:
        counts = {Code(kind, built).name: number for built, number in library.architectures(kind).items()}
        rare = {name: number for name, number in counts.items() if number < RARE * max(counts.values())}
        common = [name for name in counts if name not in rare]
        if common or kind in (Kind.SASS, Kind.PTX):
            yield f"  {kind.value.upper():<5} {' '.join(common) or 'none'}"
        if rare:
            yield f"        rarely {', '.join(f'{name} ({number})' for name, number in rare.items())}"
    if library.profiles:
        yield "  for profiling alone: it works on GPUs that its own code isn't for"
        return
    for gpu in gpus:
        coverage = library.coverage(gpu.architecture)
        meaning = {"native": "runs", "jit": "runs after the driver compiled its PTX", "no": "doesn't run"}
        able = coverage.native + coverage.jit
        share = f" ({able:,} of {library.module_count:,} modules)" if able and coverage.none else ""
        yield f"  {gpu}: {meaning[coverage.verdict]}{share}"


def _warn(inspection: Inspection) -> None:
    for library in inspection.libraries:
        if not library.complete:
            warn(f"{printable(library.path)}: a fat binary is cut off or damaged")
    for line in inspection.unread:
        warn(f"not read: {printable(line)}")


def _first(paths: Sequence[str]) -> str:
    """Name the first paths and count the rest: the output has them all."""
    more = len(paths) - _NAMED
    return ", ".join(map(printable, paths[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
