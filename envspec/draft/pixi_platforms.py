"""The platforms of a pixi.toml: subdirs, and what their machines have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from envspec.base.errors import Place
from envspec.draft.gather import Gathered
from envspec.facts.virtual_packages import ARCHSPEC
from envspec.review.diff.foreign.shape import optional, sequence, string, table
from envspec.spec.schema import PLATFORMS

_FAMILIES = {"linux": ("linux", "unix"), "osx": ("osx", "macos", "unix"), "win": ("win",)}
_CPU = {named: cpu for cpu, named in ARCHSPEC.items()}


@dataclass(frozen=True)
class Platform:
    """One of a workspace's platforms. `system`: cuda, capability, glibc and cpu, as a target says them."""

    name: str
    subdir: str
    system: Mapping[str, str] = field(default_factory=dict)

    def is_selected_by(self, selector: str) -> bool:
        """Say whether `[target.SELECTOR]` holds on it."""
        family = _FAMILIES[self.subdir.partition("-")[0]]
        return selector in (self.subdir, *family) or fnmatchcase(self.name, selector)

    def having(self, system: Mapping[str, str]) -> Platform:
        return replace(self, system={**self.system, **system})


def platforms(workspace: Mapping[str, Any], gathered: Gathered, place: Place) -> tuple[Platform, ...]:
    """Read a workspace's platforms; what no target can be becomes a note. Raises Malformed."""
    found = []
    for one in sequence(workspace.get("platforms"), "platforms"):
        entry = one if isinstance(one, dict) else {"platform": one}
        subdir = string(entry.get("platform", entry.get("name")), "a platform")
        if subdir not in PLATFORMS:
            gathered.note(f"the platform {subdir} is left out: envspec has {', '.join(PLATFORMS)}", place)
            continue
        said = {key: one for key, one in table(entry, "a platform").items() if key not in ("name", "platform")}
        name = optional(entry.get("name"), "name") or default_name(subdir, said)
        found.append(Platform(name, subdir, requirements(said, f"the platform {name}", gathered, place)))
    return tuple(found)


def default_name(subdir: str, said: Mapping[str, Any]) -> str:
    """Return the name that pixi gives a platform without one."""
    words = [subdir]
    for key in ("cuda", "archspec", "glibc", "linux", "macos", "osx", "windows"):
        if isinstance(said.get(key), str):
            words += [key.replace("osx", "macos"), re.sub(r"[^A-Za-z0-9]+", "-", said[key])]
    return "-".join(words)


def requirements(said: Mapping[str, Any], what: str, gathered: Gathered, place: Place) -> dict[str, str]:
    """Read what machines have: the keys of a platform, or a table `[system-requirements]`."""
    found = {}
    for key, one in said.items():
        given = one if isinstance(one, dict) else {}
        if key == "cuda":
            found["cuda"] = string(given.get("driver", None if given else one), "cuda")
            if "arch" in given:
                found["capability"] = string(given["arch"], "arch")
        elif key in ("glibc", "libc") and given.get("family", "glibc") == "glibc":
            found["glibc"] = string(given.get("version", None if given else one), key)
        elif key == "archspec" and isinstance(one, str) and one in _CPU:
            found["cpu"] = _CPU[one]
        else:
            gathered.note(f"{what}: {key} is left out: a target has no such key", place)
    return found


def of_features(features: Sequence[Mapping[str, Any]], known: Sequence[Platform]) -> tuple[Platform, ...]:
    """Return the platforms of an environment: those that each of its features has."""
    found = tuple(known)
    for feature in features:
        if "platforms" in feature:
            names = {string(one, "a platform") for one in sequence(feature["platforms"], "platforms")}
            # a subdir's name means each of its platforms, unless one has that very name
            aliases = names - {one.name for one in known}
            found = tuple(one for one in found if one.name in names or one.subdir in aliases)
    return found
