"""`envspec inspect`: the CUDA code compiled into a wheel or an environment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app.inspect import inspect_code
from envspec.base.texts import byte_size, printable
from envspec.cli import options

if TYPE_CHECKING:
    from envspec.binaries.library import Inspection, Library, QueriedGpu

RARE = 0.1
"""The share of a library's most common architecture below which another is shown apart, with its count."""

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
def command(path: Path, gpus: tuple[str, ...], spec_path: str | None, targets: tuple[str, ...]) -> None:
    """Show the GPU architectures and PTX compiled into a wheel, an environment's folder or a library

    envspec reads the fat binaries themselves, not a build's own metadata. With --gpu or --spec, the exit code is 1 when
    a library has no code that one of these GPUs can run.
    """
    inspected = inspect_code(path, gpus, spec_path, targets)
    options.answer("inspect", inspected.document(), _lines(inspected.inspection, inspected.gpus))
    inspected.refuse_lacking()


def _lines(inspection: Inspection, gpus: Sequence[QueriedGpu]) -> Iterator[str]:
    name = printable(Path(inspection.source).name or inspection.source)
    read = f"{inspection.binaries:,} {'binary' if inspection.binaries == 1 else 'binaries'}"
    for label, properties in inspection.variant.items():
        yield f"variant {label}: {', '.join(properties) or 'for every machine'}"
    if inspection.hip:
        yield f"{name}: code for AMD's GPUs (HIP) in {len(inspection.hip)} of {read}"
    if not inspection.libraries:
        yield f"{name}: no CUDA code ({read} read)"
        return
    yield f"{name}: CUDA code in {len(inspection.libraries)} of {read}"
    for library in inspection.libraries:
        yield ""
        yield from _library_lines(library, gpus)


def _library_lines(library: Library, gpus: Sequence[QueriedGpu]) -> Iterator[str]:
    files = f", {library.files:,} files" if library.files > 1 else ""
    modules = f"{library.module_count:,} module{'s' * (library.module_count != 1)}"
    yield f"{printable(library.path)}  {byte_size(library.size)}{files}, {modules}"
    for kind, counts in library.counts().items():
        rare = {name: number for name, number in counts.items() if number < RARE * max(counts.values())}
        common = [name for name in counts if name not in rare]
        if common or kind in ("sass", "ptx"):
            yield f"  {kind.upper():<5} {' '.join(common) or 'none'}"
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
