"""Forgeries: each is a folder here whose forgery.toml says of which lock it changes what, who refuses it, and the code.

lock          a shipped spec's name; "demo" and "channel" are those that test_verify.py makes from a loopback index
refused-by    "check", or "verify" where `check` can't see it
code          what it is refused with
field         of verify's: the field of the lock's model that is changed
stale         the lock's inputs are changed along, so that `check` names that instead
shows         where commands that install or export only warn: what a file of theirs has all the same, `in-format`
added         text for the spec's [pip], with `before`: the changes that make the shipped lock one of that spec
[[change]]    what is changed, one after the other: see `CHANGES`. Of a package in every target that has it, or `in` one
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tomli
from msgspec.structs import replace

from envspec.facts.python_builds import newest_build
from envspec.lock.model import (
    Artifact,
    BuildPin,
    GitSource,
    Lock,
    LockedCorrection,
    LockedPython,
    LockedTarget,
    Pin,
    Publisher,
    WheelVariant,
)

EVIL = "e" * 64
Change = Mapping[str, Any]
Published = Mapping[str, tuple[str, int]]
"""The sha256 and size of the files that an index has, by name."""


@dataclass(frozen=True)
class Forgery:
    """One of the folders, as its file has it."""

    name: str
    lock: str
    refused_by: str
    code: str
    change: tuple[Change, ...]
    field: str = ""
    stale: bool = False
    shows: str = ""
    in_format: str = "dockerfile"
    added: str = ""
    before: tuple[Change, ...] = ()

    def honest(self, lock: Lock) -> Lock:
        return _all(lock, self.before, {})

    def forge(self, lock: Lock, published: Published | None = None) -> Lock:
        """The lock with all that is changed. `published` is what "published" stands for in the file."""
        return _all(lock, self.change, published or {})


@cache
def forgeries(refused_by: str) -> tuple[Forgery, ...]:
    """Those that `check` refuses, or those that only `verify` does, by name."""
    found = [_read(path) for path in sorted(Path(__file__).parent.glob("*/forgery.toml"))]
    return tuple(one for one in found if one.refused_by == refused_by)


def _read(path: Path) -> Forgery:
    said = tomli.loads(path.read_text("utf-8"))
    values = {key.replace("-", "_"): value for key, value in _frozen(said).items()}
    return Forgery(path.parent.name, **values)


def _frozen(said: Change) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in said.items()}


def _all(lock: Lock, changes: tuple[Change, ...], published: Published) -> Lock:
    for change in changes:
        what = next(key for key in CHANGES if key in change)
        lock = CHANGES[what](lock, change, published)
    return lock


# What a change is about


def _of_package(lock: Lock, change: Change, published: Published) -> Lock:
    name, kind, target = change["package"], change.get("kind", "pip"), change.get("in")
    if change.get("dropped"):
        return without(lock, name, kind)
    said = {key: value for key, value in change.items() if key not in ("package", "kind", "in")}
    found = any(pin.name == name for one in lock if target in (None, one.name) for pin in one.pins)
    assert found, f"the lock has no {name}"
    return each_pin(lock, name, lambda pin: _pin(pin, said, lock, published), kind, target)


def _of_a_new_package(lock: Lock, change: Change, published: Published) -> Lock:
    said = {"kind": "pip", "version": "1.0", "index": "pypi", "licence": "MIT", **change["new"]}
    stem, build = said["name"].replace("-", "_"), said.get("build")
    file = f"{stem}-{said['version']}-{build}.conda" if build else f"{stem}-{said['version']}-py3-none-any.whl"
    sha256, size = _sha256(said.get("sha256", "another"), file, lock, published), published.get(file, ("", 1000))[1]
    pin = Pin(said["kind"], said["name"], said["version"], said["index"], Artifact(file, sha256, size, said.get("md5")))
    fields = {key: said[key] for key in ("licence", "url", "direct", "build") if key in said}
    return with_pin(lock, replace(pin, **fields), said.get("asked-by"))


def _of_targets(lock: Lock, change: Change, published: Published) -> Lock:
    said = {
        key.replace("-", "_"): tuple(v) if isinstance(v, list) else v or None for key, v in change["targets"].items()
    }

    def changed(target: LockedTarget) -> LockedTarget:
        # a CPU target has none of these, before and after
        fields: dict[str, Any] = {key: value or None for key, value in said.items() if getattr(target, key)}
        return replace(target, **fields)

    return each_target(lock, changed)


def _of_inputs(lock: Lock, change: Change, published: Published) -> Lock:
    said = {key.replace("-", "_"): value for key, value in _frozen(change["inputs"]).items()}
    return replace(lock, inputs=replace(lock.inputs, **said))


def _of_requirements(lock: Lock, change: Change, published: Published) -> Lock:
    said = change["requirements"]

    def changed(target: LockedTarget) -> LockedTarget:
        kept = {text for text in target.inputs.requirements if text != said.get("dropped")}
        texts = tuple(sorted(kept | ({said["new"]} if "new" in said else set())))
        return replace(target, inputs=replace(target.inputs, requirements=texts))

    return each_target(lock, changed)


def _of_an_override(lock: Lock, change: Change, published: Published) -> Lock:
    """Of the spec's own word: one override, with a reason."""
    overrides = ((change["override"], change["reason"]),)
    return each_target(lock, lambda target: replace(target, inputs=replace(target.inputs, overrides=overrides)))


def _of_an_acceptance(lock: Lock, change: Change, published: Published) -> Lock:
    """What the lock says that its spec takes knowingly."""
    accept = ((change["accept"], "it is safe"),)
    return each_target(lock, lambda target: replace(target, inputs=replace(target.inputs, accept=accept)))


def _of_a_new_target(lock: Lock, change: Change, published: Published) -> Lock:
    return replace(lock, targets=(*lock.targets, replace(lock.targets[0], name=change["new-target"])))


def _of_python(lock: Lock, change: Change, published: Published) -> Lock:
    known = newest_build("3.12", "linux-64")
    assert known is not None
    said = {"version": known.version, "platform": "linux-64", "sha256": known.sha256, **change["python"]}
    named = known.file.replace(known.version, said["version"])
    kept = lock.pythons if said.get("beside") else ()
    sha256 = EVIL if said["sha256"] == "evil" else said["sha256"]
    build = LockedPython(said["platform"], said["version"], known.build, said.get("file", named), sha256)
    return replace(lock, pythons=(*kept, build))


def _of_a_correction(lock: Lock, change: Change, published: Published) -> Lock:
    said = change["correction"]
    pin = next(pin for target in lock for pin in target.pins if pin.name == said["package"])
    assert pin.artifact is not None
    sha256 = _sha256(said.get("sha256", pin.artifact.sha256), pin.artifact.file, lock, published)
    row = LockedCorrection(pin.name, pin.version, pin.artifact.file, sha256, said["constraint"], "it says so")
    return replace(lock, corrections=(row,))


CHANGES: Mapping[str, Callable[[Lock, Change, Published], Lock]] = {
    "package": _of_package,
    "new": _of_a_new_package,
    "targets": _of_targets,
    "inputs": _of_inputs,
    "requirements": _of_requirements,
    "override": _of_an_override,
    "accept": _of_an_acceptance,
    "new-target": _of_a_new_target,
    "python": _of_python,
    "correction": _of_a_correction,
}


def _pin(pin: Pin, said: Change, lock: Lock, published: Published) -> Pin:
    """A pin with what is said of it. `as-in` is a target, whose pin it becomes; another `version` brings another hash,
    under the file's name of that version."""
    if "as-in" in said:
        other = next(one for one in lock if one.name == said["as-in"]).pin(pin.name)
        assert other is not None
        return other
    keys = ("version", "index", "url", "licence", "direct", "build")
    fields: dict[str, Any] = {key: said[key] for key in keys if key in said}
    if "no-licence" in said:
        fields["licence"] = None
    if "requires-python" in said:
        fields["requires_python"] = said["requires-python"] or None
    for key in ("provides", "overwrites", "code"):
        if key in said:
            fields[key] = tuple(said[key])
    if "git" in said:
        fields["git"] = GitSource(**said["git"])
    if "publisher" in said:
        fields["publisher"] = Publisher(**said["publisher"])
    if "built-with" in said:
        fields["built_with"] = tuple(_build_pin(one, lock, published) for one in said["built-with"])
    gone = tuple(said.get("no-edges", ()))
    edges = (edge for edge in said.get("edges", pin.dependencies) if not edge.startswith(gone))
    fileless = pin.artifact is None or "git" in said or "no-file" in said
    artifact = None if fileless else _artifact(pin, said, lock, published)
    return replace(pin, **fields, dependencies=(*edges, *said.get("new-edges", ())), artifact=artifact)


def _artifact(pin: Pin, said: Change, lock: Lock, published: Published) -> Artifact:
    before = pin.artifact
    assert before is not None
    file = before.file
    if "version" in said:
        file = file.replace(f"-{pin.version}-", f"-{said['version']}-")
    if "renamed" in said:
        file = file.replace(*said["renamed"])
    if "file" in said:
        stem = file.removesuffix(".whl")
        file = said["file"].format(stem=stem, version=said.get("version", pin.version), build=pin.build)
    sha256 = _sha256(said.get("sha256", "another" if "version" in said else before.sha256), file, lock, published)
    size = published[file][1] if said.get("size") == "published" else said.get("size", before.size)
    variant = before.variant
    if "variant" in said:
        values = _frozen(said["variant"])
        variant = replace(variant, **values) if variant else WheelVariant(**values)
    return Artifact(file, sha256, size, said.get("md5", before.md5), variant, said.get("inert", before.inert))


def _build_pin(said: Change, lock: Lock, published: Published) -> BuildPin:
    sha256 = _sha256(said.get("sha256", "another"), said["file"], lock, published)
    return BuildPin(said["name"], said["version"], said["file"], sha256, said.get("size"))


def _sha256(said: str, file: str, lock: Lock, published: Published) -> str:
    """What a file means by a hash: "another", "published", "of PACKAGE", or the hash itself."""
    if said == "published":
        return published[file][0]
    if said.startswith("of "):
        other = lock.targets[0].pin(said.removeprefix("of "))
        assert other is not None and other.artifact is not None
        return other.artifact.sha256
    return EVIL if said == "another" else said


# Locks with one thing changed


def each_target(lock: Lock, change: Callable[[LockedTarget], LockedTarget]) -> Lock:
    return replace(lock, targets=tuple(change(target) for target in lock.targets))


def each_pin(lock: Lock, name: str, change: Callable[[Pin], Pin], kind: str = "pip", target: str | None = None) -> Lock:
    """With one package changed, in every target that has it or in one."""

    def changed(locked: LockedTarget) -> LockedTarget:
        if target not in (None, locked.name):
            return locked
        return replace(locked, pins=tuple(change(p) if (p.kind, p.name) == (kind, name) else p for p in locked.pins))

    return each_target(lock, changed)


def with_pin(lock: Lock, pin: Pin, asker: str | None = None) -> Lock:
    """With a package more; `asker` gets an edge to it."""

    def changed(locked: LockedTarget) -> LockedTarget:
        others = (p for p in locked.pins if (p.kind, p.name) != (pin.kind, pin.name))
        pins = sorted((*others, pin), key=lambda p: (p.kind, p.name))
        return replace(locked, pins=tuple(pins))

    edged = each_pin(lock, asker, lambda p: replace(p, dependencies=(*p.dependencies, pin.name))) if asker else lock
    return each_target(edged, changed)


def without(lock: Lock, name: str, kind: str = "pip") -> Lock:
    return each_target(lock, lambda t: replace(t, pins=tuple(p for p in t.pins if (p.kind, p.name) != (kind, name))))


def with_sha256(pin: Pin, sha256: str) -> Pin:
    assert pin.artifact is not None
    return replace(pin, artifact=replace(pin.artifact, sha256=sha256))


def wheel(name: str, version: str = "1.0", index: str = "pypi") -> Pin:
    artifact = Artifact(f"{name.replace('-', '_')}-{version}-py3-none-any.whl", EVIL, 1000)
    return Pin("pip", name, version, index, artifact, licence="MIT")
