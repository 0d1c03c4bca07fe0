"""The model wide: what the workloads compute on short rows, on long ones. The reference alone trains it."""

from __future__ import annotations

from typing import Any

from envspec_check.interface import REFERENCE_ONLY, workload
from envspec_check.workloads.base import Batch, Workload, at_least_fp32, generator, layers, the_torch

LONG = 264
"""Longer than 256, where some kernels take another path, and no multiple of 16."""


@workload("wide", REFERENCE_ONLY)
class Wide(Workload):
    """Rows, weights and a number of weights that are all longer than 256: normalising, clipping and the optimizer see
    none as long in the workloads."""

    name = "wide"
    batch = 16

    def model(self, seed: int) -> Any:
        torch, nn = the_torch(), layers().nn

        class Long(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.mix = nn.Linear(LONG, LONG)
                self.long = nn.Parameter(torch.randn(LONG))
                self.many = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(LONG)])

            def forward(self, rows: Any) -> Any:
                x = torch.relu(self.mix(rows)).clone() * torch.exp(0.1 * self.long) + torch.ones_like(rows)
                x = x.clamp(max=4.0) * (1.0 / (1.0 + self.long * self.long)) / (2.0 + self.long.sin())
                many = torch.stack([(parameter * parameter).mean() for parameter in self.many])
                return x, many.mean() + torch.linalg.vector_norm(many)

        return Long()

    def world(self, seed: int) -> Batch:
        return {}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        label = torch.randint(LONG, (count,), generator=drawn)
        return {"rows": torch.randn(count, LONG, generator=drawn), "label": label}

    def loss(self, model: Any, batch: Batch) -> Any:
        logits, more = model(batch["rows"])
        return the_torch().nn.functional.cross_entropy(at_least_fp32(logits), batch["label"]) + logits.mean() + more
