"""The smoke check's session over stand-ins: a runner that answers as torch would, and starts no process."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import envspec_check.checks
import envspec_check.workloads  # noqa: F401
from envspec_check.interface import CHECKS, Check, Context, Outcome, failed, passed
from envspec_check.report import Progress
from envspec_check.session import Session

A100 = {"name": "NVIDIA A100", "capability": "8.0", "memory_bytes": 80 << 30}
TARGETS: dict[str, dict[str, Any]] = {"cu128": {"cuda": "12.8", "architectures": ["sm_80"]}, "cpu": {}}


@dataclass
class StandInRunner:
    """Passes every check; its probe sees so many GPUs. `ran` are the checks with their device and GPUs."""

    gpus: int
    lacking: bool = False
    probe_fails: bool = False
    ran: list[tuple[str, str, int]] = field(default_factory=list)

    def import_torch(self) -> tuple[Outcome, str | None] | None:
        return (failed("torch can't be imported: no"), "words") if self.lacking else None

    def run(self, one: Check, device: str, gpus: int) -> tuple[Outcome, str | None, int | None]:
        self.ran.append((one.name, device, gpus))
        if one.name == "probe" and self.probe_fails:
            return failed("it crashed (SIGSEGV)"), None, None
        return passed(details={"torch": {}, "gpus": [A100] * self.gpus}), None, 0


def context(device: str, target: str, packages: Sequence[str] = ("torch",)) -> Context:
    locked = [{"name": name, "version": "1.0"} for name in packages]
    lock = {"env": {"name": "demo"}, "targets": {target: TARGETS[target]}, "pip": locked}
    config = {"target": target, "lock": lock, "lock_digest": "sha256:0"}
    return Context(config, device, "llm", 5, True, 0, 60.0, Path(), "check")


def session(
    runner: StandInRunner,
    device: str,
    groups: tuple[str, ...],
    target: str = "cu128",
    driver: str | None = None,
    cards: dict[str, Any] | None = None,
    packages: Sequence[str] = ("torch",),
) -> tuple[dict[str, tuple[str, str | None]], dict[str, Any]]:
    """The outcome of each check with its reason, and the report."""
    made = Session(context(device, target, packages), CHECKS, groups, runner)  # type: ignore[arg-type]
    made.machine["driver"] = driver
    made.ctx.config["cards"] = cards or {}
    made.run(Progress([], io.StringIO()))
    report = made.report()
    return {one["name"]: (one["status"], one["reason"]) for one in report["checks"]}, report
