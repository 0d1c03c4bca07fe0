"""The workload dynamic: unlike lengths, and experts."""

from __future__ import annotations

from typing import Any

from envspec_check.interface import workload
from envspec_check.workloads.base import Batch, Workload, at_least_fp32, generator, layers, the_torch


@workload("dynamic")
class Dynamic(Workload):
    """Sequences of unlike lengths through a cell that stops when all have ended, then to the expert each asks for.

    No dropout and no normalisation over the batch: DataParallel's and DDP's losses are to be equal, and those would
    make them differ by right.
    """

    name = "dynamic"
    batch = 32
    rate = 4e-3
    falls = 0.5
    unused = True
    length = 24

    def model(self, seed: int) -> Any:
        torch, nn = the_torch(), layers().nn

        class Routed(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.cell = nn.GRUCell(16, 96)
                self.experts = nn.ModuleList(
                    [nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10)) for _ in range(4)]
                )

            def forward(self, rows: Any, lengths: Any, expert: Any) -> Any:
                state = rows.new_zeros(len(rows), 96)
                for at in range(int(lengths.max())):
                    goes_on = (lengths > at).unsqueeze(1)
                    state = torch.where(goes_on, self.cell(rows[:, at], state).to(state.dtype), state)
                logits = state.new_zeros(len(rows), 10)
                for number, layer in enumerate(self.experts):
                    chosen = (expert == number).nonzero().squeeze(1)
                    if len(chosen):
                        logits = logits.index_copy(0, chosen, layer(state[chosen]).to(logits.dtype))
                return logits

        return Routed()

    def world(self, seed: int) -> Batch:
        return {"row": the_torch().randn(10, 16, generator=generator(seed, self.name, "world"))}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        label = torch.randint(10, (count,), generator=drawn)
        noise = torch.randn(count, self.length, 16, generator=drawn)
        # Of three steps in four the last expert gets nothing to do: its parameters have no gradient then.
        expert = torch.randint(4 if position % 4 == 0 else 3, (count,), generator=drawn)
        return {
            "rows": world["row"][label].unsqueeze(1) + noise,
            "lengths": torch.randint(4, self.length + 1, (count,), generator=drawn),
            "expert": expert,
            "label": label,
        }

    def loss(self, model: Any, batch: Batch) -> Any:
        logits = model(batch["rows"], batch["lengths"], batch["expert"])
        return the_torch().nn.functional.cross_entropy(at_least_fp32(logits), batch["label"])
