"""The workload llm: a decoder with rotary positions."""

from __future__ import annotations

from typing import Any

from envspec_check.interface import workload
from envspec_check.workloads.base import Batch, Workload, at_least_fp32, generator, layers, the_torch


@workload("llm")
class Llm(Workload):
    """A decoder with rotary positions and causal attention, over sequences in which each word follows from two."""

    name = "llm"
    batch = 16
    accumulate = 2
    rate = 3e-3
    falls = 0.4
    native = "bf16"
    words = 64
    length = 32

    def model(self, seed: int) -> Any:
        torch, parts = the_torch(), layers()
        nn, words, length = parts.nn, self.words, self.length

        class Decoder(nn.Module):  # type: ignore[misc,name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.embed = nn.Embedding(words, 96)
                self.blocks = nn.ModuleList(
                    [parts.Block(96, 4, dropout=0.05, causal=True, rotary=length) for _ in range(2)]
                )
                self.norm = nn.LayerNorm(96)
                nn.init.normal_(self.embed.weight, std=0.05)

            def forward(self, text: Any) -> Any:
                x = self.embed(text)
                for block in self.blocks:
                    x = block(x)
                return torch.nn.functional.linear(self.norm(x), self.embed.weight)

        return Decoder()

    def world(self, seed: int) -> Batch:
        return {"next": the_torch().randperm(self.words, generator=generator(seed, self.name, "world"))}

    def sample(self, world: Batch, seed: int, position: int, count: int) -> Batch:
        torch, drawn = the_torch(), generator(seed, self.name, position)
        columns = [torch.randint(self.words, (count,), generator=drawn)]
        wrong = torch.rand(self.length, count, generator=drawn) < 0.05
        other = torch.randint(self.words, (self.length, count), generator=drawn)
        for at in range(self.length):
            columns.append(torch.where(wrong[at], other[at], world["next"][columns[-1]]))
        return {"text": torch.stack(columns, dim=1)}

    def loss(self, model: Any, batch: Batch) -> Any:
        logits = model(batch["text"][:, :-1])
        right = batch["text"][:, 1:].flatten()
        return the_torch().nn.functional.cross_entropy(at_least_fp32(logits).flatten(0, 1), right)
