"""The platforms of pixi's workspaces: a subdir, and the virtual packages of a target's machines."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envspec.facts.virtual_packages import ARCHSPEC, virtual_packages
from envspec.lock.model import LockedTarget
from envspec.lock.toml_text import string, value

_DEFAULTS = {"glibc": ("__glibc", "2.28"), "linux": ("__linux", "4.18"), "macos": ("__osx", "13.0")}
"""pixi's key → conda's virtual package, and its version where a platform is a subdir's name alone (pixi's
docs/workspace/system_requirements.md)."""


@dataclass(frozen=True)
class PixiPlatform:
    """A platform as a workspace declares it. Targets whose machines have the same share it.

    system  what it has beyond pixi's defaults, by pixi's keys
    """

    subdir: str
    system: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        words = (re.sub(r"[^a-z0-9]+", "-", word) for one in self.system for word in one)
        return "-".join([self.subdir, *words])

    @property
    def toml(self) -> str:
        """The platform as a TOML value."""
        if not self.system:
            return string(self.subdir)
        said: dict[str, object] = dict(self.system)
        if "arch" in said:
            said["cuda"] = {"driver": said["cuda"], "arch": said.pop("arch")}
        return value({"name": self.name, "platform": self.subdir, **said})

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
    found = {name: version for name, version, _ in packages}
    said = {
        "cuda": found.get("__cuda"),
        "arch": found.get("__cuda_arch"),
        "archspec": ARCHSPEC.get(inputs.cpu or ""),
        **{key: version for key, (name, usual) in _DEFAULTS.items() if (version := found.get(name, usual)) != usual},
    }
    return PixiPlatform(inputs.platform, tuple((key, text) for key, text in said.items() if text))
