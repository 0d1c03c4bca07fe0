"""The CUDA code compiled into a wheel or an environment, judged by the GPUs that have to run it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from envspec.app.gpu_names import unknown_gpu
from envspec.app.inputs import read_spec
from envspec.app.observer import observer, warn
from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import printable
from envspec.binaries.inspect import inspect
from envspec.binaries.library import Inspection, QueriedGpu, report, without_code_for
from envspec.facts.compute_capability import Architecture, parse, read_capability
from envspec.facts.gpus import find
from envspec.spec.targets import refuse_unknown_targets

_ENVIRONMENT = ("pyvenv.cfg", "conda-meta", "*.dist-info", "lib/python*/site-packages", "Lib/site-packages")
"""The facts of an environment without libraries."""

_NAMED = 3
"""The number of libraries that an error names before it counts the rest."""


class Inspected(Struct, frozen=True):
    """The code in a file, and the GPUs that it is judged by."""

    inspection: Inspection
    gpus: tuple[QueriedGpu, ...]

    def document(self) -> dict[str, Any]:
        return report(self.inspection, self.gpus)

    def refuse_lacking(self) -> None:
        """Raise AnswerNo where a library has no code for one of the GPUs."""
        lacking = [(gpu, paths) for gpu in self.gpus if (paths := without_code_for(self.inspection, gpu))]
        if lacking:
            hint = "look for a build that lists the GPU's architecture, or PTX of an earlier one"
            raise AnswerNo("; ".join(f"no code for {gpu} in {_first(paths)}" for gpu, paths in lacking), hint=hint)


def inspect_code(path: Path, gpus: Iterable[str], spec_path: str | None, targets: Sequence[str]) -> Inspected:
    """Read the code in a wheel, an environment or a library, and warn of what can't be read. The GPUs are those named,
    and those of a spec's targets. Raises InputError, StorageError."""
    names = dict.fromkeys((*gpus, *_gpus_of_targets(spec_path, targets)))
    requested = tuple(gpu for name in names for gpu in _gpus(name))
    with observer().progress() as progress:
        code = inspect(path, progress)
    if not code.binaries and path.is_dir() and not any(next(path.glob(mark), None) for mark in _ENVIRONMENT):
        hint = "give a wheel, the folder of an environment, or a library"
        raise InputError(f"{printable(str(path))} isn't an environment and contains no library", hint=hint)
    for library in code.libraries:
        if not library.complete:
            warn(f"{printable(library.path)}: a fat binary is cut off or damaged")
    for line in code.unread:
        warn(f"not read: {printable(line)}")
    return Inspected(code, requested)


def _gpus_of_targets(spec_path: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """List the GPUs of a spec's targets: of all targets, or of those given."""
    if spec_path is None:
        if names:
            raise InputError("--target needs --spec", hint="envspec inspect WHEEL --spec SPEC --target NAME")
        return ()
    spec = read_spec(spec_path)
    refuse_unknown_targets(names, [target.name for target in spec.targets], spec.path)
    gpus = tuple(gpu for target in spec.targets if not names or target.name in names for gpu in target.gpus)
    if not gpus:
        raise InputError(f"{spec.path} names no GPU for these targets", hint="give --gpu, or a target that has `gpus`")
    return gpus


def _gpus(name: str) -> Iterator[QueriedGpu]:
    """Look up the compute capabilities of a name, each once: one for a product, several for "ampere"."""
    # a bare number is likelier a product's
    if not name.isdecimal() and (architecture := parse(name)):
        yield QueriedGpu(name, Architecture(architecture.number))
        return
    capabilities = {gpu.capability: read_capability(gpu.capability) for gpu in find(name)}
    if not capabilities:
        raise unknown_gpu(name)
    yield from (QueriedGpu(name, architecture) for architecture in capabilities.values())


def _first(paths: Sequence[str]) -> str:
    """Name the first paths and count the rest: the output has them all."""
    more = len(paths) - _NAMED
    return ", ".join(map(printable, paths[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")
