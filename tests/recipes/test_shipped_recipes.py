"""The committed recipes: those of every shipped spec and target, as `envspec export` writes them now."""

from __future__ import annotations

from pathlib import Path

import pytest

from envspec.lock.judge import SoundLock
from envspec.lock.read import load
from envspec.lock.write import dumps
from envspec.recipes.folder import admitted, carried
from envspec.recipes.make import make_plan
from envspec.spec.parse import load_spec

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.toml") if path.stem != "dev")
"""`dev` is what envspec is developed with, on the developer's own machine: no image is made of it."""


@pytest.mark.parametrize("name", SPECS)
def test_they_are_what_export_writes(name: str) -> None:
    spec, lock = load_spec(ROOT / "specs" / f"{name}.toml"), load(ROOT / "locks" / name / "envspec.lock")
    expected: dict[str, str] = {}
    for target in lock:
        plan = make_plan(spec, SoundLock(lock), target, dumps(lock))
        rendered = admitted(plan)
        files = carried(plan, rendered) | {path: text for texts in rendered.values() for path, text in texts.items()}
        expected |= {f"{target.name}/{path}": text for path, text in files.items()}
    folder = ROOT / "recipes" / name
    found = {
        path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()
    }
    assert [*found] != [] and sorted(found) == sorted(expected)
    differing = [path for path, text in expected.items() if found[path] != text]
    assert differing == [], f"envspec export specs/{name}.toml --format all -o recipes/{name}"
