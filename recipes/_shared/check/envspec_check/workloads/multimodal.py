"""The workload multimodal: text, images and video, with attention across them."""

from __future__ import annotations

import importlib
import random
from typing import Any, Iterator

from envspec_check.interface import workload
from envspec_check.workloads.base import Batch, Workload, at_least_fp32, generator, layers, the_torch


class Pairs:
    """A multimodal set for a DataLoader, by samples. At the top level, so that workers can be spawned."""

    def __init__(self, world: Batch, seed: int, length: int) -> None:
        self.world, self.seed, self.length = world, seed, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Batch:
        torch, drawn = the_torch(), generator(self.seed, "pairs", index)
        # An odd factor: neighbours, and so the samples of a batch, are all of different kinds.
        kind = (index * 37 + self.seed) % len(self.world["text"])
        noise = {name: torch.randn(self.world[name].shape[1:], generator=drawn) for name in ("image", "video")}
        wrong = torch.rand(self.world["text"].shape[1], generator=drawn) < 0.1
        text = torch.where(wrong, torch.randint(64, wrong.shape, generator=drawn), self.world["text"][kind])
        return {"text": text, **{name: self.world[name][kind] + 0.3 * noise[name] for name in noise}}


def seed_worker(worker: int) -> None:
    """Seeds a DataLoader's worker: python's generator too, which torch leaves alone in its older versions."""
    random.seed(the_torch().initial_seed())


@workload("multimodal")
class Multimodal(Workload):
    """Encoders of text, images and video, attention across them, a contrastive loss; read by workers."""

    name = "multimodal"
    batch = 32
    on_gpu = 4
    rate = 3e-3
    falls = 0.3
    native = "bf16"
    kinds = 128  # no fewer than a batch has samples
    width = 64

    def model(self, seed: int) -> Any:
        torch, parts = the_torch(), layers()
        nn, width = parts.nn, self.width
        checkpoint = importlib.import_module("torch.utils.checkpoint").checkpoint

        class Encoder(nn.Module):  # type: ignore[misc,name-defined]
            """Patches or words -> a row of vectors; its blocks' activations are computed again when going back."""

            def __init__(self, embed: Any, length: int) -> None:
                super().__init__()
                self.recomputes = True
                self.embed = embed
                self.position = nn.Parameter(torch.randn(length, width) * 0.02)
                self.blocks = nn.ModuleList([parts.Block(width, 4, dropout=0.05) for _ in range(2)])

            def forward(self, x: Any) -> Any:
                x = self.embed(x)
                x = (x if x.ndim == 3 else x.flatten(2).transpose(1, 2)) + self.position
                for block in self.blocks:
                    x = checkpoint(block, x, use_reentrant=False) if self.recomputes else block(x)
                return x

        class Three(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.text = Encoder(nn.Embedding(64, width), 16)
                self.image = Encoder(nn.Conv2d(3, width, 8, stride=8), 16)
                self.video = Encoder(nn.Conv3d(3, width, (2, 8, 8), stride=(2, 8, 8)), 8)
                self.cross = parts.Block(width, 4)
                self.out = nn.ModuleDict({name: nn.Linear(width, 64) for name in ("text", "image", "video", "cross")})
                self.scale = nn.Parameter(torch.tensor([2.0]))  # FSDP takes none without a dimension

            def forward(self, text: Any, image: Any, video: Any) -> Any:
                rows = {"text": self.text(text), "image": self.image(image), "video": self.video(video)}
                rows["cross"] = self.cross(rows["image"], rows["video"])
                found = {name: at_least_fp32(self.out[name](row.mean(dim=1))) for name, row in rows.items()}
                return {name: nn.functional.normalize(row, dim=-1) for name, row in found.items()}, self.scale.exp()

        return Three()

    def world(self, seed: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, "world")
        return {
            "text": torch.randint(64, (self.kinds, 16), generator=drawn),
            "image": torch.randn(self.kinds, 3, 32, 32, generator=drawn),
            "video": torch.randn(self.kinds, 3, 4, 16, 16, generator=drawn),
        }

    def batches(self, seed: int, position: int, steps: int, count: int, cuda: bool) -> Iterator[Batch]:
        loader = the_torch().utils.data.DataLoader(
            Pairs(self.world(seed), seed, steps * count),
            batch_size=count,
            sampler=range(position * count, steps * count),
            num_workers=2,
            prefetch_factor=2,
            pin_memory=cuda,
            worker_init_fn=seed_worker,
            generator=generator(seed, "workers"),  # else the loader draws from, and so moves, the global one
        )
        return iter(loader)

    def loss(self, model: Any, batch: Batch) -> Any:
        torch = the_torch()
        found, scale = model(batch["text"], batch["image"], batch["video"])
        label = torch.arange(len(batch["text"]), device=batch["text"].device)
        total = 0.0
        for other in ("image", "video", "cross"):
            close = scale * found["text"] @ found[other].t()
            for rows in (close, close.t()):
                total = total + torch.nn.functional.cross_entropy(at_least_fp32(rows), label) / 6
        return total
