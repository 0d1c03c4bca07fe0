"""What uv's, Poetry's and pixi's tables say of one dependency: a version, or a table with git, URL, path or index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from envspec.base.errors import Place
from envspec.draft.gather import Gathered
from envspec.packages.requirement import too_much
from envspec.review.diff.foreign.shape import optional, string, strings

_KNOWN = (
    *(
        "version",
        "extras",
        "markers",
        "marker",
        "env-markers",
        "git",
        "rev",
        "tag",
        "branch",
        "subdirectory",
        "url",
        "index",
        "source",
    ),
    *("optional", "python", "platform", "path"),
)


def pep440(version: str) -> str | None:
    """Write a version of Poetry or pixi as a specifier of PEP 440; None for `||` and numbers without end."""
    if "|" in version or too_much(version):
        return None
    parts = [_clause(part.strip()) for part in version.split(",")]
    return ",".join(part for part in parts if part)


def _clause(text: str) -> str:
    if text in ("", "*"):
        return ""
    numbers = re.match(r"([\^~])\s*v?([0-9]+(?:\.[0-9]+)*)(.*)", text)
    if numbers and not text.startswith("~="):
        return f">={numbers[2]}{numbers[3]},<{_next(numbers[1], [int(one) for one in numbers[2].split('.')])}"
    if re.match(r"[0-9]", text):
        return f"=={text}"
    return re.sub(r"^=(?!=)", "==", text)


def _next(sign: str, parts: list[int]) -> str:
    """Return the first version that `^` or `~` excludes."""
    if sign == "~":
        at = min(1, len(parts) - 1)
    else:
        at = next((number for number, part in enumerate(parts) if part), len(parts) - 1)
    return ".".join(map(str, [*parts[:at], parts[at] + 1]))


def dependency(name: str, value: Any, gathered: Gathered, place: Place) -> str | None:
    """Return a dependency of such a table as a requirement; None for one that no spec can hold, which is noted.

    Raises Malformed.
    """
    if isinstance(value, list):
        gathered.note(f"{name} has {len(value)} alternatives: the first is taken", place)
        value = value[0] if value else "*"
    if not isinstance(value, dict):
        value = {"version": string(value, name)}
    extras = strings(value.get("extras"), "extras")
    head = f"{name}[{','.join(extras)}]" if extras else name
    marker = all_of(*_markers(value), _python(value, name, gathered, place))
    if "path" in value or value.get("workspace"):
        gathered.note(f"{name} is left out: it's a folder of its own, and a spec takes one local project", place)
        return None
    for key in value:
        if key not in _KNOWN:
            gathered.note(f"{name}: {key} is left out", place)
    address = _address(value)
    if address:
        return f"{head} @ {address}" + (f" ; {marker}" if marker else "")
    version = optional(value.get("version"), "version") or "*"
    specifier = pep440(version)
    if specifier is None:
        gathered.note(f"{name} is taken without its version: no requirement says {version!r}", place)
    return f"{head}{specifier or ''}" + (f"; {marker}" if marker else "")


def _address(value: Mapping[str, Any]) -> str | None:
    if "url" in value:
        return string(value["url"], "url")
    if "git" not in value:
        return None
    url = string(value["git"], "git")
    found = re.fullmatch(r"([\w.-]+@[\w.-]+):(.+)", url)  # as scp has it
    url = f"ssh://{found[1]}/{found[2]}" if found else url
    ref = next((string(value[key], key) for key in ("rev", "tag", "branch") if key in value), None)
    folder = optional(value.get("subdirectory"), "subdirectory")
    text = f"{'' if url.startswith('git+') else 'git+'}{url}{f'@{ref}' if ref else ''}"
    return f"{text}#subdirectory={folder}" if folder else text


def all_of(*markers: str | None) -> str:
    """Join markers of which all must hold."""
    said = [one for one in markers if one]
    return " and ".join(f"({one})" if len(said) > 1 and re.search(r"\bor\b", one) else one for one in said)


def _markers(value: Mapping[str, Any]) -> tuple[str | None, ...]:
    platform = optional(value.get("platform"), "platform")
    keys = ("markers", "marker", "env-markers")
    return *(optional(value.get(key), key) for key in keys), platform and f'sys_platform == "{platform}"'


def _python(value: Mapping[str, Any], name: str, gathered: Gathered, place: Place) -> str:
    python = optional(value.get("python"), "python")
    specifier = pep440(python) if python else ""
    if specifier is None:
        gathered.note(f"{name}: its python = {python!r} is left out", place)
        return ""
    return " and ".join(
        f'{"python_full_version" if found[2].count(".") > 1 else "python_version"} {found[1]} "{found[2]}"'
        for clause in specifier.split(",")
        if (found := re.fullmatch(r"([<>=!~]+)\s*(.+?)(?:\.\*)?", clause))
    )
