"""collectives.fabric: what NCCL uses between nodes."""

from __future__ import annotations

from envspec_check import fabric
from envspec_check.checks.collectives import all_reduce_exact
from envspec_check.interface import Context, Outcome, check
from envspec_check.ranks import ranks


@check("collectives.fabric", needs="gpu")
def collectives_fabric(ctx: Context) -> Outcome:
    """NCCL uses the InfiniBand or RoCE ports of this machine, where any are up."""
    ports = fabric.ports()
    if ports:
        fabric.listen(ctx.scratch)
        ranks(ctx, ctx.gpus, "nccl", all_reduce_exact)
    return fabric.judge(ctx.config, ports, fabric.network_of(ctx.scratch))
