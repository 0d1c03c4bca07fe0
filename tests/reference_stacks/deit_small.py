"""stack.deit_small's training of a smaller model on a CPU, by a Python that has torch, timm and torchvision: a line of
what it says of three seeds, and of a training that is wrong in one place.

PREFIX/bin/python deit_small.py CHECK SCRATCH
"""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

from envspec_check.checks.stack.packages.deit_small import train_on_files
from envspec_check.interface import Context

SHAPE = {"depth": 1, "embed_dim": 64, "num_heads": 2}


def trained(name: str, seed: int = 0) -> list[Any]:
    scratch = Path(sys.argv[2]) / name
    scratch.mkdir()
    ctx = Context({}, "cpu", "deit", 5, False, seed, 60.0, scratch, sys.argv[1])
    found = train_on_files(ctx, importlib.import_module("timm"), images=64, epochs=4, batch=8, **SHAPE)
    return [found.status, found.details["last"]]


def changed(owner: Any, name: str, wrong: Callable[[Any], Any]) -> list[Any]:
    right = getattr(owner, name)
    setattr(owner, name, wrong(right))
    try:
        return trained(name)
    finally:
        setattr(owner, name, right)


def main() -> None:
    torch: Any = importlib.import_module("torch")
    folder: Any = importlib.import_module("torchvision.datasets").ImageFolder
    torch.set_num_threads(2)
    found = {
        **{f"seed {seed}": trained(f"seed-{seed}", seed) for seed in range(3)},
        "labels of other images": changed(
            folder, "__getitem__", lambda right: lambda self, at: (right(self, at)[0], at * 7 // 5 % 2)
        ),
        "weights that stay": changed(torch.optim.AdamW, "step", lambda right: lambda self, *words: None),
        "a loss that is climbed": changed(
            torch.nn.functional,
            "cross_entropy",
            lambda right: lambda *words: 2 * right(*words).detach() - right(*words),
        ),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
