"""`envspec doctor`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from envspec.app import inputs
from envspec.app.edition import tell_edition
from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out
from envspec.cli.table import aligned_each, coloured

if TYPE_CHECKING:
    from pathlib import Path

    from envspec.base.finding import Finding
    from envspec.prove.doctor.feasibility import Feasibility
    from envspec.prove.doctor.hardware import Hardware
    from envspec.prove.doctor.result import Result

EPILOG = """\b
Examples:
  envspec doctor                                   this machine
  envspec doctor specs/mm-v2.9.toml                the spec on this machine
  envspec doctor specs/mm-v2.9.toml --gpu H100 --driver 535.104

\b
Exit codes: 0 no error was found, 1 an error was found, 2 the input is wrong.
"""

_DRIVER = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}")
_GLIBC = re.compile(r"2\.(0|[1-9][0-9]?)")


@click.command(epilog=EPILOG)
@click.argument("path", metavar="[SPEC]", required=False, shell_complete=options.complete("spec_paths"))
@options.target
@options.gpu('Judge for this GPU: "H100", "hopper", "sm_90". Repeatable.')
@click.option("--driver", metavar="VERSION", help="Judge for machines with this NVIDIA driver.")
@click.option("--glibc", metavar="VERSION", help="Judge for machines with this glibc.")
@options.locks_dir
@options.as_json
def command(
    path: str | None,
    targets: tuple[str, ...],
    gpus: tuple[str, ...],
    driver: str | None,
    glibc: str | None,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """Diagnose this machine, or a spec on given hardware: findings with remedies

    Without SPEC, envspec examines this machine. With SPEC, envspec judges its targets on this machine's GPUs, driver
    and glibc. With --gpu, --driver or --glibc, it judges them on those and ignores this machine. A lock that can't be
    right makes its targets infeasible. envspec shows what the site's policy demands and whom to ask; what the policy
    forbids of the spec is an error.
    """
    tell_edition()
    if path is None:
        _refuse_without_spec(targets, gpus, driver, glibc)
        return _machine(as_json)
    return _spec(path, targets, _described(gpus, driver, glibc), locks_dir, as_json)


def _refuse_without_spec(targets: tuple[str, ...], gpus: tuple[str, ...], *versions: str | None) -> None:
    if gpus or any(versions):
        gpu = f" --gpu {gpus[0]}" if gpus else ""
        raise InputError(
            "--gpu, --driver and --glibc need a SPEC to judge",
            hint=f"`envspec builds torch{gpu}` shows which torch runs on a GPU",
        )
    if targets:
        raise InputError("--target needs a SPEC", hint="envspec doctor specs/NAME.toml --target NAME")


def _machine(as_json: bool) -> int:
    from envspec.app.doctor_policy import policy_results
    from envspec.prove.doctor.examine import examine
    from envspec.prove.doctor.gather import gather

    machine = gather()
    results = (*examine(machine), *_git_results(), *policy_results())
    failed = any(result.state == "error" for result in results)
    if as_json:
        _print_json(failed, checks=results, hardware=None, spec=None)
    else:
        out("\n".join(_check_lines(results)))
    return AnswerNo.exit_code if failed else 0


def _git_results() -> tuple[Result, ...]:
    """Say where git's configuration has a driver that runs modules of the folder that git is in; empty without one."""
    from pathlib import Path

    from envspec.base.errors import ToolError
    from envspec.base.finding import Finding
    from envspec.prove.doctor.result import Result
    from envspec.review.git.setup import old_drivers

    try:
        found = old_drivers(Path.cwd())
    except (ToolError, OSError):
        return ()
    findings = tuple(
        Finding(
            "error",
            "git-driver-old",
            f"{file}: git's driver for locks imports what lies in a repository",
            remedy=command,
        )
        for file, command in found.items()
    )
    return (Result("git drivers", "ok", "any repository can run code in `git diff`", findings),) if findings else ()


def _spec(
    path: str, targets: tuple[str, ...], described: Hardware | None, locks_dir: Path | None, as_json: bool
) -> int:
    from envspec.app.site_policy import site_policy
    from envspec.prove.doctor.feasibility import assess, overall
    from envspec.spec.targets import refuse_unknown_targets

    spec = inputs.read_spec(path)
    refuse_unknown_targets(targets, [target.name for target in spec.targets], spec.path)
    results: tuple[Result, ...] = ()
    if described is None:
        from envspec.prove.doctor.examine import CPU, HARDWARE, examine
        from envspec.prove.doctor.gather import gather_hardware
        from envspec.prove.doctor.hardware import hardware_of

        machine = gather_hardware()
        results = examine(machine, HARDWARE if any(target.cuda for target in spec.targets) else CPU)
        described = hardware_of(machine)
    verdicts = assess(spec, described, targets)
    of_lock: tuple[Finding, ...] = ()
    if inputs.has_lock(spec, locks_dir):
        from envspec.app.doctor_lock import with_lock

        verdicts, of_lock = with_lock(spec, verdicts, locks_dir)
    general = (*overall(spec, described), *of_lock)
    policy = site_policy()
    if policy is not None:
        from envspec.app.doctor_policy import forbidden

        general += forbidden(policy, spec, locks_dir)
    failed = (
        any(result.state == "error" for result in results)
        or any(verdict.status == "infeasible" for verdict in verdicts)
        or any(finding.severity == "error" for finding in general)
    )
    if as_json:
        _print_json(failed, checks=results, hardware=described, spec=path, findings=general, verdicts=verdicts)
    else:
        heading = f"{path} on {_hardware_line(described)}"
        out("\n".join([*_check_lines(results), *([""] if results else []), heading]))
        out("\n".join([*_finding_lines(general), *_verdict_lines(verdicts)]))
    return AnswerNo.exit_code if failed else 0


def _described(gpus: tuple[str, ...], driver: str | None, glibc: str | None) -> Hardware | None:
    """Give the hardware that the options describe, None without such options. Raises InputError."""
    if not (gpus or driver or glibc):
        return None
    from envspec.app.gpu_names import known_gpus
    from envspec.prove.doctor.hardware import Hardware

    if driver is not None and not _DRIVER.fullmatch(driver):
        raise InputError(
            f'--driver: "{printable(driver)}" is not a driver version',
            hint="for example 570.86.15: nvidia-smi shows it",
        )
    if glibc is not None and not _GLIBC.fullmatch(glibc):
        raise InputError(
            f'--glibc: "{printable(glibc)}" is not a glibc version',
            hint="for example 2.28: ldd --version shows it",
        )
    known_gpus(gpus)
    return Hardware(gpus=tuple(dict.fromkeys(gpus)), driver=driver, glibc=glibc)


def _check_lines(results: tuple[Result, ...]) -> Iterator[str]:
    rows = [(result.check, result.state.ljust(7), printable(result.summary)) for result in results]
    for lines, result in zip(aligned_each(rows), results, strict=True):
        yield from lines
        yield from _finding_lines(result.findings)


def _verdict_lines(verdicts: tuple[Feasibility, ...]) -> Iterator[str]:
    told = (verdict.reason or (f"torch {', '.join(verdict.torch)}" if verdict.torch else "") for verdict in verdicts)
    rows = [(verdict.target, verdict.status.ljust(10), why) for verdict, why in zip(verdicts, told, strict=True)]
    for lines, verdict in zip(aligned_each(rows), verdicts, strict=True):
        yield from lines
        yield from _finding_lines(verdict.findings)


def _finding_lines(findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        place = f"{finding.place}: " if finding.place else ""
        yield f"  {coloured(finding.severity)}: {printable(place + finding.text)}  [{finding.code}]"
        if finding.remedy:
            yield f"    remedy: {printable(finding.remedy)}"


def _hardware_line(hardware: Hardware) -> str:
    parts = [
        ", ".join(hardware.gpus) if hardware.gpus else "the targets' own GPUs",
        f"driver {hardware.driver}" if hardware.driver else "",
        f"glibc {hardware.glibc}" if hardware.glibc else "",
        hardware.platform or "",
    ]
    return ", ".join(part for part in parts if part)


def _print_json(
    failed: bool,
    *,
    checks: tuple[Result, ...],
    hardware: Hardware | None,
    spec: str | None,
    findings: tuple[Finding, ...] = (),
    verdicts: tuple[Feasibility, ...] = (),
) -> None:
    options.print_json(
        "doctor",
        {
            "ok": not failed,
            "checks": [
                {
                    "check": result.check,
                    "state": result.state,
                    "status": result.status,
                    "summary": result.summary,
                    "findings": [_finding(finding) for finding in result.findings],
                }
                for result in checks
            ],
            "spec": spec,
            "hardware": hardware
            and {
                "gpus": list(hardware.gpus),
                "driver": hardware.driver,
                "glibc": hardware.glibc,
                "platform": hardware.platform,
            },
            "findings": [_finding(finding) for finding in findings],
            "targets": [
                {
                    "target": verdict.target,
                    "status": verdict.status,
                    "reason": verdict.reason,
                    "torch": list(verdict.torch),
                    "findings": [_finding(finding) for finding in verdict.findings],
                }
                for verdict in verdicts
            ],
        },
    )


def _finding(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "severity": finding.severity,
        "code": finding.code,
        "message": finding.text,
        "remedy": finding.remedy,
        "file": place.file if place else None,
        "line": place.line or None if place else None,
        "column": place.column or None if place else None,
    }
