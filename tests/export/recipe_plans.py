"""Plans for the tests of the renderers: those of the shipped locks, and changed ones."""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from envspec.export.carried import carried_files
from envspec.export.make import make_plan, make_spec_plan
from envspec.export.plan import BUILD_SCRIPT, PipStep, Plan, SpecPlan
from envspec.lock.model import BuildPin, Lock, Pin, SoundLock
from envspec.lock.read import load
from envspec.spec.model import Image, Spec
from envspec.spec.parse import load_spec

ROOT = Path(__file__).resolve().parents[2]


@cache
def parsed(name: str) -> tuple[Spec, Lock]:
    """A shipped spec and its lock."""
    spec = load_spec(ROOT / "specs" / f"{name}.toml")
    return spec, load(ROOT / "locks" / name / "envspec.lock")


@cache
def shipped(name: str, target: str) -> Plan:
    """The plan of a shipped spec's target."""
    spec, lock = parsed(name)
    locked = lock.target(target)
    assert locked is not None
    return make_plan(spec, SoundLock.of(lock), locked)


@cache
def compiled(name: str, target: str) -> Plan:
    """The plan of a shipped spec's target as if its sources needed a compiler."""
    spec, lock = with_compiled(*parsed(name))
    locked = lock.target(target)
    assert locked is not None
    return make_plan(spec, SoundLock.of(lock), locked)


def with_compiled(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
    """A change: what builds sources has Cython too."""
    cython = BuildPin("cython", "3.2.0", "cython-3.2.0-py3-none-any.whl", "c" * 64)

    def pin(one: Pin) -> Pin:
        return replace(one, built_with=(cython, *one.built_with)) if one.built_with else one

    return spec, replace(lock, targets=tuple(replace(one, pins=tuple(map(pin, one.pins))) for one in lock))


def functions_of_builds(*names: str) -> str:
    """The text of these functions of the script of builds."""
    text = carried_files()[BUILD_SCRIPT]
    return "".join(text[text.index(f"\n{name}() {{") :].partition("\n}\n")[0] + "\n}\n" for name in names)


def installed(plan: Plan, step: PipStep) -> str:
    """The text of all files that a run of uv installs."""
    return "".join(plan.sources.files[file] for file in step.requirements)


@cache
def shipped_spec(name: str) -> SpecPlan:
    """The plan of a whole shipped spec, as its recipes lie in the repository."""
    spec, lock = parsed(name)
    return make_spec_plan(spec, SoundLock.of(lock), f"recipes/{name}")


def with_values(plan: Plan, **values: Any) -> Plan:
    """The plan with these values, each in the record that has it."""
    records = ("image", "runtime", "sources")
    places = {name: record for record in records for name in getattr(plan, record).__struct_fields__}
    for name in places.keys() & values.keys():
        record = getattr(plan, places[name])
        plan = replace(plan, **{places[name]: replace(record, **{name: values.pop(name)})})
    return replace(plan, **values)


def alone(plan: Plan) -> SpecPlan:
    """The plan of a spec that has this target and no other."""
    return SpecPlan(plan.spec, plan.description, (plan,))


def of_target(name: str, target: str) -> SpecPlan:
    """The plan of a shipped spec as if it had one target."""
    return alone(shipped(name, target))


def text_in(files: Mapping[str, str], name: str) -> str:
    """The text of the one file with this name, in whichever folder."""
    (found,) = (text for path, text in files.items() if path.rpartition("/")[2] == name)
    return found


def plan_with(name: str, change: Callable[[Spec, Lock], tuple[Spec, Lock]]) -> Plan:
    """The plan of the first target of a shipped spec that was changed, as its lock."""
    spec, lock = change(*parsed(name))
    return make_plan(spec, SoundLock.of(lock), lock.targets[0])


def with_image(**fields: Any) -> Callable[[Spec, Lock], tuple[Spec, Lock]]:
    """A change: the spec has this image, and the lock stays."""
    return lambda spec, lock: (replace(spec, image=Image(**fields)), lock)
