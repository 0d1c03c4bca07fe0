"""What a resolution of the command line begins with: this machine's resolvers, and another tool's pins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.app.observer import observer, say, warn

if TYPE_CHECKING:
    from envspec.lock.model import Lock
    from envspec.resolve.conda.solve import CondaResolver
    from envspec.resolve.pip.solve import PipResolver
    from envspec.rules.finding import Finding
    from envspec.spec.model import Spec


def first_pins(spec: Spec, path: Path) -> Lock:
    """Read another tool's lock for a spec's targets. Raises InputError."""
    from envspec.review.diff.foreign import read
    from envspec.review.diff.foreign.universal import Environment

    return read.first_pins(path, [Environment(one.name, one.platform, spec.python, one.glibc) for one in spec.targets])


def notice(finding: Finding) -> None:
    """Print a finding on stderr: a warning or a note."""
    place = f"{finding.place}: " if finding.place else ""
    if finding.severity == "warning":
        warn(f"{place}{finding.message}")
    else:
        say(f"note: {place}{finding.message}", style="cyan")
    if finding.remedy:
        say(f"hint: {finding.remedy}")


@contextmanager
def resolvers_for(
    spec: Spec,
    *,
    offline: bool,
    refresh: bool,
    fresh: bool = False,
    quiet: bool,
    notice: Callable[[Finding], None] = notice,
) -> Iterator[tuple[PipResolver, CondaResolver | None]]:
    """Give the resolvers with this machine's network, caches and progress bar, and a temporary scratch folder.

    A spec without conda packages has no conda resolver, and needs no py-rattler.
    """
    from envspec.resolve.pip.setup import pip_resolver

    with (
        observer().resolution(quiet=quiet) as progress,
        pip_resolver(
            spec,
            os.environ,
            offline=offline,
            refresh=refresh,
            fresh=fresh,
            progress=progress,
            notice=notice,
        ) as pip,
    ):
        if not any(spec.conda_dependencies(target) for target in spec.targets):
            yield pip, None
            return
        from envspec.resolve.conda.setup import conda_resolver

        yield pip, conda_resolver(spec, os.environ, offline=offline, progress=progress)
