"""Every field of the lock's model, changed alone on every shipped lock: `check` refuses it, or docs/security.md says
that it can't. A new field fails until it has its place there.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from forging import EVIL, wheel
from msgspec import Struct
from msgspec.structs import replace
from support.matrix import by_day

from envspec.app.inputs import read_spec
from envspec.base.records import RecordWithNotes, compared_fields
from envspec.lock.inputs import spec_case
from envspec.lock.judge import judge
from envspec.lock.model import BaseInputs, BuildPin, GitSource, Lock, LockedBase, Publisher, WheelVariant
from envspec.lock.read import load, loads
from envspec.lock.write import dumps
from envspec.packages.stated import StatedMetadata
from envspec.spec.model import Spec

LOCKS = ("cpu-py311", "mm-v2.9", "hpc-v2.7", "deit-v2.6", "dev", "llm-v2.9", "mm-v2.1", "team-v2.9")
DAY = ("cpu-py311", "hpc-v2.7")

ABSENT = {
    *(f"GitSource.{name}" for name in ("url", "commit", "subdirectory")),
    *(f"WheelVariant.{name}" for name in ("label", "properties", "priorities")),
    *(f"BaseInputs.{name}" for name in ("kind", "place", "replace")),
    *(f"LockedBase.{name}" for name in ("platform", "sha256", "digest")),
    *(f"LockedImage.{name}" for name in ("name", "digest")),
    *(f"LockedCorrection.{name}" for name in ("package", "version", "file", "sha256", "constraint", "reason")),
    *(f"StatedMetadata.{name}" for name in ("name", "version", "dependencies")),
}
"""The fields of what no shipped lock has, nor can have without another spec; forgeries have some of them."""


def compared(kind: type[Struct]) -> tuple[str, ...]:
    return compared_fields(kind) if issubclass(kind, RecordWithNotes) else kind.__struct_fields__


def types_of(kind: Any) -> Iterator[type[Struct]]:
    """The records that a type is made of, in what a lock holds."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield kind
        hints = get_type_hints(kind)
        for name in compared(kind):
            yield from types_of(hints[name])
    for inner in get_args(kind):
        yield from types_of(inner)


FIELDS = {f"{kind.__name__}.{name}": kind.__annotations__[name] for kind in types_of(Lock) for name in compared(kind)}


@dataclass(frozen=True)
class Place:
    """A value in a lock, and how a lock with another value there is made."""

    value: Any
    put: Callable[[Any], Any]


def places(value: Any, put: Callable[[Any], Any]) -> Iterator[Place]:
    """Every record in a value."""
    if isinstance(value, Struct):
        yield Place(value, put)
        for name in compared(type(value)):
            inner = getattr(value, name)
            yield from places(inner, lambda new, name=name: put(replace(value, **{name: new})))  # type: ignore[misc]
    elif isinstance(value, tuple):
        for at, item in enumerate(value):
            yield from places(item, lambda new, at=at: put((*value[:at], new, *value[at + 1 :])))  # type: ignore[misc]


OTHER: Mapping[str, Any] = {
    "Artifact.sha256": EVIL,
    "Artifact.md5": "e" * 32,
    "Artifact.variant": WheelVariant("cu130"),
    "BuildPin.sha256": EVIL,
    "Lock.targets": (),
    "Lock.bases": (LockedBase("linux-64", EVIL),),
    "SpecInputs.base": BaseInputs("image", "evil"),
    "LockedPython.platform": "osx-arm64",
    "LockedPython.sha256": EVIL,
    "LockedTarget.architectures": ("sm_120",),
    "LockedTarget.driver_floor": "450.80.02",
    "Pin.artifact": None,
    "Pin.built_with": (BuildPin("evil", "1.0", "evil-1.0-py3-none-any.whl", EVIL),),
    "Pin.dependencies": ("acelerate",),
    "Pin.git": GitSource("https://evil.example/x.git", "e" * 40),
    "Pin.index": "evil",
    "Pin.name": "acelerate",
    "Pin.provides": ("acelerate",),
    "Pin.publisher": Publisher("GitHub", "evil/evil"),
    "Pin.url": "https://evil.example/x-1.0-py3-none-any.whl",
    "TargetInputs.metadata": (StatedMetadata("evil", "", ()),),
    "SpecInputs.sources": {"evil": "evil"},
    "TargetInputs.python": "3.9",
}
"""What an attacker would write. Other texts get a letter more, numbers one more, lists an item more."""


PAIRS = ("overrides", "find_links", "addresses", "accept")
"""Lists of names with a text each."""


def changes(field: str, value: Any) -> Iterator[Any]:
    if field == "Pin.kind":
        yield "conda" if value == "pip" else "pip"
    elif field == "LockedTarget.pins":
        yield value[1:]
        yield (*value, wheel("acelerate"))
    elif field == "LockedTarget.inputs":
        yield replace(value, requirements=(*value.requirements, "acelerate"))
    elif field == "Lock.inputs":
        yield replace(value, allow_source=(*value.allow_source, "acelerate"))
    elif field in OTHER:
        yield OTHER[field]
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
    elif isinstance(value, tuple):
        yield (*value, ("evil", "1") if field.rpartition(".")[2] in PAIRS else "evil")
    else:
        yield "1" if value is None else f"{value}1"
    if value is not None and "None" in str(FIELDS[field]):
        yield None


def equipped(lock: Lock) -> Lock:
    """With what few locks have: a publisher, a build environment, Python's builds of a known size."""
    pythons = [replace(one, size=1000) for one in lock.pythons]
    setuptools = BuildPin("setuptools", "80.9.0", "setuptools-80.9.0-py3-none-any.whl", "b" * 64, 1000)

    def pin(one: Any) -> Any:
        if one.kind != "pip":
            return one
        if one.is_wheel:
            return replace(one, publisher=Publisher("GitHub", "a/b", "release.yml", "pypi", "a@example.org"))
        return replace(one, built_with=(setuptools,))

    targets = tuple(replace(target, pins=tuple(map(pin, target.pins))) for target in lock)
    return replace(lock, targets=targets, pythons=tuple(pythons))


def refused(lock: Lock, spec: Spec) -> bool:
    """Whether `check` calls a lock anything but fresh, by its spec and its pins."""
    return not spec_case(spec).is_of(lock) or bool(judge(lock, spec_case(spec)))


def placed(root: Path) -> dict[str, str]:
    """What docs/security.md says that catches a change of each field."""
    text = (root / "docs" / "security.md").read_text("utf-8")
    table = text.partition("## Forged locks")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[A-Z].*?`) \| (check|verify|nothing)", table, re.MULTILINE)
    found = [(name, by) for names, by in rows for name in re.findall(r"`(\w+\.\w+)`", names)]
    assert len(dict(found)) == len(found), "each field stands once"
    return dict(found)


def test_each_field_has_its_place(root: Path) -> None:
    assert placed(root).keys() == FIELDS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", by_day(LOCKS, DAY.__contains__))
def test_each_change_is_refused_or_listed(name: str, root: Path, request: pytest.FixtureRequest) -> None:
    spec = read_spec(str(root / "specs" / f"{name}.toml"))
    lock = equipped(load(root / "locks" / name / "envspec.lock"))
    assert loads(dumps(lock), "x") == lock and not refused(lock, spec)
    by = placed(root)
    chance = random.Random(name)
    most = 2 if name in DAY else 5
    seen = set()
    found = list(places(lock, lambda new: new))
    for field, catcher in by.items():
        kind, _, attribute = field.partition(".")
        owners = [one for one in found if type(one.value).__name__ == kind]
        if owners:
            seen.add(field)
        for owner in chance.sample(owners, min(most, len(owners))) if catcher == "check" else ():
            value = getattr(owner.value, attribute)
            for new in changes(field, value):
                if new != value:
                    changed = owner.put(replace(owner.value, **{attribute: new}))
                    assert refused(changed, spec), (field, value, new)
    missing = FIELDS.keys() - seen - ABSENT
    assert all(one.startswith(("LockedPython.", "BuildPin.", "Publisher.")) for one in missing), missing
