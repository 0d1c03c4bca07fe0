"""Record the answers that the check has of torch's layers, optimizers and schedules, by the Python of an environment
with torch:

    PREFIX/bin/python tests/mutants/record.py CHECK_FOLDER

It writes the numbers of each row of answers.py anew, computed in float64. With another torch, the difference to what is
committed shows what this release does otherwise.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])

from envspec_check.checks import recorded

torch: Any = importlib.import_module("torch")


def numbers(computed: Callable[[str], Any], row: str) -> str:
    found = computed(row)
    return " ".join(f"{one:.7g}" for one in (found if isinstance(found, tuple) else (found,)))


def main(check: str) -> None:
    path = Path(check) / "envspec_check/checks/answers.py"
    by: dict[str, Callable[[str], Any]] = {
        "ANSWERS": lambda row: recorded.answer(torch, row, "cpu", torch.float64),
        "MOVES": lambda row: recorded.move(torch, row, "cpu"),
        "RATES": lambda row: recorded.rates(torch, row),
    }
    lines, computed = [], by["ANSWERS"]
    # a long row has two lines, joined by a backslash
    for line in path.read_text(encoding="utf-8").replace("\\\n", "\0").splitlines():
        row, equals, _ = line.rpartition(" = ")
        if line.endswith(' = """'):
            computed = by[row]
        elif equals:
            line = row + equals + numbers(computed, row.replace("\0", ""))
        lines.append(line)
    path.write_text("\n".join(lines).replace("\0", "\\\n") + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
