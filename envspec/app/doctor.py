"""Doctor's diagnosis: of this machine, or of a spec, its lock and the site's policy on given hardware."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from envspec.app import inputs
from envspec.app.gpu_names import known_gpus
from envspec.app.site_policy import site_policy
from envspec.base.errors import InputError, LockError, ToolError
from envspec.base.finding import Finding, errors
from envspec.base.redact import redact
from envspec.base.texts import printable
from envspec.lock.model import Lock
from envspec.lock.read import NewerLock
from envspec.prove.doctor.examine import CPU, HARDWARE, examine
from envspec.prove.doctor.feasibility import Feasibility, Hardware, assess, hardware_of, overall
from envspec.prove.doctor.result import Result
from envspec.rules.judge import Verdict, judge
from envspec.spec.model import Spec, Target
from envspec.spec.targets import refuse_unknown_targets

if TYPE_CHECKING:
    from envspec.lock.store import LockFile


class Diagnosis(Struct, frozen=True):
    """Doctor's findings.

    checks    of this machine; empty where other hardware was described
    hardware  what the spec was judged on; None without a spec
    findings  of the spec as a whole
    """

    checks: tuple[Result, ...]
    hardware: Hardware | None = None
    findings: tuple[Finding, ...] = ()
    targets: tuple[Feasibility, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether no finding is an error."""
        failed = any(check.state == "error" for check in self.checks)
        return not (failed or errors(self.findings) or any(verdict.status == "infeasible" for verdict in self.targets))


def examine_machine() -> Diagnosis:
    """Examine this machine, git's configuration, envspec's own, and the site's policy."""
    from envspec.prove.doctor.gather import gather

    return Diagnosis((*examine(gather()), *_git_drivers(), *_configuration(), *_policy()))


_DRIVER = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}")
_GLIBC = re.compile(r"2\.(0|[1-9][0-9]?)")


def described_hardware(gpus: tuple[str, ...], driver: str | None, glibc: str | None) -> Hardware | None:
    """Give the hardware that the options describe, None without such options. Raises InputError."""
    if not (gpus or driver or glibc):
        return None
    given = (("driver", driver, _DRIVER, "570.86.15: nvidia-smi"), ("glibc", glibc, _GLIBC, "2.28: ldd --version"))
    for name, version, pattern, example in given:
        if version is not None and not pattern.fullmatch(version):
            shown = printable(version)
            raise InputError(f'--{name}: "{shown}" is not a {name} version', hint=f"for example {example} shows it")
    known_gpus(gpus)
    return Hardware(gpus=tuple(dict.fromkeys(gpus)), driver=driver, glibc=glibc)


def judge_spec(
    path: str, targets: Sequence[str], hardware: Hardware | None, locks_dir: Path | None, *, imports: bool = False
) -> Diagnosis:
    """Judge a spec, the named targets or all, on described hardware, or on this machine's. With `imports`, the sources
    beside it are read.

    Raises SpecError, InputError for an unknown target, PolicyError, ToolError, StorageError.
    """
    spec = inputs.read_spec(path)
    refuse_unknown_targets(targets, [target.name for target in spec.targets], spec.path)
    checks: tuple[Result, ...] = ()
    if hardware is None:
        from envspec.prove.doctor.gather import gather_hardware

        machine = gather_hardware()
        checks = examine(machine, HARDWARE if any(target.cuda for target in spec.targets) else CPU)
        hardware = hardware_of(machine)
    if spec.base is not None:
        # its Python is the base's
        hardware = replace(hardware, pythons=None)
    general = overall(spec, hardware)
    file, relock = None, f"envspec lock {spec.path}{inputs.elsewhere(locks_dir)}"
    if inputs.has_lock(spec, locks_dir):
        try:
            file = inputs.folder_of(spec, locks_dir).read_with_signature()
        except LockError as error:
            code = "lock-newer" if isinstance(error, NewerLock) else "lock-damaged"
            general += (Finding("error", code, str(error), remedy=error.hint or relock),)
    verdicts = assess(spec, hardware, targets, _with_pins(_judging(spec, file.lock if file else None, relock), file))
    if file is not None:
        of_lock = tuple(_of_lock(spec, file.lock, relock))
        verdicts = tuple(_with(verdict, of_lock) for verdict in verdicts)
    if imports and file is not None:
        from envspec.app.imports import of_imports

        general += of_imports(spec, file.lock)
    return Diagnosis(checks, hardware, (*general, *_forbidden(spec, file)), verdicts)


def _judging(spec: Spec, lock: Lock | None, relock: str) -> Callable[[Spec, Target], Verdict]:
    """Give what judges targets: on a base by its inventory, which is beside the lock. Raises InputError without it."""
    if spec.base is None:
        return judge
    from envspec.resolve.workflow.base import judge_on_base

    known = lock.inventories if lock else {}
    if any(target.platform not in known for target in spec.targets):
        raise InputError(f"{spec.path} has no inventory of its base beside the lock, to judge it by", hint=relock)
    replaced = spec.base.replace
    return lambda own, target: judge_on_base(own, target, known[target.platform], replaced)


def _with_pins(judge: Callable[[Spec, Target], Verdict], file: LockFile | None) -> Callable[[Spec, Target], Verdict]:
    """Give what judges targets and, where nothing stands against one, what a lock pins for it on the same GPUs."""
    if file is None:
        return judge
    from envspec.lock.pinned import judge_by_gpus

    lock = file.lock

    def of_both(spec: Spec, target: Target) -> Verdict:
        verdict, locked = judge(spec, target), lock.target(target.name)
        of_pins = judge_by_gpus(spec, target, locked) if locked and not verdict.errors else ()
        return replace(verdict, findings=tuple(dict.fromkeys((*errors(of_pins), *verdict.findings, *of_pins))))

    return of_both


def _of_lock(spec: Spec, lock: Lock, relock: str) -> Iterator[Finding]:
    """Find what can't be right in a lock, and as warnings what today's facts give otherwise."""
    from envspec.lock.inputs import spec_case
    from envspec.lock.judge import flaws_of

    for flaw in flaws_of(lock, spec_case(spec)):
        whose = "its lock can't be right" if flaw.severity == "error" else "its lock"
        yield Finding(flaw.severity, flaw.code, f"{whose}: {flaw.message}", remedy=relock, targets=flaw.targets)


def _with(verdict: Feasibility, of_lock: Sequence[Finding]) -> Feasibility:
    own = tuple(replace(finding, targets=()) for finding in of_lock if verdict.target in finding.targets)
    findings = (*verdict.findings, *own)
    if not errors(own):
        return replace(verdict, findings=findings)
    return (
        verdict if verdict.status == "elsewhere" else replace(verdict, status="infeasible", torch=(), findings=findings)
    )


def _forbidden(spec: Spec, file: LockFile | None) -> tuple[Finding, ...]:
    """Find what the site's policy forbids of a spec and its lock. Raises PolicyError, ToolError."""
    policy = site_policy()
    if policy is None:
        return ()
    from envspec.app.policy import ask, judge_file
    from envspec.review.policy import judge

    breaches = judge.judge_spec(policy, spec)
    if file is not None:
        breaches += judge.judge_lock(policy, file.lock) + judge_file(policy, file)
    return tuple(replace(breach, remedy=ask(policy)) for breach in breaches)


def _configuration() -> tuple[Result, ...]:
    """Give what is configured, each value with the file that says it; empty where nothing is."""
    from envspec.configuration.settings import configured_values

    try:
        values = configured_values(os.environ)
    except InputError as error:
        broken = Finding("error", "configuration-broken", error.message, error.place, error.hint)
        return (Result("configuration", "unknown", "envspec's configuration can't be used", (broken,)),)
    findings = tuple(
        Finding("info", "configured", f"{key} = {redact(value)} ({where})") for key, value, where in values
    )
    return (Result("configuration", "ok", "what counts here, and where it's from", findings),) if findings else ()


def _policy() -> tuple[Result, ...]:
    """Give what the policy demands, and whom to ask; empty where the site has none."""
    from envspec.review.policy import judge, schema

    try:
        policy = site_policy()
    except schema.PolicyError as error:
        broken = Finding("error", "policy-broken", error.message, error.place, error.hint)
        return (Result("policy", "unknown", "the site's policy can't be used", (broken,)),)
    if policy is None:
        return ()
    findings = tuple(Finding("info", "policy", f"{key}: {sentence}") for key, sentence in judge.rules(policy))
    return (Result("policy", "ok", f"{policy.path} says what is allowed here; ask {policy.contact}", findings),)


def _git_drivers() -> tuple[Result, ...]:
    """Find git's configurations with a driver that runs modules of the folder that git is in; empty without one."""
    from envspec.review.git.setup import old_drivers

    try:
        commands = old_drivers(Path.cwd())
    except (ToolError, OSError):
        return ()
    findings = tuple(
        Finding(
            "error", "git-driver-old", f"{file}: git's driver for locks imports what lies in a repository", remedy=fix
        )
        for file, fix in commands.items()
    )
    return (Result("git drivers", "ok", "any repository can run code in `git diff`", findings),) if findings else ()
