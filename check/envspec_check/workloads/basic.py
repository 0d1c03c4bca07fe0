"""The workload basic: a convolution and a perceptron, joined."""

from __future__ import annotations

from typing import Any

from envspec_check.interface import workload
from envspec_check.workloads.base import Batch, Workload, at_least_fp32, generator, layers, the_torch


@workload("basic")
class Basic(Workload):
    """A convolution over images and a perceptron over rows of figures, joined: 10 classes."""

    name = "basic"
    batch = 64
    rate = 0.1
    falls = 0.6

    def model(self, seed: int) -> Any:
        nn = layers().nn

        class Joined(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.image = nn.Sequential(
                    nn.Conv2d(3, 16, 3, stride=2, padding=1),
                    nn.BatchNorm2d(16),
                    nn.ReLU(),
                    nn.Conv2d(16, 32, 3, stride=2, padding=1),
                    nn.BatchNorm2d(32),
                    nn.ReLU(),
                )
                self.row = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 32), nn.ReLU())
                self.head = nn.Linear(64, 10)

            def forward(self, image: Any, row: Any) -> Any:
                seen = self.image(image).mean(dim=(2, 3))
                return self.head(the_torch().cat((seen, self.row(row)), dim=1))

        return Joined()

    def world(self, seed: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, "world")
        return {"image": torch.randn(10, 3, 32, 32, generator=drawn), "row": torch.randn(10, 16, generator=drawn)}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        label = torch.randint(10, (count,), generator=drawn)
        image = world["image"][label] + 0.5 * torch.randn(count, 3, 32, 32, generator=drawn)
        row = world["row"][label] + 0.5 * torch.randn(count, 16, generator=drawn)
        return {"image": image, "row": row, "label": label}

    def loss(self, model: Any, batch: Batch) -> Any:
        logits = model(batch["image"], batch["row"])
        return the_torch().nn.functional.cross_entropy(at_least_fp32(logits), batch["label"])

    def optimizer(self, model: Any) -> Any:
        return the_torch().optim.SGD(self.groups(model), lr=self.rate, momentum=0.9, weight_decay=1e-4)
