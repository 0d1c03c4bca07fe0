"""`python tests/data/year/make_releases.py FOLDER`: releases.txt anew, from locks of the three specs at thirteen days.

FOLDER/YYYY-MM-DD/locks/SPEC/envspec.lock is what `envspec lock --upgrade` made with that `exclude-newer`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from packaging.version import Version

from envspec.facts.wheels import FAMILY
from envspec.lock.read import load

HERE = Path(__file__).resolve().parent


def main(folder: Path) -> None:
    """Write each release that a lock has: name, version, the first day it was locked, and what it requires."""
    found: dict[tuple[str, Version], tuple[str, dict[str, None]]] = {}
    for path in sorted(folder.glob("*/locks/*/envspec.lock")):
        day = path.parents[2].name
        for target in load(path):
            # of the builds of torch, the one whose libraries PyPI's has
            pins = [one for one in target.pins if one.index in ("pypi", "pytorch/cu128")]
            for pin in pins:
                if pin.index == "pypi" or pin.name in FAMILY:
                    key = (pin.name, Version(Version(pin.version).public))
                    found.setdefault(key, (day, {}))[1].update(dict.fromkeys(pin.dependencies))
    rows = (
        f"{name} {version} {day} {' | '.join(lines)}".rstrip()
        for (name, version), (day, lines) in sorted(found.items())
    )
    (HERE / "releases.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
