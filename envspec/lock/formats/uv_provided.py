"""What conda provides of a lock's Python packages, for uv, which knows of no conda: overrides keep such packages out of
its resolution on the platforms where conda has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from envspec.lock.formats.intent import pip_pins
from envspec.lock.model import LockedTarget, Pin
from envspec.packages.marker_environment import platform_marker
from envspec.packages.names import requirement_name
from envspec.packages.requirement import parse_requirement

_NOWHERE = "sys_platform == 'never'"


@dataclass(frozen=True)
class Provided:
    """What conda provides of what the pip packages of targets require."""

    targets: tuple[LockedTarget, ...]

    @cached_property
    def _by_conda(self) -> Mapping[str, tuple[LockedTarget, ...]]:
        """Name → the targets that have it of conda alone."""
        found: dict[str, tuple[LockedTarget, ...]] = {}
        for target in self.targets:
            pip = {pin.name for pin in pip_pins(target)}
            of_conda = {name for pin in target.pins if pin.kind == "conda" for name in pin.provides}
            for name in sorted((of_conda & {requirement_name(text) for text in _texts(target)}) - pip):
                found[name] = (*found.get(name, ()), target)
        return dict(sorted(found.items()))

    @cached_property
    def kept_out(self) -> Mapping[str, tuple[str, ...]]:
        """Name → the overrides that keep it out wherever conda has it, and pin it wherever pip has it."""
        found = {}
        for name, of_conda in self._by_conda.items():
            lines: dict[str, set[str]] = {}
            for target in self.targets:
                for pin in pip_pins(target):
                    if pin.name == name:
                        lines.setdefault(target.inputs.platform, set()).add(_pinned(pin, target))
            of_both = lines.keys() & {target.inputs.platform for target in of_conda}
            if of_both or _is_overridden(name, self.targets) or any(len(texts) > 1 for texts in lines.values()):
                continue
            marked = (f"{text} ; {platform_marker(platform)}" for platform, (text,) in sorted(lines.items()))
            found[name] = tuple(marked) or (f"{name} ; {_NOWHERE}",)
        return found

    def of(self, target: LockedTarget) -> tuple[str, ...]:
        """List what uv leaves out for a target, since conda provides it."""
        return tuple(name for name in self.kept_out if target in self._by_conda[name])

    def taken(self, target: LockedTarget) -> tuple[str, ...]:
        """List what uv takes from an index for a target, though conda provides it."""
        return tuple(name for name, having in self._by_conda.items() if name not in self.kept_out and target in having)


def _texts(target: LockedTarget) -> Iterator[str]:
    yield from target.inputs.requirements
    for pin in pip_pins(target):
        yield from pin.dependencies


def _is_overridden(name: str, targets: Sequence[LockedTarget]) -> bool:
    return any(requirement_name(text) == name for target in targets for text, _ in target.inputs.overrides)


def _pinned(pin: Pin, target: LockedTarget) -> str:
    """Return a pin as a requirement, with each extra that the target's requirements ask of it."""
    asked = (parse_requirement(text) for text in _texts(target) if requirement_name(text) == pin.name)
    extras = sorted({extra for one in asked for extra in one.extras})
    named = f"{pin.name}[{','.join(extras)}]" if extras else pin.name
    if pin.git is not None:
        return f"{named} @ git+{pin.git.address}"
    return f"{named} @ {pin.url}" if pin.url is not None else f"{named}=={pin.version}"
