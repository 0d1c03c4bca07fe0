"""determinism: twice the same bits, and the same again after a resume."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Dict, List, NamedTuple

from envspec_check.failures import explain
from envspec_check.interface import Context, Fault, Outcome, check, failed, internal, passed
from envspec_check.process import ending, fork, write_whole
from envspec_check.trainer import PARTS, Trainer, Training, digest, native_precision

EXACT_STEPS = 24


class Run(NamedTuple):
    """The end of a training: equal only if it went the same way bit by bit.

    `parts` are digests by the names of PARTS, `half` those at half way or, of a resumed run, of what it loaded.
    """

    precision: str
    losses: List[str]
    parts: Dict[str, str]
    half: Dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Run:
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def digests(trainer: Trainer) -> dict[str, str]:
    return {name: digest(part) for name, part in trainer.state().items()}


def run_exactly(ctx: Context, save: bool = False, load: bool = False) -> Run:
    """Train with deterministic algorithms. Saves a checkpoint at half way, or goes on from that."""
    precision, steps = native_precision(ctx.workload, ctx.device), exact_steps(ctx)
    trainer = Trainer(Training(ctx.workload, steps, ctx.seed, ctx.device, precision, exact=True))
    checkpoint, half = ctx.scratch / "half.pt", {}
    if load:
        trainer.load(checkpoint)
        half = digests(trainer)

    def pause() -> None:
        trainer.save(checkpoint)
        half.update(digests(trainer))

    trainer.run(steps, {half_way(steps): pause} if save else {})
    return Run(precision, [loss.hex() for loss in trainer.losses], digests(trainer), half)


def exact_steps(ctx: Context) -> int:
    """Give the number of steps. A difference shows soon: four trainings needn't be as long as one whose loss falls."""
    return min(ctx.steps, EXACT_STEPS)


def half_way(steps: int) -> int:
    return max(1, steps // 2)


def in_fork(ctx: Context, save: bool = False, load: bool = False) -> Run:
    """`run_exactly` in a process forked from this one, which must not have used torch. Raises Fault when it fails."""
    pid, answer = fork(lambda: run_exactly(ctx, save=save, load=load)._asdict())
    _, status = os.waitpid(pid, 0)
    result = answer.take()
    if status:
        reason, remedy = explain(result["error"]) if "error" in result else (ending(status), None)
        prefix = "the training failed: " if "error" in result else "the training "
        raise Fault(prefix + reason, remedy or "see the training checks; the end of its output says where it ended")
    return Run(**result["value"])


@internal("resume")
def resume(ctx: Context, name: str) -> int:
    write_whole(str(ctx.scratch / name), json.dumps(run_exactly(ctx, load=True)._asdict()))
    return 0


def first_difference(first: Run, second: Run) -> str | None:
    """Describe the first difference of two runs that should be equal; None without any."""
    if first.precision != second.precision:
        return "one is in %s, the other in %s" % (first.precision, second.precision)
    for step, (a, b) in enumerate(zip(first.losses, second.losses), 1):
        if a != b:
            numbers = float.fromhex(a), float.fromhex(b)
            return "their losses differ from step %d on (%.9g, %.9g)" % (step, *numbers)
    if len(first.losses) != len(second.losses):
        return "one ended after %d steps, the other after %d" % (len(first.losses), len(second.losses))
    differing = [name for name in PARTS if first.parts[name] != second.parts[name]]
    return "they end with equal losses, but the state differs in: %s" % ", ".join(differing) if differing else None


@check("determinism.repeat")
def determinism_repeat(ctx: Context) -> Outcome:
    """The same training in two processes ends bitwise equal: losses, weights, optimizer."""
    first, second = in_fork(ctx), in_fork(ctx)
    details = {"precision": first.precision, "steps": len(first.losses), "weights": first.parts["model"]}
    difference = first_difference(first, second)
    if difference:
        remedy = "look for an operator without a deterministic algorithm, and for what else uses the machine's memory"
        return failed("two runs of one training with one seed aren't equal: %s" % difference, remedy, details=details)
    return passed(details=details)


@check("determinism.resume")
def determinism_resume(ctx: Context) -> Outcome:
    """A checkpoint of half way, gone on from in a new process, ends bitwise as the run that was never interrupted.
    Where time is short that process is a fork, which needn't import torch; else an interpreter of its own."""
    whole = in_fork(ctx, save=True)
    if ctx.quick:
        resumed = in_fork(ctx, load=True)
    else:
        ended = ctx.run_again("resume", "resumed.json", timeout=ctx.timeout * 0.8)
        if ended.code:
            print(ended.output)
            return failed("the resumed training ended with status %d" % ended.code)
        resumed = Run.read(ctx.scratch / "resumed.json")
    size = (ctx.scratch / "half.pt").stat().st_size
    steps = exact_steps(ctx)
    details = {"precision": whole.precision, "half": half_way(steps), "steps": steps, "checkpoint_bytes": size}
    lost = [name for name in PARTS if whole.half[name] != resumed.half[name]]
    if lost:
        reason = "a checkpoint doesn't restore what was saved: %s differs after loading" % ", ".join(lost)
        return failed(reason, "see what replaces or patches torch.save, torch.load or state_dict", details=details)
    difference = first_difference(whole, resumed)
    if difference:
        reason = "a run resumed from its checkpoint ends differently from one that wasn't interrupted: %s" % difference
        remedy = "see determinism.repeat; if that passes, something keeps state outside of the checkpoint"
        return failed(reason, remedy, details=details)
    return passed(details=details)
