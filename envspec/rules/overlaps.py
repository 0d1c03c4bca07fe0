"""Rules for packages that have one path with different content: the content of the one that is installed last stays."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator, Mapping, Sequence

from envspec.base.finding import Finding
from envspec.base.texts import without_unseen
from envspec.rules.wheel_code import WheelBuild

_ASIDE = ("test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts")
"""Folders that wheels carry by mistake, and are imported by none."""
_NAMED = 3
"""The packages that a message names before it counts the rest."""


def problems(order: Sequence[str], read: Mapping[str, WheelBuild], conda: Collection[str] = ()) -> Iterator[Finding]:
    """Find what wheels overwrite of each other, as far as they were read, and of conda's packages of their own name.
    `order` is that of installation; `conda` names conda's packages, which come before."""
    for name in sorted({*order} & {*conda}):
        message = f"{name} is from conda and from pip: of a path that both have, as of a program {name}, pip's stays"
        yield Finding("info", "shared-path", message, key="platform")
    unread = {name: read[name].unread for name in sorted(order) if name in read and read[name].unread}
    if unread:
        shown = f"{', '.join([*unread][:_NAMED])}{f' and {len(unread) - _NAMED} more' if len(unread) > _NAMED else ''}"
        message = f"the paths of {shown} aren't compared with other packages': {next(iter(unread.values()))}"
        yield Finding("info", "not-inspected", message, key="platform")
    together: dict[tuple[str, ...], list[str]] = {}
    owners: dict[str, list[tuple[str, str]]] = {}
    for name in order:
        for path, content in ((read[name].paths if name in read else None) or {}).items():
            owners.setdefault(path, []).append((name, content))
    for path, several in sorted(owners.items()):
        if len({content for _, content in several}) > 1:
            together.setdefault(tuple(name for name, _ in several), []).append(path)
    for names, paths in sorted(together.items()):
        modules = [path for path in paths if _is_module(path)]
        shown = without_unseen(posixpath.normpath(f"lib/python/site-packages/{(modules or paths)[0]}")[-80:])
        shown = shown.removeprefix("lib/python/site-packages/")
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        are = "is" if len(paths) == 1 else "are"
        message = f"{shown}{more} {are} in {' and '.join(sorted(names))}, with different content: {names[-1]}'s stays"
        if modules:
            keep = "keep one of them: an override leaves the other out where a package requires it"
            yield Finding("warning", "same-modules", message, key="platform", remedy=keep)
        else:
            yield Finding("info", "shared-path", message, key="platform")


def _is_module(path: str) -> bool:
    """Say whether a path from site-packages is a module that programs import."""
    return path.endswith((".py", ".so")) and not path.startswith("..") and path.partition("/")[0] not in _ASIDE
