"""The workload deit: a vision transformer with a teacher."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from envspec_check.interface import workload
from envspec_check.workloads.base import Batch, Workload, at_least_fp32, generator, layer_of, layers, the_torch


@workload("deit")
class Deit(Workload):
    """A vision transformer with a class and a distillation token; its teacher knows the classes' images."""

    name = "deit"
    batch = 32
    rate = 2e-3
    falls = 0.5
    native = "fp16"
    depth = 3
    decay = 0.8  # of the learning rate, from a layer to the one before

    def model(self, seed: int) -> Any:
        torch, parts = the_torch(), layers()
        nn, depth, known = parts.nn, self.depth, self.world(seed)["image"].flatten(1)

        class Student(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("known", known)
                self.patches = nn.Conv2d(3, 96, 8, stride=8)
                self.tokens = nn.Parameter(torch.randn(1, 2, 96) * 0.02)
                self.position = nn.Parameter(torch.randn(1, 18, 96) * 0.02)
                self.blocks = nn.ModuleList([parts.Block(96, 4, dropout=0.05) for _ in range(depth)])
                self.norm = nn.LayerNorm(96)
                self.head, self.head_distilled = nn.Linear(96, 10), nn.Linear(96, 10)

            @torch.no_grad()  # type: ignore[untyped-decorator]
            def teacher(self, image: Any) -> Any:
                return (at_least_fp32(image.flatten(1)) @ at_least_fp32(self.known).t()).argmax(dim=1)

            def forward(self, image: Any) -> Any:
                x = self.patches(image).flatten(2).transpose(1, 2)
                x = torch.cat((self.tokens.expand(len(x), -1, -1), x), dim=1) + self.position
                for block in self.blocks:
                    x = block(x)
                x = self.norm(x)
                return self.head(x[:, 0]), self.head_distilled(x[:, 1]), self.teacher(image)

        return Student()

    def world(self, seed: int) -> Batch:
        return {"image": the_torch().randn(10, 3, 32, 32, generator=generator(seed, self.name, "world"))}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        label = torch.randint(10, (count,), generator=drawn)
        noise = torch.randn(count, 3, 32, 32, generator=drawn)
        return {"image": world["image"][label] + 0.3 * noise, "label": label}

    def loss(self, model: Any, batch: Batch) -> Any:
        F = the_torch().nn.functional
        own, distilled, taught = model(batch["image"])
        own, distilled = at_least_fp32(own), at_least_fp32(distilled)
        return (F.cross_entropy(own, batch["label"]) + F.cross_entropy(distilled, taught)) / 2

    def groups(self, model: Any) -> List[Dict[str, Any]]:
        grouped: Dict[Tuple[int, bool], List[Any]] = {}
        for name, parameter in model.named_parameters():
            grouped.setdefault((layer_of(name, self.depth), parameter.ndim > 1), []).append(parameter)
        return [
            {
                "params": parameters,
                "lr": self.rate * self.decay ** (self.depth + 1 - layer),
                "weight_decay": 0.05 if decays else 0.0,
            }
            for (layer, decays), parameters in sorted(grouped.items(), key=lambda pair: pair[0])
        ]
