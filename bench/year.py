"""A team's year (tests/journeys/year.py): git's lines, conflicts by event and seconds a month, beside uv.lock."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests" / name) for name in (".", "journeys")]

from support.index import Index  # noqa: E402
from year import Figures, Team, live, releases  # noqa: E402


def main() -> None:
    """Print the year's figures."""
    print(f"load average: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    internal = Index()
    with tempfile.TemporaryDirectory() as folder, releases(internal) as index:
        *_, figures = live(Team(Path(folder), index, internal))
    show(figures)


def show(figures: Figures) -> None:
    """Print the figures."""
    for kind in ("lock", "rendered", "recipes"):
        print(f"{kind}: {figures.lines[kind] / figures.changed:.1f} git lines for each of {figures.changed} packages")
    print(f"reviews: {dict(figures.risks)}")
    print(f"uv.lock: {figures.lines['uv.lock'] / figures.uv_changed:.1f} for each of {figures.uv_changed}")
    mean = [sum(one) / len(one) for one in (figures.seconds, figures.uv_seconds)]
    print(f"a month: {mean[0]:.1f} s for three specs (lock, diff, outdated, export, check); uv lock {mean[1]:.1f} s")
    for way, one in figures.merges.items():
        for name in ("ours", "plain", "uv", "others"):
            counts: Counter[str] = getattr(one, name)
            print(f"{way}: {sum(counts.values())} conflicts, {name} {dict(counts)}")
        print(f"{way}: older than on a side: {one.lost}")


if __name__ == "__main__":
    main()
