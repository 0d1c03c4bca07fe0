"""`envspec link`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app import inputs
from envspec.app.cache_size import keep_bounded
from envspec.app.collecting import collect
from envspec.app.evidence import keep
from envspec.app.observer import observer
from envspec.base.errors import AnswerNo, IndexFailure, InputError
from envspec.base.finding import Finding
from envspec.base.texts import byte_size, plural, printable
from envspec.cli import options
from envspec.cli.console import out, say, styled

if TYPE_CHECKING:
    from envspec.lock.judge import SoundLock
    from envspec.lock.model import LockedTarget, Pin
    from envspec.prove.link.model import LinkedPackage, WheelFacts
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec link specs/cpu-py311.toml
  envspec link specs/mm-v2.9.toml --target cu128-hopper --json
  envspec link specs/mm-v2.9.toml --compile                  build a kernel for each GPU with the target's own compilers

\b
Exit codes: 0 everything is there, 1 something isn't, 2 the spec or the lock is wrong, 3 a wheel couldn't be had.
"""

_COLOURS = {"error": "red;bold", "warning": "yellow;bold"}


@dataclass(frozen=True)
class _Answer:
    """What link says of a target. `unread` are its packages that it doesn't read."""

    target: LockedTarget
    packages: Sequence[LinkedPackage]
    findings: Sequence[Finding]
    unread: Sequence[Pin]

    @property
    def is_ok(self) -> bool:
        return all(finding.severity != "error" for finding in self.findings)


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
def command(
    path: str,
    targets: tuple[str, ...],
    compiling: bool,
    evidence: Path | None,
    locks_dir: Path | None,
    offline: bool,
    as_json: bool,
) -> int:
    """Check without a GPU that a target's wheels can load their libraries

    Every library that a file needs is looked for in the wheels, the base image and the driver; glibc and libstdc++ must
    have the symbol versions that it needs, and the locked torch and CUDA libraries the symbols. envspec reads each
    wheel whole, once, and keeps what it says.

    With --compile, compilers out of the wheels build a fixed kernel, and the architecture is read back from the machine
    code: that needs neither a GPU nor a driver.
    """
    from envspec.app.policy import refuse_fetched
    from envspec.lock.shared_paths import in_install_order
    from envspec.prove.link.judge import judge
    from envspec.prove.link.target import is_built, is_read, system_of

    spec, lock = inputs.read_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = _linux(inputs.locked_targets(lock, targets), named=bool(targets))
    for target in chosen:
        refuse_fetched(spec, lock, target, path, offline=offline)
    if compiling:
        from envspec.cli.link_compile import compile_targets

        return compile_targets(
            spec, lock, chosen, named=bool(targets), evidence=evidence, offline=offline, as_json=as_json
        )
    try:
        facts = _facts(spec, chosen, offline=offline)
    except KeyboardInterrupt:
        say("interrupted: run the same command again to continue")
        return 130
    keep_bounded()
    answers = []
    for target in chosen:
        packages = [_package(pin, facts) for pin in in_install_order(target) if is_read(pin)]
        unread = [pin for pin in target.pins if pin.kind == "conda" or is_built(pin)]
        findings = judge(packages, system_of(target, *_base(spec, lock, target)))
        answers.append(_Answer(target, sorted(packages, key=lambda one: one.name), findings, unread))
    if as_json:
        options.print_json("link", _document(spec.path, answers))
    else:
        out("\n".join(line for answer in answers for line in _lines(answer)))
    if evidence is not None:
        keep(evidence, "linked", lock, [answer.target for answer in answers if answer.is_ok and not answer.unread])
    return 0 if all(answer.is_ok for answer in answers) else AnswerNo.exit_code


def _linux(targets: Sequence[LockedTarget], *, named: bool) -> list[LockedTarget]:
    """Keep the targets whose libraries are ELF files. Raises InputError where none is left, or a named one isn't."""
    from envspec.prove.link.wheel import MACHINES

    others = [target.name for target in targets if target.inputs.platform not in MACHINES]
    if others and (named or len(others) == len(targets)):
        raise InputError(
            f"link reads the libraries of Linux, and {', '.join(others)} isn't for {' or '.join(MACHINES)}",
            hint="choose other targets with --target",
        )
    if others:
        say(f"not judged: {', '.join(others)}: link reads the libraries of Linux")
    return [target for target in targets if target.name not in others]


def _facts(spec: Spec, targets: Sequence[LockedTarget], *, offline: bool) -> Mapping[tuple[str, str], WheelFacts]:
    """Give the facts of the targets' wheels by index and file: from the cache, or from the wheels themselves.

    Raises IndexFailure, StorageError.
    """
    from envspec.base.settings import load_settings
    from envspec.binaries.wheel import UnreadableWheel
    from envspec.lock.conda_files import artifact_of
    from envspec.prove.link.store import LinkStore
    from envspec.prove.link.target import is_read
    from envspec.prove.link.wheel import MACHINES, read_wheel

    store = LinkStore(load_settings(os.environ).cache())
    found: dict[tuple[str, str], WheelFacts] = {}
    missing: dict[tuple[str, str], tuple[Pin, int]] = {}
    for target in targets:
        machine = MACHINES[target.inputs.platform]
        for pin in filter(is_read, target.pins):
            known = store.get(artifact_of(pin).sha256, machine)
            if known is None:
                missing[_key(pin)] = (pin, machine)
            else:
                found[_key(pin)] = known
    if not missing:
        return found
    say("\n".join(_told([pin for pin, _ in missing.values()])))
    paths = collect(spec, [pin for pin, _ in missing.values()], offline=offline)
    with observer().progress("reading", sum(path.stat().st_size for path in paths.values())) as progress:
        for key, (pin, machine) in missing.items():
            try:
                found[key] = read_wheel(paths[key], machine)
            except UnreadableWheel as error:
                raise IndexFailure(f"{key[1]} can't be read: {error}") from None
            store.put(artifact_of(pin).sha256, machine, found[key])
            progress.came(paths[key].stat().st_size)
    return found


def _told(pins: Sequence[Pin]) -> Iterator[str]:
    """Say how much will be read, and what most of it is: torch's and CUDA's wheels, where nothing is known of them."""
    from envspec.facts.cuda_stack import TORCH, is_toolkit
    from envspec.lock.conda_files import artifact_of

    sizes = {pin: artifact_of(pin).size for pin in pins}
    unknown = sum(size is None for size in sizes.values())
    size = byte_size(sum(size or 0 for size in sizes.values()))
    and_more = f" and {unknown} of unknown size" if unknown else ""
    yield f"reading {plural(len(pins), 'wheel')} ({size}{and_more}), once: what they say is kept"
    stack = [pin for pin in pins if pin.name in TORCH or is_toolkit(pin.name)]
    if stack:
        named = [f"{pin.name} {pin.version} of {pin.index}" for pin in stack if pin.name in TORCH]
        cuda = len(stack) - len(named)
        named += [plural(cuda, "CUDA package")] if cuda else []
        yield f"what these say doesn't come with envspec: {', '.join(named)}"


def _key(pin: Pin) -> tuple[str, str]:
    return pin.index, pin.artifact.file if pin.artifact else ""


def _package(pin: Pin, facts: Mapping[tuple[str, str], WheelFacts]) -> LinkedPackage:
    from envspec.prove.link.model import LinkedPackage

    return LinkedPackage(pin.name, pin.version, _key(pin)[1], facts[_key(pin)])


def _base(spec: Spec, lock: SoundLock, target: LockedTarget) -> tuple[str, Sequence[str]]:
    """Give the base image of a target, and the packages that the recipes add to it."""
    from envspec.export.make import make_plan

    try:
        plan = make_plan(spec, lock, target)
    except InputError:
        # no recipe is possible, and an environment on some machine is all the same
        return spec.image.base, spec.image.apt
    return plan.base.name, plan.debian


def _lines(answer: _Answer) -> Iterator[str]:
    files = sum(len(package.facts.files) for package in answer.packages)
    read = f"{plural(files, 'compiled file')} of {plural(len(answer.packages), 'wheel')}"
    errors = sum(finding.severity == "error" for finding in answer.findings)
    there = "nothing is missing in these" if answer.unread else "all that importing needs is there"
    verdict = styled(plural(errors, "error"), "red;bold") if errors else there
    yield f"{answer.target.name}: {read}: {verdict}"
    for finding in answer.findings:
        what = printable(f"{finding.package} {finding.evidence.version}")
        yield f"  {styled(finding.severity, _COLOURS[finding.severity])}  {what}  {finding.code}"
        yield f"    {printable(finding.message)}"
        yield f"    → {printable(str(finding.remedy))}"
    if answer.unread:
        conda = sum(pin.kind == "conda" for pin in answer.unread)
        built = [pin.name for pin in answer.unread if pin.kind != "conda"]
        parts = [plural(conda, "conda package")] if conda else []
        parts += [f"{', '.join(built)}, which installing compiles"] if built else []
        yield f"  not read: {'; '.join(parts)}"


def _document(path: str, answers: Sequence[_Answer]) -> dict[str, Any]:
    from envspec.prove.link.target import torch_abi

    return {
        "spec": path,
        "ok": all(answer.is_ok for answer in answers),
        "targets": [
            {
                "name": answer.target.name,
                "ok": answer.is_ok,
                "packages": [
                    {
                        "name": package.name,
                        "version": package.version,
                        "file": package.file,
                        "files": len(package.facts.files),
                        "torch_abi": torch_abi(package.facts),
                    }
                    for package in answer.packages
                ],
                "unread": [{"kind": pin.kind, "name": pin.name, "version": pin.version} for pin in answer.unread],
                "findings": [_finding(finding) for finding in answer.findings],
                "compiled": None,
            }
            for answer in answers
        ],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    about = {name: getattr(finding, name) for name in ("code", "package", "file", "message", "remedy")}
    return {"level": finding.severity, **about, **asdict(finding.evidence)}
