"""`envspec link --compile`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envspec.app.cache_size import keep_bounded
from envspec.app.collecting import collect
from envspec.app.evidence import keep
from envspec.base.errors import AnswerNo, IndexFailure, InputError
from envspec.base.texts import byte_size, plural, printable
from envspec.cli import options
from envspec.cli.console import out, say, styled

if TYPE_CHECKING:
    from envspec.lock.judge import SoundLock
    from envspec.lock.model import LockedTarget
    from envspec.prove.compiles.model import Compilation, Compiled
    from envspec.spec.model import Spec


def compile_targets(
    spec: Spec,
    lock: SoundLock,
    targets: Sequence[LockedTarget],
    *,
    named: bool,
    evidence: Path | None,
    offline: bool,
    as_json: bool,
) -> int:
    """Compile for each target's GPUs, print what came out, and give the exit code. Raises IndexFailure, InputError."""
    from envspec.base.scratch import scratch_folder
    from envspec.base.settings import load_settings
    from envspec.binaries.wheel import UnreadableWheel
    from envspec.prove.compiles.build import compile_target
    from envspec.prove.compiles.find import holders

    targets = _runnable(targets, named=named)
    pins = {(pin.index, pin.artifact): pin for target in targets for pin in holders(target).values()}
    size = sum(pin.artifact.size or 0 for pin in pins.values() if pin.artifact)
    say(f"running the compilers in {plural(len(pins), 'wheel')} ({byte_size(size)})")
    paths = collect(spec, list(pins.values()), offline=offline)
    keep_bounded()
    found: list[Compiled] = []
    with scratch_folder(load_settings(os.environ).cache()) as scratch:
        for target in targets:
            folder = scratch / str(len(found))
            folder.mkdir()
            try:
                found.append(compile_target(target, paths, folder))
            except UnreadableWheel as error:
                raise IndexFailure(f"a wheel of {target.name} can't be read: {error}") from None
    if as_json:
        document = {"spec": spec.path, "ok": all(one.ok for one in found), "targets": [_document(one) for one in found]}
        options.print_json("link", document)
    else:
        out("\n".join(line for one in found for line in _lines(one)))
    if evidence is not None:
        proved = [target for target, one in zip(targets, found, strict=True) if one.ok]
        details = {one.target: [_row(each) for each in one.compilations] for one in found}
        keep(evidence, "compiles", lock, proved, details)
    return 0 if all(one.ok for one in found) else AnswerNo.exit_code


def _runnable(targets: Sequence[LockedTarget], *, named: bool) -> list[LockedTarget]:
    """Keep the targets for GPUs whose compilers this machine can run. Raises InputError where none is left, or one of
    those that are named isn't."""
    from envspec.install.host import this_host

    here = this_host().platform
    kept, others = [], {}
    for target in targets:
        if target.inputs.cuda is None:
            others[target.name] = "is for CPUs"
        elif target.inputs.platform != here:
            others[target.name] = f"has compilers for {target.inputs.platform}, and this machine is {here}"
        else:
            kept.append(target)
    told = "; ".join(f"{name} {reason}" for name, reason in others.items())
    if others and (named or not kept):
        raise InputError(f"there is nothing to compile with: {told}", hint="choose other targets with --target")
    if others:
        say(f"not compiled: {told}")
    return kept


def _lines(compiled: Compiled) -> Iterator[str]:
    good = sum(one.ok for one in compiled.compilations)
    verdict = "compiles" if compiled.ok else styled("doesn't compile", "red;bold")
    counted = f"{good} of {plural(len(compiled.compilations), 'kernel')}"
    yield f"{compiled.target}: {counted} built for its GPUs: {verdict}"
    for one in compiled.compilations:
        who = printable(f"{one.compiler.name} {one.release or '?'} ({one.compiler.package} {one.compiler.version})")
        if one.ok:
            yield f"  {one.gpu}  {who}: {one.made}"
        else:
            reason = one.error or f"asked for {one.asked}, it made code for {one.made}"
            yield f"  {styled(one.gpu, 'red;bold')}  {who}: {printable(reason.partition(chr(10))[0])}"
    if compiled.absent:
        yield f"  not in the target's wheels: {', '.join(compiled.absent)}"


def _document(compiled: Compiled) -> dict[str, Any]:
    return {
        "name": compiled.target,
        "ok": compiled.ok,
        "packages": [],
        "unread": [],
        "findings": [],
        "compiled": [_row(one) for one in compiled.compilations],
        "absent": list(compiled.absent),
    }


def _row(one: Compilation) -> dict[str, Any]:
    return {
        "compiler": one.compiler.name,
        "package": one.compiler.package,
        "version": one.compiler.version,
        "release": one.release,
        "gpu": one.gpu,
        "asked": one.asked,
        "made": one.made,
        "ok": one.ok,
        "error": one.error,
    }
