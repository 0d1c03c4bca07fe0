"""Link's proof without a GPU: the loader finds all that a target's wheels need, and their compilers make code for its
GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from envspec.app import inputs
from envspec.app.base import refuse_changed_base
from envspec.app.cache_size import prune_to_limit
from envspec.app.collecting import collect
from envspec.app.evidence import keep
from envspec.app.image.base import open_base, read_within
from envspec.app.observer import observer, say
from envspec.app.policy import refuse_target
from envspec.base.errors import IndexFailure, InputError
from envspec.base.finding import Finding, errors
from envspec.base.scratch import scratch_folder
from envspec.base.texts import byte_size, plural
from envspec.binaries.wheel import UnreadableWheel
from envspec.configuration.settings import load_settings
from envspec.export.make import make_plan
from envspec.facts.cuda_stack import TORCH, is_toolkit
from envspec.image.holdings import (
    facts_of_libraries,
    libraries_here,
    libraries_within,
    packages_of,
    paths_of_libraries,
)
from envspec.install.build import BuildRules, BuiltWheels
from envspec.install.host import this_host
from envspec.install.on_base import any_base
from envspec.lock.conda_files import artifact_of
from envspec.lock.model import LockedTarget, Pin, SoundLock
from envspec.lock.shared_paths import in_install_order
from envspec.prove.compiles.build import Compilation, Compiled, compile_target, holders
from envspec.prove.link.judge import judge
from envspec.prove.link.model import ElfFile, LinkedPackage, WheelFacts
from envspec.prove.link.store import MACHINES, LinkStore, read_wheel
from envspec.prove.link.system import is_read, system_of, torch_abi
from envspec.spec.model import ON_MACHINES, Spec


class LinkRequest(Struct, frozen=True):
    """The targets of a lock, all that can be judged without names, and the folder for the records of what is proved."""

    path: str
    targets: tuple[str, ...]
    locks_dir: Path | None
    evidence: Path | None
    offline: bool


class LinkedTarget(Struct, frozen=True):
    """The loader's refusals for a target. `packages` are those with compiled code, `unread` those that link doesn't
    read."""

    target: LockedTarget
    packages: Sequence[LinkedPackage]
    findings: Sequence[Finding]
    unread: Sequence[Pin]

    @property
    def ok(self) -> bool:
        return not errors(self.findings)


def link(request: LinkRequest) -> tuple[Spec, list[LinkedTarget]]:
    """Judge what the targets' wheels need of each other, of the base image and of the driver.

    Raises as `read_lock`; InputError where a named target, or every one, isn't for Linux; IndexFailure, StorageError.
    """
    spec, lock, targets = _choose_targets(request, _not_elf, "link reads the libraries of Linux")
    facts, out_of_reach = _facts_by_target(spec, targets, request)
    prune_to_limit()
    linked = []
    for target in targets:
        if target.name in out_of_reach:
            continue
        built = _built_wheels(spec, target)
        packages = {
            pin: LinkedPackage(pin.name, pin.version, artifact_of(pin).file, facts[artifact_of(pin).sha256])
            if pin.is_wheel
            else built[pin]
            for pin in in_install_order(target)
            if pin.is_wheel or pin in built
        }
        unread = [pin for pin in target.pins if not pin.is_wheel and pin not in built]
        locked = {name for pin in target.pins for name in (pin.name, *pin.provides)}
        below = list(_packages_below(spec, lock, target, {pin.name for pin in target.pins}, offline=request.offline))
        locked |= dict(target.provided).keys()
        findings = judge([*below, *packages.values()], system_of(target, *_base(spec, lock, target)), locked)
        # whether the base's own fit each other is its maker's matter
        own = {package.name for package in below}
        findings = tuple(finding for finding in findings if finding.package not in own)
        compiled = [package for pin, package in packages.items() if pin in built or is_read(pin)]
        linked.append(LinkedTarget(target, sorted(compiled, key=lambda package: package.name), findings, unread))
    if request.evidence is not None:
        keep(request.evidence, "linked", lock, [result.target for result in linked if result.ok and not result.unread])
    for failure in out_of_reach.values():
        raise failure
    return spec, linked


def _built_wheels(spec: Spec, target: LockedTarget) -> dict[Pin, LinkedPackage]:
    """Give the packages that this machine has built for a target from their sources, read as the other wheels are.
    Raises IndexFailure, OSError."""
    host, built = this_host(), {}
    if host.platform != target.inputs.platform:
        return {}
    rules, wheels = BuildRules.of(spec, target), BuiltWheels(load_settings(os.environ).cache())
    for pin in filter(rules.builds, target.pins):
        path = wheels.find(rules.key(pin, host))
        if path is not None:
            try:
                facts = read_wheel(path, MACHINES[host.platform])
            except UnreadableWheel as error:
                raise IndexFailure(f"{path.name} can't be read: {error}") from None
            built[pin] = LinkedPackage(pin.name, pin.version, path.name, facts)
    return built


def _packages_below(
    spec: Spec, lock: SoundLock, target: LockedTarget, locked: Collection[str], *, offline: bool
) -> Iterator[LinkedPackage]:
    """Read the libraries that a target's base has, but for those of packages that the lock replaces. Raises InputError,
    IndexFailure, ToolError, StorageError."""
    base, machine = any_base(lock, target), MACHINES[target.inputs.platform]
    if base is None or spec.base is None:
        return
    if spec.base.kind in ON_MACHINES:
        libraries = libraries_here(base, machine)
    else:
        libraries = _libraries_within(spec, lock, target, offline=offline)
    yield from (package for package in packages_of(base.inventory, libraries) if package.name not in locked)


def _libraries_within(
    spec: Spec, lock: SoundLock, target: LockedTarget, *, offline: bool
) -> Iterator[tuple[bool, ElfFile]]:
    """Read the libraries of an image or a SIF: once, for its digest."""
    inventory, machine = lock.inventories[target.inputs.platform], MACHINES[target.inputs.platform]
    digest, store = (inventory.digest or "").removeprefix("sha256:"), LinkStore(load_settings(os.environ).cache())
    known = store.get(digest, machine)
    if known is None:
        with scratch_folder(load_settings(os.environ).scratch()) as scratch, ExitStack() as stack:
            progress = stack.enter_context(observer().progress(f"reading the libraries of {inventory.source}"))
            paths, plan = paths_of_libraries(inventory, machine, scratch), make_plan(spec, lock, target)
            opened = open_base(plan, None, progress.came, offline=offline)
            contents = read_within(spec, plan, paths, lambda: stack.enter_context(opened)).files
        known = facts_of_libraries(contents)
        store.put(digest, machine, known)
    return libraries_within(inventory, known)


def _facts_by_target(
    spec: Spec, targets: Sequence[LockedTarget], request: LinkRequest
) -> tuple[dict[str, WheelFacts], dict[str, IndexFailure]]:
    """Give the facts of wheels. Where records are kept, a target whose index can't be reached costs its siblings
    nothing: the failures stand beside, by target."""
    if request.evidence is None:
        return dict(_facts(spec, targets, offline=request.offline)), {}
    facts: dict[str, WheelFacts] = {}
    failures = {}
    for target in targets:
        try:
            facts.update(_facts(spec, [target], offline=request.offline))
        except IndexFailure as failure:
            failures[target.name] = failure
    return facts, failures


def compile_kernels(request: LinkRequest) -> tuple[Spec, list[Compiled]]:
    """Compile a kernel for each of the targets' GPUs with the compilers in their wheels.

    Raises as `read_lock`; InputError where a named target, or every one, has no compiler that this machine runs;
    IndexFailure, StorageError.
    """
    spec, lock, targets = _choose_targets(request, _not_runnable, "there is nothing to compile with")
    pins = {(pin.index, pin.artifact): pin for target in targets for pin in holders(target).values()}
    size = sum(pin.artifact.size or 0 for pin in pins.values() if pin.artifact)
    say(f"running the compilers in {plural(len(pins), 'wheel')} ({byte_size(size)})")
    paths = collect(spec, list(pins.values()), offline=request.offline)
    prune_to_limit()
    results: list[Compiled] = []
    with scratch_folder(load_settings(os.environ).scratch()) as scratch:
        for target in targets:
            folder = scratch / str(len(results))
            folder.mkdir()
            try:
                results.append(compile_target(target, paths, folder))
            except UnreadableWheel as error:
                raise IndexFailure(f"a wheel of {target.name} can't be read: {error}") from None
    if request.evidence is not None:
        proved = [target for target, result in zip(targets, results, strict=True) if result.ok]
        keep(
            request.evidence,
            "compiles",
            lock,
            proved,
            {result.target: list(map(_row, result.compilations)) for result in results},
        )
    return spec, results


def document(result: LinkedTarget | Compiled) -> dict[str, Any]:
    """Give what was proved of a target for JSON."""
    if not isinstance(result, LinkedTarget):
        head = {"name": result.target, "ok": result.ok, "packages": [], "unread": [], "findings": []}
        return {**head, "compiled": list(map(_row, result.compilations)), "absent": result.absent}
    return {
        "name": result.target.name,
        "ok": result.ok,
        "packages": [
            {
                **_fields(package, "name", "version", "file"),
                "files": len(package.facts.files),
                "torch_abi": torch_abi(package.facts),
            }
            for package in result.packages
        ],
        "unread": [_fields(pin, "kind", "name", "version") for pin in result.unread],
        "findings": [
            {**finding.document, "level": finding.severity, "file": finding.file, **asdict(finding.evidence)}
            for finding in result.findings
        ],
        "compiled": None,
    }


def _fields(value: object, *names: str) -> dict[str, Any]:
    return {name: getattr(value, name) for name in names}


def _row(compilation: Compilation) -> dict[str, Any]:
    compiler = {
        "compiler": compilation.compiler.name,
        "package": compilation.compiler.package,
        "version": compilation.compiler.version,
    }
    return {**to_builtins(compilation), **compiler, "ok": compilation.ok}


def _choose_targets(
    request: LinkRequest, unfit: Callable[[LockedTarget], str | None], refusal: str
) -> tuple[Spec, SoundLock, list[LockedTarget]]:
    """Read the lock and choose its targets that aren't unfit for a reason. Raises InputError where none is left, or one
    of those that are named isn't fit."""
    spec, lock = inputs.read_lock(request.path, request.locks_dir, on_base=True)
    refuse_changed_base(spec, lock)
    targets = inputs.locked_targets(lock, request.targets)
    unfit_targets = {target.name: reason for target in targets if (reason := unfit(target))}
    reasons = "; ".join(f"{name} {reason}" for name, reason in unfit_targets.items())
    if unfit_targets and (request.targets or len(unfit_targets) == len(targets)):
        raise InputError(f"{refusal}: {reasons}", hint="choose other targets with --target")
    if unfit_targets:
        say(f"left out: {reasons}")
    chosen = [target for target in targets if target.name not in unfit_targets]
    for target in chosen:
        refuse_target(spec, lock, target, request.path, offline=request.offline)
    return spec, lock, chosen


def _not_elf(target: LockedTarget) -> str | None:
    return None if target.inputs.platform in MACHINES else f"is for {target.inputs.platform}"


def _not_runnable(target: LockedTarget) -> str | None:
    if target.inputs.cuda is None:
        return "is for CPUs"
    here, platform = this_host().platform, target.inputs.platform
    return None if platform == here else f"has compilers for {platform}, and this machine is {here}"


def _facts(spec: Spec, targets: Sequence[LockedTarget], *, offline: bool) -> Mapping[str, WheelFacts]:
    """Give the facts of the targets' wheels by sha256: from the cache, or from the wheels themselves.

    Raises IndexFailure, StorageError.
    """
    store = LinkStore(load_settings(os.environ).cache())
    facts: dict[str, WheelFacts] = {}
    missing: dict[str, tuple[Pin, int]] = {}
    for target in targets:
        machine = MACHINES[target.inputs.platform]
        for pin in filter(lambda pin: pin.is_wheel, target.pins):
            digest = artifact_of(pin).sha256
            known = store.get(digest, machine)
            if known is None:
                missing[digest] = pin, machine
            else:
                facts[digest] = known
    if not missing:
        return facts
    pins = [pin for pin, _ in missing.values()]
    say("\n".join(_reading_notice(pins)))
    paths = collect(spec, pins, offline=offline)
    with observer().progress("reading", sum(path.stat().st_size for path in paths.values())) as progress:
        for digest, (pin, machine) in missing.items():
            file = artifact_of(pin).file
            path = paths[pin.index, file]
            try:
                facts[digest] = read_wheel(path, machine)
            except UnreadableWheel as error:
                raise IndexFailure(f"{file} can't be read: {error}") from None
            store.put(digest, machine, facts[digest])
            progress.came(path.stat().st_size)
    return facts


def _reading_notice(pins: Sequence[Pin]) -> Iterator[str]:
    """Report the bytes to read, and their largest part: torch's and CUDA's wheels, where no facts on them are known."""
    sizes = [artifact_of(pin).size for pin in pins]
    size, unknown = byte_size(sum(size or 0 for size in sizes)), sizes.count(None)
    and_more = f" and {unknown} of unknown size" if unknown else ""
    yield f"reading {plural(len(pins), 'wheel')} ({size}{and_more}), once: what they say is kept"
    named = [f"{pin.name} {pin.version} of {pin.index}" for pin in pins if pin.name in TORCH]
    cuda = sum(is_toolkit(pin.name) for pin in pins)
    if named or cuda:
        named += [plural(cuda, "CUDA package")] if cuda else []
        yield f"what these say doesn't come with envspec: {', '.join(named)}"


def _base(spec: Spec, lock: SoundLock, target: LockedTarget) -> tuple[str, Sequence[str]]:
    """Give the base image of a target, and the packages that the recipes add to it."""
    if spec.base is not None:
        return spec.base.place, ()
    try:
        plan = make_plan(spec, lock, target)
    except InputError:
        # no recipe is possible, and an environment on some machine is all the same
        return spec.image.base, spec.image.apt
    return plan.image.base.name, plan.image.debian
