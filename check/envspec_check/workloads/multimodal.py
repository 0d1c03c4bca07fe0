"""The workload multimodal: text, images and video, with attention across them."""

from __future__ import annotations

import importlib
import importlib.util
import random
from typing import Any, Iterator

from envspec_check.interface import workload
from envspec_check.workloads.base import Batch, Workload, at_least_fp32, generator, layers, the_torch


def clip_of(torch: Any, name: str) -> Any:
    """Return a tiny CLIP of random weights by `clip` or `open_clip`, for images of 32 pixels and 16 words of 64. Its
    scale has a dimension, as FSDP wants."""
    if name == "clip":  # OpenAI's own, which has no release but its repository's
        image = {"image_resolution": 32, "vision_layers": 2, "vision_width": 64, "vision_patch_size": 8}
        text = {"context_length": 16, "vocab_size": 64, "transformer_width": 64, "transformer_heads": 2}
        model = importlib.import_module("clip.model").CLIP(embed_dim=32, transformer_layers=2, **image, **text)
    else:
        image = {"image_size": 32, "patch_size": 8, "width": 64, "layers": 2, "head_width": 32}
        text = {"context_length": 16, "vocab_size": 64, "width": 64, "heads": 2, "layers": 2}
        model = importlib.import_module(name).CLIP(embed_dim=32, vision_cfg=image, text_cfg=text)
    model.logit_scale = torch.nn.Parameter(model.logit_scale.detach().reshape(1))
    return model


def clip_logits(output: Any) -> Any:
    """Give a CLIP's logits, as rows of images and columns of texts: OpenAI's as they are, OpenCLIP's of its vectors."""
    return output[0] if len(output) == 2 else output[2] * output[0] @ output[1].t()


def contrast(close: Any) -> Any:
    """Return the contrastive loss of rows of images and columns of texts, both ways, of which each has its own."""
    torch = the_torch()
    own = torch.arange(len(close), device=close.device)
    return sum(torch.nn.functional.cross_entropy(at_least_fp32(rows), own) for rows in (close, close.t())) / 2


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


def clip_norm(norm: Any, rows: Any) -> Any:
    """CLIP's LayerNorm in the type of its weights, those of a reference too: its own is always in float32. Its mask is
    of the norm's type, which torch 2.1's attention on a CPU wants to be that of autocast."""
    torch = the_torch()
    rows = torch.nn.LayerNorm.forward(norm, rows)
    old = torch.__version__.startswith("2.1.") and torch.is_autocast_cpu_enabled()
    return rows.to(torch.get_autocast_cpu_dtype()) if old else rows


def seed_worker(worker: int) -> None:
    """Seeds a DataLoader's worker: python's generator too, which torch leaves alone in its older versions."""
    random.seed(the_torch().initial_seed())


@workload("multimodal")
class Multimodal(Workload):
    """Encoders of text, images and video, attention across them, a contrastive loss; read by workers. Where CLIP or
    OpenCLIP is installed, a tiny one learns the images' texts beside them."""

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
                installed = [name for name in ("clip", "open_clip") if importlib.util.find_spec(name)]
                if "clip" in installed:
                    importlib.import_module("clip.model").LayerNorm.forward = clip_norm
                self.clips = nn.ModuleList([clip_of(torch, name) for name in installed])

            def forward(self, text: Any, image: Any, video: Any) -> Any:
                rows = {"text": self.text(text), "image": self.image(image), "video": self.video(video)}
                rows["cross"] = self.cross(rows["image"], rows["video"])
                vectors = {name: at_least_fp32(self.out[name](row.mean(dim=1))) for name, row in rows.items()}
                close = [clip_logits(clip(image, text)) for clip in self.clips]
                return (
                    {name: nn.functional.normalize(row, dim=-1) for name, row in vectors.items()},
                    self.scale.exp(),
                    close,
                )

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
        vectors, scale, close = model(batch["text"], batch["image"], batch["video"])
        close = [*close, *(scale * vectors["text"] @ vectors[other].t() for other in ("image", "video", "cross"))]
        return sum(contrast(rows) for rows in close) / len(close)
