"""`envspec check` of every shipped lock, judged, beside the least that its libraries cost: processors' time of whole
processes, which a busy machine changes least.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from shutil import copytree

from bench.measure import envspec, run, turns

ROUNDS = 15
WITHOUT, WITH = 10, 14
"""The budgets, in times of `python -c 'import click'`: without recipes, and with them."""
_ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Print both ratios; a line says so where it is over the budget."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder)
        for name in ("specs", "locks"):
            copytree(_ROOT / name, bare / name)
        runs = turns(
            {
                "click": lambda: run([sys.executable, "-c", "import click"]),
                "without recipes": lambda: run(envspec("check"), cwd=bare),
                "with recipes": lambda: run(envspec("check"), cwd=_ROOT),
            },
            ROUNDS,
        )
    click = runs["click"].processor
    for name, budget in (("without recipes", WITHOUT), ("with recipes", WITH)):
        ratio = runs[name].processor / click
        over = "" if ratio <= budget else f"   over the budget of {budget} x"
        print(
            f"envspec check, all shipped locks, {name}: {ratio:.1f} x python -c 'import click'   "
            f"({runs[name].processor * 1e3:.0f} ms against {click * 1e3:.0f} ms of the processors' time){over}"
        )


if __name__ == "__main__":
    main()
