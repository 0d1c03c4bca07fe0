"""Source only where there is no wheel: what `allow-source` means.

uv has no such mode: `--no-binary NAME` makes it pass over every wheel of a package. So each package that may be built is
first looked up by itself as a wheel, which is quick; what has one is solved as a wheel. Nothing is built meanwhile: a
build runs code, may take minutes, and fails where its compiler isn't.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from envspec.errors import EnvspecError, Unsatisfiable
from envspec.lock.inputs import requirement_name
from envspec.resolve.request import Request
from envspec.resolve.uv import Found

Ask = Callable[[Request, bool], tuple[Found, ...]]
"""Solves a request; with True its requirements alone, without what they depend on."""


def prefer_wheels(request: Request, ask: Ask) -> tuple[Found, ...]:
    """The solution of a request that may build packages from source. Raises what `ask` raises."""
    names = [name for name in request.allow_source if not any("@" in line for line in _own(request, name))]
    if not names:
        return ask(request, False)
    pool = ThreadPoolExecutor(len(names))
    try:
        wheeled = {name for name, yes in zip(names, pool.map(lambda n: _has_wheel(request, n, ask), names), strict=True) if yes}
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    if not wheeled:
        return ask(request, False)
    try:
        return ask(replace(request, allow_source=tuple(n for n in request.allow_source if n not in wheeled)), False)
    except Unsatisfiable as conflict:
        # a wheel, but not of a version that goes with the rest
        try:
            return ask(request, False)
        except Unsatisfiable:
            raise conflict from None


def _has_wheel(request: Request, name: str, ask: Ask) -> bool:
    alone = replace(request, requirements=_own(request, name) or (name,), allow_source=())
    try:
        return bool(ask(alone, True))
    except EnvspecError:
        # an index that fails here fails the whole solution too, and is told there
        return False


def _own(request: Request, name: str) -> tuple[str, ...]:
    """What the spec itself asks of a package."""
    return tuple(text for text in request.requirements if requirement_name(text) == name)
