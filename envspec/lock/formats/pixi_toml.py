"""pixi.toml: a spec's match specs and requirements, and the lock's pins as a feature of their own.

One target is the workspace's default environment; each of several is a feature and an environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from envspec.facts.virtual_packages import ARCHSPEC, virtual_packages
from envspec.lock.formats import intent
from envspec.lock.formats.intent import Addresses, ProjectFile, array, comment, pip_pins
from envspec.lock.inputs import implied_match_specs
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.lock.toml_text import inline_strings, key, string, value
from envspec.packages.conda import version_and_build
from envspec.packages.names import conda_name, requirement_name
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.packages.tags import marker_environment
from envspec.spec.model import Spec
from envspec.spec.newer import bounds, with_moments_of_lock

_DEFAULTS = {"glibc": ("__glibc", "2.28"), "linux": ("__linux", "4.18"), "macos": ("__osx", "13.0")}
"""pixi's key → conda's virtual package, and its version where a platform is a subdir's name alone (pixi's
docs/workspace/system_requirements.md)."""


class PixiPlatform(Struct, frozen=True):
    """A platform as a workspace declares it. Targets whose machines have the same share it.

    system  its differences from pixi's defaults, by pixi's keys
    """

    subdir: str
    system: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        words = (re.sub(r"[^a-z0-9]+", "-", word) for pair in self.system for word in pair)
        return "-".join([self.subdir, *words])

    @property
    def toml(self) -> str:
        """The platform as a TOML value."""
        if not self.system:
            return string(self.subdir)
        system: dict[str, object] = dict(self.system)
        if "arch" in system:
            system["cuda"] = {"driver": system["cuda"], "arch": system.pop("arch")}
        return value({"name": self.name, "platform": self.subdir, **system})

    @property
    def cuda(self) -> str | None:
        """The CUDA that the driver runs by itself."""
        return dict(self.system).get("cuda")


def pixi_platform(target: LockedTarget) -> PixiPlatform:
    """Return the platform of a target's machines."""
    inputs = target.inputs
    packages = virtual_packages(
        inputs.platform,
        glibc=inputs.glibc,
        cuda=inputs.cuda,
        driver=inputs.driver,
        architectures=target.architectures,
    )
    versions = {name: version for name, version, _ in packages}
    system = {
        "cuda": versions.get("__cuda"),
        "arch": versions.get("__cuda_arch"),
        "archspec": ARCHSPEC.get(inputs.cpu or ""),
        **{key: version for key, (name, usual) in _DEFAULTS.items() if (version := versions.get(name, usual)) != usual},
    }
    return PixiPlatform(inputs.platform, tuple((key, text) for key, text in system.items() if text))


REQUIRES = ">=0.71"
"""The releases that read what machines have in a platform's entry. `[system-requirements]` is deprecated since then."""

_GIT = re.compile(r"git\+(?P<url>[^#]+?)(?:@(?P<rev>[^@/#]+))?(?:#subdirectory=(?P<folder>.+))?")


def pixi_toml(spec: Spec, lock: Lock, targets: Sequence[LockedTarget], addresses: Addresses) -> ProjectFile:
    """Return the workspace of these targets.

    addresses   of `intent.named_indexes`
    """
    unsaid = [*_unsaid(spec, targets)]
    lines = [*intent.heading(lock, "pixi", unsaid), *_workspace(spec, lock, targets)]
    for target in targets:
        own_features = [_name(target)] if len(targets) > 1 else []
        feature = f"feature.{own_features[0]}." if own_features else ""
        if own_features:
            lines += [f"[{feature[:-1]}]", f"platforms = {inline_strings([pixi_platform(target).name])}", ""]
        lines += _feature(spec, target, addresses, feature)
        lines += _pins(target, addresses, f"feature.{_pins_of(own_features)}")
    lines.append("[environments]")
    for target in targets:
        own_features = [_name(target)] if len(targets) > 1 else []
        lines.append(f"{(*own_features, 'default')[0]} = {inline_strings([*own_features, _pins_of(own_features)])}")
    return ProjectFile("\n".join(lines).rstrip("\n") + "\n", tuple(unsaid))


def _unsaid(spec: Spec, targets: Sequence[LockedTarget]) -> Iterator[str]:
    yield from intent.omissions(spec, targets, _processors)
    for target in targets:
        if target.inputs.metadata:
            yield f"target {target.name}: metadata of {', '.join(metadata.name for metadata in target.inputs.metadata)}"
        if (native := pixi_platform(target).cuda) != target.inputs.cuda:
            yield f"target {target.name}: CUDA {target.inputs.cuda}, since its driver runs {native} by itself"
        if needed := spec.terms_of(target.name).build_dependencies:
            yield f"target {target.name}: the build-dependencies of {', '.join(sorted(needed))}"
    exempt = bounds(spec)
    for name in sorted(name for name, bound in exempt.items() if bound is None):
        yield f"exclude-newer holds for {name} too: pixi has no exception without a moment"


def _processors(target: LockedTarget) -> list[str]:
    cpu = target.inputs.cpu
    return [f"cpu {cpu}"] if cpu and cpu not in ARCHSPEC else []


def _workspace(spec: Spec, lock: Lock, targets: Sequence[LockedTarget]) -> Iterator[str]:
    yield "[workspace]"
    yield f"name = {string(lock.name)}"
    if spec.description:
        yield f"description = {string(spec.description)}"
    # pip packages too need Python, which comes from a channel
    yield f"channels = {inline_strings(spec.conda.channels or ('conda-forge',))}"
    yield f"requires-pixi = {string(REQUIRES)}"
    yield from array("platforms", dict.fromkeys(pixi_platform(target).toml for target in targets))
    moment = lock.inputs.exclude_newer
    if moment:
        yield f"exclude-newer = {string(moment)}"
    yield ""
    own = {name: bound for name, bound in bounds(with_moments_of_lock(spec, moment)).items() if bound} if moment else {}
    yield from _table("pypi-exclude-newer", own)


def _feature(spec: Spec, target: LockedTarget, addresses: Addresses, feature: str) -> Iterator[str]:
    inputs = target.inputs
    conda = dict(map(_conda, inputs.conda_requirements))
    yield from _table(f"{feature}dependencies", {"python": f"{inputs.python}.*", **conda})
    pins = {pin.name: pin for pin in pip_pins(target)}
    yield from _table(f"{feature}pypi-dependencies", dict(_requirement_tables(target, pins, addresses)))
    flat = {index for index, _ in inputs.find_links}
    pages = sorted({pin.index for pin in pins.values() if pin.index in flat})
    options: dict[str, object] = {}
    if pages:
        options["find-links"] = [{"url": addresses[index]} for index in pages]
    if pins:
        options["no-build"] = True
    # with no-build, pixi builds these alone
    options |= {"no-binary": built} if (built := [name for name, pin in pins.items() if not pin.is_wheel]) else {}
    isolated = sorted(spec.terms_of(target.name).no_build_isolation)
    options |= {"no-build-isolation": isolated} if isolated else {}
    yield from _table(f"{feature}pypi-options", options, *(f"constraint: {text}" for text in inputs.constraints))
    overrides = {requirement_name(text): _bound(text) for text, _ in inputs.overrides}
    why = (f"{requirement_name(text)}: {reason}" for text, reason in inputs.overrides if reason)
    yield from _table(f"{feature}pypi-options.dependency-overrides", overrides, *why)


def _pins(target: LockedTarget, addresses: Addresses, feature: str) -> Iterator[str]:
    """Give the lock's pins as bounds: they ask for nothing but what the lock has anyway."""
    flat = {index for index, _ in target.inputs.find_links}
    conda: dict[str, object] = {}
    pip: dict[str, object] = {}
    for pin in target.pins:
        if pin.kind == "conda":
            conda[pin.name] = {"version": f"=={pin.version}", **({"build": pin.build} if pin.build else {})}
        elif pin.git is None and pin.url is None:
            index = intent.index_of(pin)
            at = {"index": addresses[index]} if index and index not in flat else {}
            pip[pin.name] = {"version": f"=={pin.version}", **at} if at else f"=={pin.version}"
    why = "the lock's pins: without this feature pixi chooses anew"
    implied = map(conda_name, implied_match_specs(target.inputs.python, with_pip=bool(pip)))
    implied_pins = {name: conda[name] for name in implied if name in conda}
    yield f"[{feature}]"
    yield f"platforms = {inline_strings([pixi_platform(target).name])}"
    yield ""
    yield from _table(f"{feature}.dependencies", implied_pins, "what envspec asks conda for by itself")
    yield from _table(f"{feature}.constraints", conda, why)
    yield from _table(f"{feature}.pypi-dependencies", pip, why)


def _bound(text: str) -> object:
    parsed = parse_requirement(text)
    return _source(parsed.url) if parsed.url else str(parsed.specifier) or "*"


def _conda(text: str) -> tuple[str, object]:
    name = conda_name(text)
    channel = text.partition("::")[0] if "::" in text else ""
    version, build = version_and_build(text)
    parts = {"version": version or "*", "build": build, "channel": channel}
    return name, {what: part for what, part in parts.items() if part} if build or channel else version or "*"


def _requirement_tables(
    target: LockedTarget, pins: Mapping[str, Pin], addresses: Addresses
) -> Iterator[tuple[str, object]]:
    """Give the requirements that hold on the target, as pixi's tables."""
    environment = marker_environment(target.inputs.platform, target.inputs.full_python)
    flat = {index for index, _ in target.inputs.find_links}
    tables: dict[str, dict[str, object]] = {}
    for text in intent.requirements_of(target):
        parsed = parse_requirement(text)
        if parsed.marker and not parsed.marker.evaluate({**environment, "extra": ""}):
            continue
        name = requirement_name(text)
        requirement = tables.setdefault(name, {})
        extras = {*_texts(requirement.get("extras")), *map(canonical_name, parsed.extras)}
        requirement |= {"extras": sorted(extras)} if extras else {}
        if parsed.url:
            requirement |= _source(parsed.url)
            continue
        if parsed.specifier:
            requirement["version"] = ",".join(
                filter(None, [str(requirement.get("version", "")), str(parsed.specifier)])
            )
        index = intent.index_of(pins[name]) if name in pins else None
        if index and index not in flat:
            requirement["index"] = addresses[index]
    for name, requirement in tables.items():
        if "git" not in requirement and "url" not in requirement:
            requirement = {"version": requirement.pop("version", "*"), **requirement}
        yield name, requirement["version"] if list(requirement) == ["version"] else requirement


def _texts(given: object) -> list[str]:
    return [str(text) for text in given] if isinstance(given, list) else []


def _source(url: str) -> dict[str, object]:
    if git := _GIT.fullmatch(url):
        parts = {"git": git["url"], "rev": git["rev"], "subdirectory": git["folder"]}
        return {what: part for what, part in parts.items() if part}
    return {"url": url}


def _table(name: str, values: Mapping[str, object], *notes: str) -> Iterator[str]:
    if values:
        yield f"[{name}]"
        yield from map(comment, notes)
        yield from (f"{key(entry_name)} = {value(entry)}" for entry_name, entry in values.items())
        yield ""


def _name(target: LockedTarget) -> str:
    """Return a target's name as pixi's environments have it."""
    name = re.sub(r"[^a-z0-9-]+", "-", target.name.lower())
    return "default-target" if name == "default" else name


def _pins_of(own_features: Sequence[str]) -> str:
    return "-".join([*own_features, "pins"])
