"""The resolvers of a spec, with this machine's network, caches and progress."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from envspec.app.observer import observer
from envspec.app.policy import permit_addresses
from envspec.base.finding import Finding
from envspec.resolve.conda.setup import conda_resolver
from envspec.resolve.conda.solve import CondaResolver
from envspec.resolve.pip.build_environment import build_environments
from envspec.resolve.pip.setup import pip_resolver, publishers
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.model import Spec


@contextmanager
def resolvers_of(
    spec: Spec, notice: Callable[[Finding], None], *, offline: bool, refresh: bool = False, fresh: bool = True
) -> Iterator[Resolvers]:
    """Give the resolvers of a spec, and a temporary scratch folder. `refresh` reads the live PyTorch index, `fresh`
    pages as they are now.

    A spec without conda packages has no conda resolver, and needs no py-rattler. Raises Forbidden where the site's
    policy forbids an address.
    """

    permit_addresses(spec)
    with (
        observer().resolution() as progress,
        pip_resolver(
            spec, os.environ, offline=offline, refresh=refresh, fresh=fresh, progress=progress, notice=notice
        ) as pip,
    ):
        conda: CondaResolver | None = None
        if any(spec.conda_dependencies(target) for target in spec.targets):
            conda = conda_resolver(spec, os.environ, offline=offline, progress=progress)
        builds, published = partial(build_environments, pip), partial(publishers, pip)
        inspector = replace(pip.inspector, archives=conda.archives if conda else None)
        releases, behind = pip.releases, pip.is_behind
        yield Resolvers(pip, conda, inspector, builds, published, pip.findings, releases, behind, pip.stop)
