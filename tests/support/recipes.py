"""The recipes of every target of every shipped spec, in a folder that is like a repository with all of them."""

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from posixpath import normpath

import pytest

from envspec.export.folder import OF_A_TARGET, OF_ALL, place_of, render_all, render_all_of_spec
from envspec.export.make import make_spec_plan
from envspec.export.plan import SpecPlan, encode
from envspec.lock.model import SoundLock
from envspec.lock.read import load
from envspec.spec.parse import load_spec

ROOT = Path(__file__).resolve().parents[2]
SPECS = sorted(path.stem for path in (ROOT / "specs").glob("*.toml") if path.stem != "dev")
"""`dev` is what envspec is developed with, on the developer's own machine: no image is made of it."""

RENDERED = pytest.mark.xdist_group("recipes")
"""For a test that reads all recipes: one worker renders them, and once."""


@cache
def recipe_plan(name: str) -> SpecPlan:
    """Make the plan of a shipped spec, as of a repository."""
    spec, lock = load_spec(ROOT / "specs" / f"{name}.toml"), load(ROOT / "locks" / name / "envspec.lock")
    return make_spec_plan(spec, SoundLock.of(lock), place_of(name))


@cache
def recipe_texts(name: str) -> Mapping[str, str]:
    """Render all recipes of a shipped spec, by path below its folder."""
    plan = recipe_plan(name)
    of_targets = [one for one in OF_A_TARGET if one in OF_ALL]
    rendered = [*(files for of in plan.targets for files in render_all(of, of_targets).values())]
    return {path: text for files in [*rendered, *render_all_of_spec(plan).values()] for path, text in files.items()}


@cache
def all_recipes() -> Path:
    """Write all recipes of all shipped specs, once a process. Returns their folder, `recipes` of a repository."""
    repository = Path(tempfile.mkdtemp(prefix="envspec-recipes-"))
    atexit.register(shutil.rmtree, repository, ignore_errors=True)
    for name in SPECS:
        for path, text in recipe_texts(name).items():
            file = repository / normpath(f"{place_of(name)}/{path}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encode(text))
    return repository / "recipes"
