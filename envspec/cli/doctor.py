"""`envspec doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from envspec.app.doctor import Diagnosis, described_hardware, examine_machine, judge_spec
from envspec.app.edition import edition_findings
from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import place_json, print_diagnostics
from envspec.cli.table import align_rows, finding_lines

if TYPE_CHECKING:
    from pathlib import Path

    from envspec.base.finding import Finding
    from envspec.prove.doctor.feasibility import Hardware

EPILOG = """\b
Examples:
  envspec doctor                                   this machine
  envspec doctor specs/mm-v2.9.toml                the spec on this machine
  envspec doctor specs/mm-v2.9.toml --gpu H100 --driver 535.104

Exit codes: 0 no error was found, 1 an error was found, 2 the input is wrong.
"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="[SPEC]", required=False, shell_complete=options.complete("spec_paths"))
@options.target
@options.gpu('Judge for this GPU: "H100", "hopper", "sm_90". Repeatable.')
@click.option("--driver", metavar="VERSION", help="Judge for machines with this NVIDIA driver.")
@click.option("--glibc", metavar="VERSION", help="Judge for machines with this glibc.")
@options.imports
@options.locks_dir
@options.as_json
def command(
    path: str | None,
    targets: tuple[str, ...],
    gpus: tuple[str, ...],
    driver: str | None,
    glibc: str | None,
    imports: bool,
    locks_dir: Path | None,
) -> int:
    """Diagnose this machine, or a spec on given hardware: findings with remedies

    Without SPEC, envspec examines this machine. With SPEC, envspec judges its targets on this machine's GPUs, driver
    and glibc. With --gpu, --driver or --glibc, it judges them on those and ignores this machine. envspec also
    judges the lock's pins on the same GPUs, by the code in their wheels. A contradictory lock makes its targets
    infeasible. envspec shows the site policy's demands and its contact; a spec against the policy is an error.
    """
    print_diagnostics(edition_findings())
    if path is None:
        _refuse_without_spec(targets, gpus, driver, glibc)
        if imports:
            raise InputError("--imports needs a SPEC", hint="envspec doctor specs/NAME.toml --imports")
        diagnosis = examine_machine()
    else:
        diagnosis = judge_spec(path, targets, described_hardware(gpus, driver, glibc), locks_dir, imports=imports)
    options.answer("doctor", _document(path, diagnosis), _lines(path, diagnosis))
    return 0 if diagnosis.ok else AnswerNo.exit_code


def _refuse_without_spec(targets: tuple[str, ...], gpus: tuple[str, ...], *versions: str | None) -> None:
    if gpus or any(versions):
        gpu = f" --gpu {quote(gpus[0])}" if gpus else ""
        hint = f"`envspec builds torch{gpu}` shows which torch runs on a GPU"
        raise InputError("--gpu, --driver and --glibc need a SPEC to judge", hint=hint)
    if targets:
        raise InputError("--target needs a SPEC", hint="envspec doctor specs/NAME.toml --target NAME")


def _lines(path: str | None, diagnosis: Diagnosis) -> Iterator[str]:
    rows = [(check.check, check.state.ljust(7), printable(check.summary)) for check in diagnosis.checks]
    for lines, check in zip(align_rows(rows), diagnosis.checks, strict=True):
        yield from lines
        yield from finding_lines(check.findings)
    if diagnosis.hardware is None:
        return
    if rows:
        yield ""
    yield f"{path} on {_hardware_line(diagnosis.hardware)}"
    yield from finding_lines(diagnosis.findings)
    reasons = (
        verdict.reason or (f"torch {', '.join(verdict.torch)}" if verdict.torch else "")
        for verdict in diagnosis.targets
    )
    rows = [
        (verdict.target, verdict.status.ljust(10), why) for verdict, why in zip(diagnosis.targets, reasons, strict=True)
    ]
    for lines, verdict in zip(align_rows(rows), diagnosis.targets, strict=True):
        yield from lines
        yield from finding_lines(verdict.findings)


def _hardware_line(hardware: Hardware) -> str:
    parts = [
        ", ".join(hardware.gpus) if hardware.gpus else "the targets' own GPUs",
        f"driver {hardware.driver}" if hardware.driver else "",
        f"glibc {hardware.glibc}" if hardware.glibc else "",
        hardware.platform or "",
    ]
    return ", ".join(part for part in parts if part)


def _document(path: str | None, diagnosis: Diagnosis) -> dict[str, Any]:
    hardware = diagnosis.hardware
    return {
        "ok": diagnosis.ok,
        "checks": [
            {**asdict(check), "state": check.state, "findings": _findings(check.findings)} for check in diagnosis.checks
        ],
        "spec": path,
        "hardware": hardware and {name: value for name, value in asdict(hardware).items() if name != "pythons"},
        "findings": _findings(diagnosis.findings),
        "targets": [{**asdict(verdict), "findings": _findings(verdict.findings)} for verdict in diagnosis.targets],
    }


def _findings(findings: tuple[Finding, ...]) -> list[dict[str, Any]]:
    return [{**finding.document, **place_json(finding.place)} for finding in findings]
