"""stack.deepspeed: an engine starts, and takes the plain step."""

from __future__ import annotations

import os
import socket
from typing import Any

from envspec_check.checks.stack.beside_float64 import judged_steps, plain_training
from envspec_check.checks.stack.locked import has_accelerator_for_cpus, stack_check
from envspec_check.interface import Context, Outcome, Skip


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@stack_check("deepspeed")
def stack_deepspeed(ctx: Context, deepspeed: Any) -> Outcome:
    """`deepspeed.initialize` makes an engine of one rank, whose step is that of plain torch in float64."""
    if ctx.device == "cpu" and not has_accelerator_for_cpus(ctx.lock):
        raise Skip(f"deepspeed {deepspeed.__version__} runs on CPUs only with Intel's extension of torch")
    if ctx.device == "cpu" and not ctx.deep:
        raise Skip("on a CPU deepspeed first compiles an operator, which takes a minute: --deep does it")
    port = str(free_port())
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    plain = plain_training(ctx)
    engine = deepspeed.initialize(
        model=plain.model,
        optimizer=plain.optimizer,
        config={"train_batch_size": 32, "train_micro_batch_size_per_gpu": 32, "zero_optimization": {"stage": 0}},
    )[0]
    device = ctx.torch_device
    engine.backward(plain.loss(engine, plain.rows.to(device), plain.labels.to(device)))
    engine.step()
    return judged_steps("deepspeed", deepspeed.__version__, plain.far(engine.module.parameters(), [slice(32)]))
