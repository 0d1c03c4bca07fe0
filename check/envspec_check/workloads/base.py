"""Workloads: what they share.

Small models on data made from a seed. A batch is a function of the seed and its position alone, so that a run can go
on from any position, in any process. Layers are written out where torch's own would take another path on another
device or in another version, and only operators with a deterministic backward pass are used: hence strided
convolutions and means in place of pooling.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import math
import types
from typing import Any, Dict, Iterator, List, Sequence

Batch = Dict[str, Any]  # name -> tensor whose first dimension is the sample


def number_of(*words: object) -> int:
    """Return a seed made of words: the same in every process, version and machine; words that differ give unrelated
    seeds."""
    return int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:6], "big")


def warm_up_and_cosine(step: int, steps: int) -> float:
    """Return the share of the learning rate at a step: up over the first tenth, then down a half cosine to a tenth."""
    warm = max(1, steps // 10)
    if step < warm:
        return (step + 1) / warm
    return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, (step - warm) / max(1, steps - warm))))


def fall(losses: Sequence[float]) -> float:
    """Give the share by which the last losses are below the first; a tenth of the run is first, a tenth is last."""
    few = max(1, len(losses) // 10)
    first, last = sum(losses[:few]) / few, sum(losses[-few:]) / few
    return (first - last) / abs(first) if first else 0.0


def stated_fall(falls: float, enough: int, steps: int) -> float:
    """Return the share by which a run of so many steps has to lower its loss: less than `falls` if it is short of
    `enough`."""
    return falls * min(1.0, steps / enough)


def layer_of(name: str, depth: int) -> int:
    """Give the depth of a transformer's parameter: 0 for what embeds, depth + 1 for what follows the last block."""
    words = name.split(".")
    if words[0] == "blocks":
        return int(words[1]) + 1
    return depth + 1 if words[0].startswith(("head", "norm")) else 0


class Workload:
    """A workload: a model, its data, its loss, and by how much the loss has to fall.

    `loss(model, batch)` is all that a trainer calls in a step; `batches(seed, position, steps)` gives what is left of
    the data from a position on.
    """

    name = ""
    batch = 32  # samples in a step on a CPU
    on_gpu = 8  # so many times as many on a GPU
    accumulate = 1  # parts of a batch that go through the model one by one
    rate = 1e-3
    falls = 0.5  # the loss falls by this share within `enough` steps
    enough = 50
    native = "fp32"  # what it's commonly trained in: determinism and resuming are checked so
    unused = False  # whether a step may leave parameters without a gradient

    def model(self, seed: int) -> Any:
        raise NotImplementedError

    def world(self, seed: int) -> Batch:
        """Return the rule that all batches share and a model can learn."""
        raise NotImplementedError

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        raise NotImplementedError

    def batches(self, seed: int, position: int, steps: int, count: int, cuda: bool) -> Iterator[Batch]:
        world = self.world(seed)
        for at in range(position, steps):
            yield self.sample(world, seed, at, count)

    def loss(self, model: Any, batch: Batch) -> Any:
        raise NotImplementedError

    def groups(self, model: Any) -> List[Dict[str, Any]]:
        """Return the optimizer's groups of parameters."""
        return [{"params": [p for p in model.parameters() if p.requires_grad], "lr": self.rate}]

    def optimizer(self, model: Any) -> Any:
        return the_torch().optim.AdamW(self.groups(model), lr=self.rate, weight_decay=0.01)


def the_torch() -> Any:
    return importlib.import_module("torch")


def at_least_fp32(x: Any) -> Any:
    """Short types as float32, in which losses are summed; what is longer, as a reference's float64, as it is."""
    return x if x.dtype == the_torch().float64 else x.float()


def generator(*words: object) -> Any:
    return the_torch().Generator().manual_seed(number_of(*words))


@functools.lru_cache(maxsize=None)
def layers() -> Any:
    """Return the layers that workloads share. Made late: nothing here may need torch before a check runs."""
    torch = the_torch()
    nn: Any = torch.nn
    F: Any = nn.functional

    class Attention(nn.Module):  # type: ignore[misc]
        """Attention of x to itself or to a memory, with rotary positions or none."""

        def __init__(self, width: int, heads: int, *, causal: bool = False, rotary: int = 0) -> None:
            super().__init__()
            self.heads, self.causal, self.rotary = heads, causal, rotary
            self.query, self.key_value = nn.Linear(width, width), nn.Linear(width, 2 * width)
            self.out = nn.Linear(width, width)
            if rotary:
                half = width // heads // 2
                wide = torch.get_default_dtype()  # float64 where a reference is made
                turned = 10000.0 ** (-torch.arange(half, dtype=wide) / half)
                turns = torch.outer(torch.arange(rotary, dtype=wide), turned)
                self.register_buffer("cosine", turns.cos(), persistent=False)
                self.register_buffer("sine", turns.sin(), persistent=False)

        def split(self, x: Any) -> Any:
            return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

        def turn(self, x: Any) -> Any:
            cosine, sine = self.cosine[: x.shape[-2]], self.sine[: x.shape[-2]]
            first, second = at_least_fp32(x).chunk(2, dim=-1)
            return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1).to(x.dtype)

        def forward(self, x: Any, memory: Any = None) -> Any:
            key, value = self.key_value(x if memory is None else memory).chunk(2, dim=-1)
            query, key, value = self.split(self.query(x)), self.split(key), self.split(value)
            if self.rotary:
                query, key = self.turn(query), self.turn(key)
            attended = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
            return self.out(attended.transpose(1, 2).flatten(2))

    class Block(nn.Module):  # type: ignore[misc]
        """A transformer's block, normalised first."""

        def __init__(self, width: int, heads: int, *, dropout: float = 0.0, **attention: Any) -> None:
            super().__init__()
            self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention = Attention(width, heads, **attention)
            self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            self.dropout = nn.Dropout(dropout)

        def forward(self, x: Any, memory: Any = None) -> Any:
            x = x + self.dropout(self.attention(self.one(x), memory))
            return x + self.dropout(self.feed(self.two(x)))

    return types.SimpleNamespace(nn=nn, F=F, Attention=Attention, Block=Block)
