"""`envspec export` of all formats for all shipped locks, and `envspec check` beside such recipes: whole processes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from bench.measure import envspec, run, turns

ROUNDS = 7
ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Print the times, and the ratios to the least that reading the same locks costs."""
    specs = sorted(str(path) for path in (ROOT / "specs").glob("*.toml"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("specs", "locks"):
            shutil.copytree(ROOT / name, place / name)
        exporting = envspec("export", *(str(Path("specs", Path(spec).name)) for spec in specs), "--format", "all")
        runs = turns(
            {
                "check": lambda: run(envspec("check"), cwd=place),
                "export": lambda: run([*exporting, "-o", str(place / "out")], cwd=place),
            },
            ROUNDS,
        )
        (place / "out").rename(place / "recipes")
        runs |= turns({"check with recipes": lambda: run(envspec("check"), cwd=place)}, ROUNDS)
    export, check, both = runs["export"], runs["check"], runs["check with recipes"]
    ratio = export.seconds / check.seconds
    print(
        f"envspec export --format all, {len(specs)} shipped locks: {export.seconds * 1e3:.0f} ms,"
        f" {export.megabytes:.0f} MB   ({ratio:.2f} x envspec check)"
    )
    ratio = both.seconds / check.seconds
    print(f"envspec check, with recipes of all: {both.seconds * 1e3:.0f} ms   ({ratio:.2f} x without)")


if __name__ == "__main__":
    main()
