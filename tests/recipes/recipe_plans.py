"""Plans for the tests of the renderers: those of the shipped locks, and changed ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from envspec.lock.judge import SoundLock
from envspec.lock.read import load
from envspec.recipes.make import make_plan
from envspec.recipes.plan import Plan
from envspec.spec.parse import load_spec

ROOT = Path(__file__).resolve().parents[2]


@cache
def shipped(spec: str, target: str) -> Plan:
    """The plan of a shipped spec's target."""
    parsed = load_spec(ROOT / "specs" / f"{spec}.toml", capability=lambda gpu: None)
    path = ROOT / "locks" / spec / "envspec.lock"
    lock = load(path)
    locked = lock.target(target)
    assert locked is not None
    return make_plan(parsed, SoundLock(lock), locked, path.read_text("utf-8"))
