"""`envspec link`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from envspec.app.link import LinkedTarget, LinkRequest, compile_kernels, document, link
from envspec.app.observer import interruption_says
from envspec.base.errors import AnswerNo
from envspec.base.texts import plural, printable
from envspec.cli import options
from envspec.cli.console import style_text
from envspec.cli.table import finding_lines

if TYPE_CHECKING:
    from envspec.prove.compiles.build import Compiled

EPILOG = """\b
Examples:
  envspec link specs/cpu-py311.toml
  envspec link specs/mm-v2.9.toml --target cu128-hopper --json
  envspec link specs/mm-v2.9.toml --compile                  build a kernel for each GPU with the target's own compilers

Exit codes: 0 everything is there, 1 something isn't, 2 the spec or the lock is wrong, 3 a wheel couldn't be had.
"""


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option(
    "--compile",
    "compiling",
    is_flag=True,
    help="Instead, run the target's own compilers (triton's ptxas, NVRTC, nvJitLink) for each of its GPUs.",
)
@options.evidence
@options.locks_dir
@options.offline
@options.as_json
def command(compiling: bool, **arguments: Any) -> int:
    """Check without a GPU that a target's wheels can load their libraries

    envspec looks for every library that a file needs in the wheels, the base image and the driver. glibc and libstdc++
    must have the file's symbol versions, and the locked torch and CUDA libraries its symbols. envspec reads each wheel
    whole, once, and caches the result.

    With --compile, the wheels' compilers build a fixed kernel, and envspec reads the architecture from the machine
    code. This needs neither a GPU nor a driver.
    """
    answer = compile_kernels if compiling else link
    with interruption_says("run the same command again to continue"):
        spec, results = answer(LinkRequest(**arguments))
    ok = all(result.ok for result in results)
    targets = list(map(document, results))
    options.answer("link", {"spec": spec.path, "ok": ok, "targets": targets}, chain.from_iterable(map(_lines, results)))
    return 0 if ok else AnswerNo.exit_code


def _lines(result: LinkedTarget | Compiled) -> Iterator[str]:
    yield from _link_lines(result) if isinstance(result, LinkedTarget) else _compile_lines(result)


def _link_lines(linked: LinkedTarget) -> Iterator[str]:
    files = sum(len(package.facts.files) for package in linked.packages)
    read = f"{plural(files, 'compiled file')} of {plural(len(linked.packages), 'wheel')}"
    errors = sum(finding.severity == "error" for finding in linked.findings)
    complete = "nothing is missing in these" if linked.unread else "all that importing needs is there"
    verdict = style_text(plural(errors, "error"), "red;bold") if errors else complete
    yield f"{linked.target.name}: {read}: {verdict}"
    yield from finding_lines(
        replace(finding, message=f"{finding.package} {finding.evidence.version}: {finding.message}")
        for finding in linked.findings
    )
    if linked.unread:
        conda = sum(pin.kind == "conda" for pin in linked.unread)
        built = [pin.name for pin in linked.unread if pin.kind != "conda"]
        parts = [plural(conda, "conda package")] if conda else []
        parts += [f"{', '.join(built)}, which installing compiles"] if built else []
        yield f"  not read: {'; '.join(parts)}"


def _compile_lines(compiled: Compiled) -> Iterator[str]:
    good = sum(compilation.ok for compilation in compiled.compilations)
    verdict = "compiles" if compiled.ok else style_text("doesn't compile", "red;bold")
    counted = f"{good} of {plural(len(compiled.compilations), 'kernel')}"
    yield f"{compiled.target}: {counted} built for its GPUs: {verdict}"
    for compilation in compiled.compilations:
        compiler = compilation.compiler
        release = compilation.release or "?"
        who = printable(f"{compiler.name} {release} ({compiler.package} {compiler.version})")
        if compilation.ok:
            yield f"  {compilation.gpu}  {who}: {compilation.made}"
        else:
            reason = compilation.error or f"asked for {compilation.requested}, it made code for {compilation.made}"
            yield f"  {style_text(compilation.gpu, 'red;bold')}  {who}: {printable(reason.partition(chr(10))[0])}"
    if compiled.absent:
        yield f"  not in the target's wheels: {', '.join(compiled.absent)}"
