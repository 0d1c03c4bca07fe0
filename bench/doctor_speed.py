"""Whole processes of the commands that only look into tables, beside `import click`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measure import IMPORT_CLICK, Run, beside, envspec, run, turns

ROUNDS = 41
LIMIT = 4
"""Times `python -c "import click"`."""

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
    """Print each command's time and its ratio to `import click`."""
    with tempfile.TemporaryDirectory() as folder:
        spec = Path(folder) / "spec.toml"
        spec.write_text(SPEC, encoding="utf-8")
        sides = {
            "envspec doctor SPEC --gpu H100 --driver 580.82.07": [
                *("doctor", str(spec), "--gpu", "H100", "--driver", "580.82.07")
            ],
            "envspec doctor specs/mm-v2.9.toml --gpu H100 --driver 580.82.07": [
                *("doctor", "specs/mm-v2.9.toml", "--gpu", "H100", "--driver", "580.82.07")
            ],
            "envspec builds torch": ["builds", "torch"],
            "envspec gpus": ["gpus"],
        }
        commands = {name: _runner(arguments) for name, arguments in sides.items()}
        runs = turns({"click": lambda: run(IMPORT_CLICK), **commands}, ROUNDS)
    click = runs.pop("click")
    for name, taken in runs.items():
        print(beside(name, taken, "python -c 'import click'", click, LIMIT))


def _runner(arguments: list[str]) -> Callable[[], Run]:
    return lambda: run(envspec(*arguments))


if __name__ == "__main__":
    main()
