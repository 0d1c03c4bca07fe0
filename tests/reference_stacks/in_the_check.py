"""What the check does for single demands of the four stacks, run by a Python that has torch: a line for each.

PREFIX/bin/python in_the_check.py CHECK TARGET_JSON SCRATCH
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from envspec_check.checks import data_parallel
from envspec_check.interface import CHECKS, Context
from envspec_check.lock import read_target


def main() -> None:
    scratch = Path(sys.argv[3])
    words = read_target(sys.argv[2]), "cpu", "basic", 5, False, 0, 120.0, scratch, sys.argv[1]
    ctx = Context(*words)
    apart = data_parallel.beside_each_other(ctx, "gloo", 2)
    # a DataParallel that trains on half of what it is given
    right = ctx.torch.nn.DataParallel.forward
    ctx.torch.nn.DataParallel.forward = lambda self, rows: right(self, rows) * 0.5
    wrong = data_parallel.beside_each_other(ctx, "gloo", 2)
    reduced = CHECKS["collectives.bandwidth"].run(ctx)
    found = {
        "parallel": [apart.status, sorted(name for name, *_ in apart.figures)],
        "wrong": [wrong.status, wrong.reason],
        "all_reduce": {name: value for name, value, _ in reduced.figures},
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
