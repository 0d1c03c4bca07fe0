"""stack.deepspeed: an engine starts, and takes the plain step, and so do its own optimizers."""

from __future__ import annotations

import importlib
import os
import shutil
import socket
from typing import Any, Optional

from envspec_check.checks.stack.beside_float64 import LIMIT, REMEDY, judged_steps, plain_training
from envspec_check.checks.stack.locked import has_accelerator_for_cpus, stack_check
from envspec_check.interface import Context, Outcome, Skip, failed, passed
from envspec_check.machine import from_ampere


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


SHORT = 1e-2
"""Of weights in bf16 and fp16: a rounding is up to 4e-3 of each."""

ADAMS = {"FusedAdam": "FusedAdamBuilder", "DeepSpeedCPUAdam": "CPUAdamBuilder"}
"""deepspeed's own optimizers, each with the builder of its operator."""


def is_there(ctx: Context, deepspeed: Any, name: str) -> bool:
    """Return whether an optimizer's operator was compiled with the package, or may be compiled now, by its builder."""
    builder = getattr(importlib.import_module("deepspeed.ops.op_builder"), ADAMS[name])()
    if name == "FusedAdam" and ctx.device == "cpu":
        return False
    compiled = deepspeed.git_version_info.installed_ops.get(builder.NAME, False)
    return bool(compiled or (ctx.deep and compiler_of(name) and builder.is_compatible(verbose=False)))


def compiler_of(name: str) -> Any:
    """Return the compiler of an optimizer's operator, beside ninja."""
    return shutil.which("ninja") and shutil.which("g++" if name == "DeepSpeedCPUAdam" else "nvcc")


def steps_of_zero(ctx: Context, deepspeed: Any, stage: int, short: Optional[str] = None) -> Outcome:
    """Return a step of an engine that shares the optimizer's state (1) and the gradients (2) among ranks, of which it
    is the only one; with `short`, in mixed precision of this type, to which its weights are rounded."""
    plain = plain_training(ctx)
    mixed = {short: {"enabled": True, **({"initial_scale_power": 8} if short == "fp16" else {})}} if short else {}
    engine = deepspeed.initialize(
        model=plain.model,
        optimizer=plain.optimizer,
        config={
            "train_batch_size": 32,
            "train_micro_batch_size_per_gpu": 32,
            "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True,  # plain SGD
            **mixed,
        },
    )[0]
    device, weights = ctx.torch_device, next(plain.model.parameters())
    rows = plain.rows.to(device, weights.dtype)
    engine.backward(plain.loss(engine, rows, plain.labels.to(device)))
    engine.step()
    if short and str(weights.dtype).rpartition(".")[2] != {"bf16": "bfloat16", "fp16": "float16"}[short]:
        return failed(f"deepspeed's {short} has weights of {weights.dtype}", REMEDY)
    error = plain.far(engine.module.parameters(), [slice(32)])
    return judged_steps(f"deepspeed by ZeRO {stage}", deepspeed.__version__, error, SHORT if short else LIMIT)


def steps_of_adam(ctx: Context, deepspeed: Any, name: str) -> Outcome:
    """Steps by an optimizer of deepspeed's are those of torch's AdamW in float64."""
    plain, taken = plain_training(ctx), [slice(8 * at, 8 * at + 8) for at in range(4)]
    model = plain.model.to(ctx.torch_device if name == "FusedAdam" else "cpu")
    options = {"lr": 1e-2, "weight_decay": 0.1}
    optimizer = getattr(importlib.import_module("deepspeed.ops.adam"), name)(model.parameters(), **options)
    device = next(model.parameters()).device
    for rows in taken:
        optimizer.zero_grad()
        plain.loss(model, plain.rows[rows].to(device), plain.labels[rows].to(device)).backward()
        optimizer.step()
    exact = ctx.torch.optim.AdamW(plain.exact.parameters(), **options)
    return judged_steps(f"deepspeed by {name}", deepspeed.__version__, plain.far(model.parameters(), taken, exact))


@stack_check("deepspeed")
def stack_deepspeed(ctx: Context, deepspeed: Any) -> Outcome:
    """`deepspeed.initialize` makes an engine of one rank, whose steps are those of plain torch in float64, by ZeRO 0 to
    2, and in mixed precision; deepspeed's own optimizers take those of torch's AdamW."""
    if ctx.device == "cpu" and not has_accelerator_for_cpus(ctx.lock):
        raise Skip(f"deepspeed {deepspeed.__version__} runs on CPUs only with Intel's extension of torch")
    if ctx.device == "cpu" and not ctx.deep:
        raise Skip("on a CPU deepspeed first compiles an operator, which takes a minute: --deep does it")
    port = str(free_port())
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    wrong, errors = None, {}
    for stage in (0,) if ctx.quick else (0, 1, 2):
        outcome = steps_of_zero(ctx, deepspeed, stage)
        errors[f"ZeRO {stage}"] = outcome.details["error"]
        wrong = wrong or (outcome if outcome.status == "fail" else None)
    if not ctx.quick:
        short = "fp16" if ctx.device == "cuda" and not from_ampere(ctx.torch, ctx.device) else "bf16"
        outcome = steps_of_zero(ctx, deepspeed, 1, short)
        errors[f"ZeRO 1 in {short}"] = outcome.details.get("error")
        wrong = wrong or (outcome if outcome.status == "fail" else None)
    for name in () if ctx.quick else ADAMS:
        if is_there(ctx, deepspeed, name):
            outcome = steps_of_adam(ctx, deepspeed, name)
            errors[name] = outcome.details["error"]
            wrong = wrong or (outcome if outcome.status == "fail" else None)
    details = {"deepspeed": deepspeed.__version__, "errors": errors}
    return (wrong or passed())._replace(details=details)
