"""Whole processes of the commands that only look into tables, beside `envspec --version`: at most twice as long."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measure import Run, envspec, run, turns

ROUNDS = 15

SPEC = """\
[env]
python = "3.12"
[pip]
dependencies = ["torch==2.9.*", "torchvision", "transformers>=4.57,<5"]
[targets.cu128-hopper]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100"]
"""


def main() -> None:
    """Print each command's median wall time and its ratio to `envspec --version`."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.toml"
        spec.write_text(SPEC, encoding="utf-8")
        sides = {
            "envspec --version": ["--version"],
            "envspec doctor SPEC --gpu H100 --driver 580.82.07": [
                *("doctor", str(spec), "--gpu", "H100", "--driver", "580.82.07")
            ],
            "envspec doctor specs/mm-v2.9.toml --gpu H100 --driver 580.82.07": [
                *("doctor", "specs/mm-v2.9.toml", "--gpu", "H100", "--driver", "580.82.07")
            ],
            "envspec builds torch": ["builds", "torch"],
            "envspec gpus": ["gpus"],
        }
        runs = turns({name: _runner(arguments) for name, arguments in sides.items()}, ROUNDS)
    base = runs["envspec --version"].seconds
    for name, taken in runs.items():
        print(f"{name}: {taken.seconds / base:.2f} x envspec --version   ({taken.seconds * 1e3:.0f} ms)")


def _runner(arguments: list[str]) -> Callable[[], Run]:
    return lambda: run(envspec(*arguments))


if __name__ == "__main__":
    main()
