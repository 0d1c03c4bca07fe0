"""`envspec diff` of two locks of 500 packages and 6 targets: a whole process each time."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from bench.measure import IMPORT_CLICK, beside, envspec, run, turns
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.lock.write import dumps

ROUNDS = 15
PACKAGES = 500
TARGETS = 6
LIMIT = 6
"""Times `python -c "import click"`."""


def lock(moved: int) -> Lock:
    """A lock with five edges a package, some with markers. `moved` decides the version of every fifth package."""
    pins = []
    for number in range(PACKAGES):
        version = f"1.{number % 7 + (moved if number % 5 == 0 else 0)}.0"
        file = f"package_{number}-{version}-py3-none-any.whl"
        requires = []
        for step in (1, 2, 3, 5, 8):
            if number + step < PACKAGES:
                marker = '; python_version >= "3.9"' if step == 3 else '; extra == "test"' if step == 8 else ""
                requires.append(f"package-{number + step}>=1{marker}")
        artifact = Artifact(file, hashlib.sha256(file.encode()).hexdigest(), 100_000 + number)
        name = f"package-{number}"
        pins.append(Pin("pip", name, version, "pypi", artifact, tuple(requires), number == 0, "MIT"))
    pins.sort(key=lambda pin: pin.name)
    targets = []
    for number in range(TARGETS):
        inputs = TargetInputs("linux-64", "3.12", "2.28", "12.8", ("H100",), None, ("package-0",))
        own = tuple(pin for place, pin in enumerate(pins) if place % 50 != number + 1)
        targets.append(LockedTarget(f"target-{number}", inputs, own, ("sm_90",), "525.60.13"))
    return Lock("bench", SpecInputs(), tuple(targets))


def main() -> None:
    """Print the time of each format beside that of `import click`."""
    with tempfile.TemporaryDirectory() as folder:
        old, new = Path(folder, "old.lock"), Path(folder, "new.lock")
        old.write_text(dumps(lock(0)), encoding="utf-8")
        new.write_text(dumps(lock(1)), encoding="utf-8")
        files = (str(old), str(new))
        sides = {
            f"envspec diff --format {form}": lambda form=form: run(envspec("diff", *files, "--format", form))
            for form in ("text", "markdown", "json", "html")
        }
        runs = turns({"click": lambda: run(IMPORT_CLICK), **sides}, ROUNDS)
    click = runs.pop("click")
    for name, one in runs.items():
        told = f"{name}, 2 x {PACKAGES} packages, {TARGETS} targets"
        print(beside(told, one, "python -c 'import click'", click, LIMIT))


if __name__ == "__main__":
    main()
