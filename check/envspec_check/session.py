"""A run of the whole table."""

from __future__ import annotations

import datetime
import sys
import time
from typing import Any, Dict, Optional, Sequence, Set, Tuple

from envspec_check.beside import GROUP, Beside
from envspec_check.environment import check_digest
from envspec_check.interface import GROUPS, Check, Context, Outcome, failed, skipped
from envspec_check.lock import frameworks
from envspec_check.machine import NO_GPU, NO_GPU_REMEDY, card_of, machine_facts, probe
from envspec_check.report import Progress, figure, shares, slow_words, summary
from envspec_check.runner import Runner


class Session:
    """A run of the whole table, and what is known of it so far."""

    def __init__(
        self,
        ctx: Context,
        table: dict[str, Check],
        groups: Sequence[str],
        runner: Runner,
        beside: Optional[Beside] = None,
    ) -> None:
        self.ctx, self.runner, self.beside = ctx, runner, beside
        order = {group: index for index, group in enumerate(GROUPS)}
        self.frameworks = frameworks(ctx.lock)
        chosen = [
            check for check in map(self.for_this_lock, table.values()) if check and check.group in (groups or GROUPS)
        ]
        self.table = sorted(chosen, key=lambda check: order[check.group])
        self.machine = machine_facts()
        self.torch: Optional[Dict[str, Any]] = None
        self.device = "cuda" if ctx.device == "cuda" else "cpu"
        self.why_cpu = "it was asked for the CPU" if ctx.device == "cpu" else "no GPU can be used here"
        self.no_torch: Optional[str] = None
        self.no_look = ""
        self.lacking: Optional[Tuple[Outcome, Optional[str]]] = None
        self.tried = False
        self.begun: Set[str] = set()
        self.checks: list[dict[str, Any]] = []
        self.figures: list[dict[str, Any]] = []
        self.curves: dict[str, Any] = {}
        self.digest, self.began = check_digest(), time.monotonic()
        self.started = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")

    def for_this_lock(self, check: Check) -> Optional[Check]:
        """Return a check as it is asked of this lock; None where that has no such framework."""
        if check.group == "together":
            return check if len(self.frameworks) > 1 else None
        if check.name == "stack.imports" and "torch" not in self.frameworks:
            return check._replace(torch=False)  # with torch its processes begin with that imported, which is sooner
        return check if check.framework in (None, *self.frameworks) else None

    def run(self, progress: Progress) -> None:
        for check in self.table:
            self.collect(progress, wait=check.group == "figures")  # figures are taken alone
            if check.name in self.begun:
                continue
            progress.begins(check.name)
            began = time.monotonic()
            if (check.framework or check.needs) and not self.tried:
                self.lacking = self.look()
                self.begin_beside()
            words: Optional[str] = None
            memory: Optional[int] = None
            skip = self.reason_to_skip(check)
            if check.torch and self.lacking:
                (outcome, words), self.lacking = self.lacking, None
            elif skip:
                outcome = skipped(skip)
            elif check.needs == "gpu" and not self.machine["gpus"]:
                outcome = failed(NO_GPU + self.no_look, NO_GPU_REMEDY)
            else:
                outcome, words, memory = self.runner.run(check, self.device, self.gpus)
            progress.end(self.add(check, outcome, words, memory, time.monotonic() - began))
        self.collect(progress, wait=True)

    @property
    def gpus(self) -> int:
        """The number of GPUs that the checks may use."""
        return len(self.machine["gpus"]) if self.device == "cuda" else 0

    @property
    def card(self) -> dict[str, Any] | None:
        """The facts of the GPUs that the checks run on, where they are all of one card that the target knows."""
        known = self.ctx.config.get("cards") or {}
        cards = [card_of(known, gpu["name"], gpu["capability"]) for gpu in self.machine["gpus"][: self.gpus]]
        return cards[0] if cards and all(card == cards[0] for card in cards) else None

    def begin_beside(self) -> None:
        """Begin the checks that can run beside the others, if they can run at all and aren't all there is to do."""
        own = [check for check in self.table if check.group == GROUP]
        if self.beside and not self.lacking and len(own) < len(self.table):
            able = [check for check in own if not self.reason_to_skip(check) and (check.needs != "gpu" or self.gpus)]
            self.begun = {check.name for check in able}
            self.beside.start(able, self.device, self.gpus)

    def collect(self, progress: Progress, wait: bool) -> None:
        """Take over what ended beside."""
        for ran in self.beside.results(wait) if self.beside else ():
            progress.end(self.add(ran.check, ran.outcome, ran.words, ran.memory, ran.seconds))

    def look(self) -> tuple[Outcome, str | None] | None:
        """Import torch, and see which GPUs it sees, and so on which device the checks run; before the first check that
        needs any of it. Without torch the driver says which GPUs there are. What is wrong when torch can't be imported:
        the first check that imports it fails with that."""
        self.tried, torch = True, "torch" in self.frameworks
        lacking = self.runner.import_torch() if torch else None
        if lacking:
            self.no_torch = "torch can't be imported"
            return lacking
        outcome, words, _ = self.runner.run(Check("probe", probe, None, torch), self.device, 0)
        if outcome.status != "pass":
            self.no_look = f"; the look for GPUs failed: {outcome.reason}"
            self.why_cpu += self.no_look
            sys.stderr.write((words or "") + "\n")
            return None
        self.torch, self.machine["gpus"] = outcome.details["torch"], outcome.details["gpus"]
        if self.ctx.device == "auto" and self.machine["gpus"]:
            self.device = "cuda"
        elif self.ctx.device == "auto" and not self.ctx.target.get("cuda"):
            self.why_cpu = "the target is for CPUs"
        return None

    def reason_to_skip(self, check: Check) -> str | None:
        without = [name for name in self.ctx.config.get("without", ()) if name in check.name.split(".")]
        if without:
            # an image whose base lacks what these need, which its maker knows
            return f"the image was made without what `{without[0]}` needs (envspec image --without)"
        if check.torch and self.no_torch:
            return self.no_torch
        if check.needs == "gpu" and self.device == "cpu":
            return f"needs a GPU: {self.why_cpu}"
        if check.needs == "driver" and not self.ctx.target.get("cuda"):
            return "needs NVIDIA's driver: the target is for CPUs"
        if check.needs == "driver" and self.ctx.device == "cpu":
            return f"needs NVIDIA's driver: {self.why_cpu}"
        if check.needs == "driver" and not self.machine["driver"] and self.device == "cpu":
            return "needs NVIDIA's driver: there is none here"
        return None

    def add(
        self, check: Check, outcome: Outcome, words: str | None, memory: int | None, seconds: float
    ) -> dict[str, Any]:
        result = {
            "name": check.name,
            "group": check.group,
            # for a CPU target nothing is missing where there is no GPU; a driver's version is no GPU's work
            "needs_gpu": check.needs == "gpu" and (bool(self.ctx.target.get("cuda")) or self.device == "cuda"),
            "status": outcome.status,
            "reason": outcome.reason,
            "remedy": outcome.remedy,
            "seconds": round(seconds, 3),
            "details": outcome.details,
            "slow": list(outcome.slow),
            "output": words,
            "peak_memory_bytes": memory,
        }
        self.checks.append(result)
        references = self.ctx.config.get("references") or {}
        # What Gloo does between processes on the CPU says nothing of a card.
        card = None if outcome.details.get("backend") == "gloo" else self.card
        taken = [figure(name, value, unit, references, card) for name, value, unit in outcome.figures]
        self.figures += [*taken, *(figure(name, share, unit, references, card) for name, share, unit in shares(taken))]
        self.curves.update(outcome.curves)
        return result

    def report(self, complete: bool = True) -> dict[str, Any]:
        ctx = self.ctx
        blind = bool(ctx.target.get("cuda")) and self.device != "cuda"
        order = {check.name: at for at, check in enumerate(self.table)}
        self.checks.sort(key=lambda result: order[result["name"]])
        return {
            "schema": 1,
            "kind": "envspec-check",
            "spec": ctx.lock["env"].get("name", ""),
            "target": ctx.target_name,
            "lock_digest": ctx.config["lock_digest"],
            "check_digest": self.digest,
            "fingerprint": ctx.config.get("fingerprint", ""),
            "workload": ctx.workload,
            "steps": ctx.steps,
            "device": self.device,
            "cuda": ctx.target.get("cuda"),
            "quick": ctx.quick,
            "seed": ctx.seed,
            "started": self.started,
            "seconds": round(time.monotonic() - self.began, 3),
            "machine": self.machine,
            "torch": self.torch,
            "frameworks": self.frameworks,
            "checks": self.checks,
            "figures": self.figures,
            "curves": self.curves,
            "complete": complete,
            "summary": summary(
                self.checks, complete, blind, slow_words(self.checks, self.figures), bare=not self.frameworks
            ),
        }
