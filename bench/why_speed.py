"""`envspec why`, of a shipped lock and of one of 500 packages and 6 targets: a whole process each time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.diff_speed import PACKAGES, TARGETS, lock
from bench.measure import IMPORT_CLICK, beside, envspec, run, turns
from envspec.lock.write import dumps

ROUNDS = 41
LIMIT = 4
"""Times `python -c "import click"`."""
SHIPPED = Path(__file__).resolve().parents[1] / "specs" / "mm-v2.9.toml"


def spec() -> str:
    """The spec of the lock that `envspec diff` is measured with."""
    targets = (
        f'[targets.target-{number}]\nplatform = "linux-64"\ncuda = "12.8"\ngpus = ["H100"]\n'
        for number in range(TARGETS)
    )
    return '[env]\nname = "bench"\npython = "3.12"\n[pip]\ndependencies = ["package-0"]\n' + "".join(targets)


def main() -> None:
    """Print the time of each lock beside that of `import click`."""
    with tempfile.TemporaryDirectory() as folder:
        made, locked = Path(folder, "specs", "bench.toml"), Path(folder, "locks", "bench", "envspec.lock")
        made.parent.mkdir()
        locked.parent.mkdir(parents=True)
        made.write_text(spec(), encoding="utf-8")
        locked.write_text(dumps(lock(0)), encoding="utf-8")
        asked = {
            f"envspec why, {PACKAGES} packages, {TARGETS} targets": (str(made), f"package-{PACKAGES // 2}"),
            f"envspec why numpy, specs/{SHIPPED.name}": (str(SHIPPED), "numpy"),
        }
        sides = {name: lambda asked=asked: run(envspec("why", *asked)) for name, asked in asked.items()}
        runs = turns({"click": lambda: run(IMPORT_CLICK), **sides}, ROUNDS)
    click = runs.pop("click")
    for name, one in runs.items():
        print(beside(name, one, "python -c 'import click'", click, LIMIT))


if __name__ == "__main__":
    main()
