"""pyproject.toml for uv: a spec's requirements, indexes and bounds, with the lock's pins as constraints.

Targets on platforms of their own are environments of one resolution. Targets that share a platform are extras that
conflict: each has its builds of PyTorch by an index of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from envspec.facts.corrections import corrections
from envspec.facts.wheel_bounds import WHEEL_BOUNDS
from envspec.lock.formats import intent
from envspec.lock.formats.intent import Addresses, ProjectFile, array, comment, pip_pins, strings
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.toml_text import key, string, value
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.packages.tags import platform_marker
from envspec.spec.model import Spec
from envspec.spec.newer import bounds, with_moments_of_lock

_NOWHERE = "sys_platform == 'never'"


class Provided(Struct, frozen=True, dict=True):
    """conda's packages among the requirements of the targets' pip packages."""

    targets: tuple[LockedTarget, ...]

    @cached_property
    def _by_conda(self) -> Mapping[str, tuple[LockedTarget, ...]]:
        """Name → the targets that have it of conda alone."""
        targets_by_name: dict[str, tuple[LockedTarget, ...]] = {}
        for target in self.targets:
            pip = {pin.name for pin in pip_pins(target)}
            of_conda = {name for pin in target.pins if pin.kind == "conda" for name in pin.provides}
            for name in sorted((of_conda & {requirement_name(text) for text in _texts(target)}) - pip):
                targets_by_name[name] = (*targets_by_name.get(name, ()), target)
        return dict(sorted(targets_by_name.items()))

    @cached_property
    def kept_out(self) -> Mapping[str, tuple[str, ...]]:
        """Name → the overrides that keep it out wherever conda has it, and pin it wherever pip has it."""
        overrides = {}
        for name, of_conda in self._by_conda.items():
            lines: dict[str, set[str]] = {}
            for target in self.targets:
                for pin in pip_pins(target):
                    if pin.name == name:
                        lines.setdefault(target.inputs.platform, set()).add(_pin_requirement(pin, target))
            of_both = lines.keys() & {target.inputs.platform for target in of_conda}
            if of_both or _is_overridden(name, self.targets) or any(len(texts) > 1 for texts in lines.values()):
                continue
            marked = (f"{text} ; {platform_marker(platform)}" for platform, (text,) in sorted(lines.items()))
            overrides[name] = tuple(marked) or (f"{name} ; {_NOWHERE}",)
        return overrides

    def of(self, target: LockedTarget) -> tuple[str, ...]:
        """List the packages that uv leaves out for a target, since conda provides them."""
        return tuple(name for name in self.kept_out if target in self._by_conda[name])

    def names_from_index(self, target: LockedTarget) -> tuple[str, ...]:
        """List the packages that uv takes from an index for a target, though conda provides them."""
        return tuple(name for name, having in self._by_conda.items() if name not in self.kept_out and target in having)


def _texts(target: LockedTarget) -> Iterator[str]:
    yield from target.inputs.requirements
    for pin in pip_pins(target):
        yield from pin.dependencies


def _is_overridden(name: str, targets: Sequence[LockedTarget]) -> bool:
    return any(requirement_name(text) == name for target in targets for text, _ in target.inputs.overrides)


def _pin_requirement(pin: Pin, target: LockedTarget) -> str:
    """Return a pin as a requirement, with each extra that the target's requirements ask of it."""
    requirements = (parse_requirement(text) for text in _texts(target) if requirement_name(text) == pin.name)
    extras = sorted({extra for requirement in requirements for extra in requirement.extras})
    named = f"{pin.name}[{','.join(extras)}]" if extras else pin.name
    if pin.git is not None:
        return f"{named} @ git+{pin.git.address}"
    return f"{named} @ {pin.url}" if pin.url is not None else f"{named}=={pin.version}"


class _Targets(Struct, frozen=True, dict=True):
    """The targets of a project. `apart`: those of one platform are extras."""

    all: tuple[LockedTarget, ...]

    @property
    def platforms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(target.inputs.platform for target in self.all))

    @property
    def apart(self) -> bool:
        return len(self.platforms) < len(self.all)

    @cached_property
    def provided(self) -> Provided:
        return Provided(self.all)

    def with_markers(self, text: str, having: Sequence[LockedTarget]) -> list[str]:
        """Return a requirement for the platforms of the targets that have it."""
        of = dict.fromkeys(target.inputs.platform for target in having)
        if len(of) == len(self.platforms):
            return [text]
        return [intent.where(text, platform_marker(platform)) for platform in of]


def uv_project(spec: Spec, lock: Lock, targets: Sequence[LockedTarget], addresses: Addresses) -> ProjectFile:
    """Return the project whose `uv lock` has the pins of these targets.

    addresses   of `intent.named_indexes`
    """
    of = _Targets(tuple(targets))
    unsaid = [*_unsaid(spec, of)]
    pythons = sorted({target.inputs.python for target in targets})
    python = f"=={pythons[0]}.*" if len(pythons) == 1 else f">={pythons[0]}"
    lines = [
        *intent.heading(lock, "uv", unsaid),
        "[project]",
        f"name = {string(canonical_name(lock.name))}",
        'version = "0"',
        *([f"description = {string(spec.description)}"] if spec.description else ()),
        f"requires-python = {string(python)}",
        *_dependency_lines(of),
        "",
        "[tool.uv]",
        "package = false",
        *_environments(of),
        *_bounds(of),
        *_builds(spec, of),
        *_newer(spec, lock),
        "",
        *_sources(of),
        *_indexes(of, lock, addresses),
        *_metadata(of, lock),
    ]
    return ProjectFile("\n".join(lines).rstrip("\n") + "\n", tuple(unsaid))


def _unsaid(spec: Spec, of: _Targets) -> Iterator[str]:
    def machines(target: LockedTarget) -> list[str]:
        requirements = {"glibc": target.inputs.glibc, "cpu": target.inputs.cpu}
        return [f"{what} {version}" for what, version in requirements.items() if version]

    yield from intent.omissions(spec, of.all, machines)
    for target in of.all:
        if conda := target.inputs.conda_requirements:
            yield f"target {target.name}: conda's {', '.join(conda)}"
        if provided := of.provided.of(target):
            yield f"target {target.name}: what conda provides: {', '.join(provided)}"
        if taken := of.provided.names_from_index(target):
            yield f"target {target.name}: uv takes from an index what conda provides: {', '.join(taken)}"
    for text, having in _overrides(of).items():
        if of.apart and len(having) < len(of.all):
            names = ", ".join(target.name for target in having)
            yield f"the override {text} holds for {names} alone, and uv has one list"
    wheels = {pin.name for target in of.all for pin in pip_pins(target) if pin.is_wheel}
    for name in sorted(spec.pip.allow_source & wheels - {pin.name for pin in _source_pins(of)}):
        yield f"allow-source {name}: its pin is a wheel, and uv would take sources alone"


def _dependency_lines(of: _Targets) -> Iterator[str]:
    if not of.apart:
        targets_by_text = intent.by_target(of.all, intent.requirements_of)
        yield from strings(
            "dependencies", (line for text, having in targets_by_text.items() for line in of.with_markers(text, having))
        )
        return
    yield "dependencies = []"
    yield ""
    yield "# One extra a target: `uv sync --extra NAME`."
    yield "[project.optional-dependencies]"
    differing: dict[str, list[str]] = {}
    for name, of_targets in _differing(of).items():
        for target_name, version in of_targets.items():
            differing.setdefault(target_name, []).append(f"{name}=={version}")
    for target in of.all:
        pins = differing.get(target.name)
        lines = [string(line) for text in intent.requirements_of(target) for line in of.with_markers(text, [target])]
        if pins:
            lines += ["# the lock's pins that other targets have other versions of"]
            lines += [string(line) for text in pins for line in of.with_markers(text, [target])]
        yield from array(key(target.name), lines)


def _differing(of: _Targets) -> dict[str, dict[str, str]]:
    """Give the versions that no bound of all targets can say: some have another, or have it of conda."""
    conda = {name for target in of.all for name in of.provided.names_from_index(target)}
    every = intent.versions(of.all)
    return {
        name: versions
        for name, versions in every.items()
        if name not in of.provided.kept_out and (name in conda or len(set(versions.values())) > 1)
    }


def _environments(of: _Targets) -> Iterator[str]:
    where = [
        f"{platform_marker(platform)} and platform_python_implementation == 'CPython'" for platform in of.platforms
    ]
    yield from strings("environments", where)
    yield from strings("required-environments", where)
    if of.apart:
        yield from array("conflicts", [value([{"extra": target.name} for target in of.all])])


def _bounds(of: _Targets) -> Iterator[str]:
    lines = [
        string(line)
        for text, having in intent.by_target(of.all, lambda target: target.inputs.constraints).items()
        # what one of several extras is bound by, its pins keep
        if not of.apart or len(having) == len(of.all)
        for line in of.with_markers(text, having)
    ]
    lines.append("# the lock's pins: without these uv chooses anew")
    in_extras = _differing(of) if of.apart else {}
    by_name = {target.name: target for target in of.all}
    for name, versions in intent.versions(of.all).items():
        if name in of.provided.kept_out or name in in_extras:
            continue
        by_version: dict[str, list[LockedTarget]] = {}
        for target_name, version in versions.items():
            by_version.setdefault(version, []).append(by_name[target_name])
        for version, own in by_version.items():
            lines += map(string, of.with_markers(f"{name}=={version}", own))
    yield from array("constraint-dependencies", lines)
    lines = []
    for text, having in _overrides(of).items():
        reasons = {
            reason for target in having for override, reason in target.inputs.overrides if override == text and reason
        }
        lines += [*map(comment, sorted(reasons)), *map(string, of.with_markers(text, having))]
    if kept_out := of.provided.kept_out:
        lines.append("# what conda provides: only where it doesn't, uv takes it")
        lines += [string(text) for texts in kept_out.values() for text in texts]
    yield from array("override-dependencies", lines)


def _overrides(of: _Targets) -> Mapping[str, tuple[LockedTarget, ...]]:
    return intent.by_target(of.all, lambda target: (text for text, _ in target.inputs.overrides))


def _source_pins(of: _Targets) -> list[Pin]:
    """List the pins that uv has to build, each once."""
    pins = {(pin.name, pin.version): pin for target in of.all for pin in pip_pins(target) if not pin.is_wheel}
    return [pins[release] for release in sorted(pins)]


def _builds(spec: Spec, of: _Targets) -> Iterator[str]:
    yield "no-build = true"
    # with no-build, uv builds these alone
    yield from strings("no-binary-package", dict.fromkeys(pin.name for pin in _source_pins(of)))
    terms = [spec.terms_of(target.name) for target in of.all]
    yield from strings(
        "no-build-isolation-package",
        sorted({name for target_terms in terms for name in target_terms.no_build_isolation}),
    )
    needed = {name: texts for target_terms in terms for name, texts in target_terms.build_dependencies.items()}
    if needed:
        table = {name: [requirement.text for requirement in texts] for name, texts in sorted(needed.items())}
        yield f"extra-build-dependencies = {value(table)}"


def _newer(spec: Spec, lock: Lock) -> Iterator[str]:
    moment = lock.inputs.exclude_newer
    if moment:
        yield f"exclude-newer = {string(moment)}"
        if exempt := bounds(with_moments_of_lock(spec, moment)):
            yield f"exclude-newer-package = {value({name: bound or False for name, bound in sorted(exempt.items())})}"


def _sources(of: _Targets) -> Iterator[str]:
    sources_by_name: dict[str, list[dict[str, str]]] = {}
    for target in of.all:
        for pin in pip_pins(target):
            if index := intent.index_of(pin):
                source = {"index": _name(index)}
                if of.apart and pin.name not in of.provided.kept_out:
                    source["extra"] = target.name
                elif len(of.all) > 1:
                    source["marker"] = platform_marker(target.inputs.platform)
                sources_by_name.setdefault(pin.name, []).append(source)
    if sources_by_name:
        yield "[tool.uv.sources]"
        for name, sources in sorted(sources_by_name.items()):
            yield f"{key(name)} = {value(sources[0] if len(of.all) == 1 else sources)}"
        yield ""


def _indexes(of: _Targets, lock: Lock, addresses: Addresses) -> Iterator[str]:
    flat = {name for target in of.all for name, _ in target.inputs.find_links}
    for index in intent.named_indexes(lock, of.all):
        yield "[[tool.uv.index]]"
        yield f"name = {string(_name(index))}"
        yield f"url = {string(addresses[index])}"
        if index in flat:
            yield 'format = "flat"'
        yield "explicit = true"
        yield ""


def _name(index: str) -> str:
    return re.sub(r"[^\w-]", "-", index)


def _metadata(of: _Targets, lock: Lock) -> Iterator[str]:
    """State what packages require, as the lock has it: of sources, so that locking runs none of their code; of builds
    for one CUDA, since uv reads one wheel's METADATA for all of a release; and of what corrections add to."""
    pins_by_release: dict[tuple[str, str], list[tuple[LockedTarget, Pin]]] = {}
    for target in of.all:
        for pin in pip_pins(target):
            if not pin.is_wheel or intent.index_of(pin) or _is_corrected(pin, lock):
                pins_by_release.setdefault((pin.name, pin.version), []).append((target, pin))
    for (name, version), pins in sorted(pins_by_release.items()):
        platforms = {target.inputs.platform for target, _ in pins}
        required: dict[str, set[str]] = {}
        for target, pin in pins:
            for text in pin.dependencies:
                required.setdefault(text, set()).add(target.inputs.platform)
        lines = [
            line for text, having in required.items() for line in ([text] if having == platforms else _on(text, having))
        ]
        yield "[[tool.uv.dependency-metadata]]"
        yield f"name = {string(name)}"
        yield f"version = {string(version)}"
        yield from strings("requires-dist", lines)
        yield from strings("provides-extra", _extras(lines))
        yield ""


def _on(text: str, platforms: Iterable[str]) -> list[str]:
    return [intent.where(text, platform_marker(platform)) for platform in sorted(platforms)]


def _is_corrected(pin: Pin, lock: Lock) -> bool:
    """Return whether a correction asks for a package that the pin's METADATA leaves out."""
    required = set(map(requirement_name, pin.dependencies))
    rows = corrections(lock.inputs.without_corrections).of(pin.name, pin.version)
    return any(row.kind == "requirement" and row.bounded in required for row in rows) or any(
        correction.is_of(pin)
        and (bound := WHEEL_BOUNDS.get(correction.constraint)) is not None
        and bound.kind == "requirement"
        for correction in lock.corrections
    )


def _extras(required: Iterable[str]) -> list[str]:
    names = (name for text in required for name in re.findall(r"""extra == ['"]([\w.-]+)['"]""", text))
    return list(dict.fromkeys(names))
