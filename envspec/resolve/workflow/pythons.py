"""The builds of Python that a lock names: those of the old lock that still hold, and the newest known for the rest.
They are chosen before anything is solved: markers and Requires-Python are judged for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from envspec.base.errors import Infeasible
from envspec.base.finding import Finding
from envspec.facts.python_builds import is_released, newest_build, versions_of
from envspec.lock.model import Lock, LockedPython, TargetInputs
from envspec.lock.rules.derived import WRONG_PYTHON
from envspec.packages.python_range import is_within, releases_of
from envspec.resolve.workflow.keep import Upgrade

PACKAGE = "python"
"""The name by which `--upgrade-package` moves a build."""


def choose_pythons(
    targets: Mapping[str, TargetInputs],
    old: Lock | None,
    upgrade: Upgrade,
    flaws: Sequence[Finding],
    bounds: Sequence[str | None],
    *,
    needed: bool = True,
) -> tuple[tuple[LockedPython, ...], tuple[Finding, ...]]:
    """Choose the build for each platform that has targets without conda's Python, from the targets' inputs by name.
    `bounds` are moments (RFC 3339): only what was released before all of them is taken. A platform without a known
    build has none, which a warning says.

    Raises Infeasible where the spec excludes the newest release of a minor version, no admitted release has a known
    build and one is `needed`: an image's base may have a Python without a known build.
    """
    before = min((bound for bound in bounds if bound is not None), default=None)
    moves = upgrade.everything or PACKAGE in upgrade.packages
    wrong = {name for flaw in flaws if flaw.code == WRONG_PYTHON for name in flaw.targets}
    locked = {python.platform: python for python in old.pythons} if old and not moves else {}
    without: dict[str, TargetInputs] = {}
    builds: dict[str, LockedPython] = {}
    for name, inputs in targets.items():
        platform = inputs.platform
        if platform in builds or inputs.conda_requirements:
            continue
        own = locked.get(platform)
        stays = own is not None and is_within(own.version, inputs.python, inputs.python_range) and name not in wrong
        chosen = own if own and stays and is_released(own.build, before) else _newest(inputs, before)
        if chosen is not None:
            builds[platform] = chosen
        elif not needed or _admits_newest(inputs):
            without[name] = inputs
        else:
            raise _unknown(name, inputs, before)
    return tuple(builds[platform] for platform in sorted(builds)), tuple(_missing_builds(without, before))


def _admits_newest(inputs: TargetInputs) -> bool:
    """Whether the newest release of the minor version will do, whatever that is: there is one without a known build."""
    return releases_of(inputs.python, inputs.python_range)[-1:] == releases_of(inputs.python, None)[-1:]


def _newest(inputs: TargetInputs, before: str | None) -> LockedPython | None:
    build = newest_build(inputs.python, inputs.platform, before, inputs.python_range or "")
    if build is None:
        return None
    return LockedPython(build.platform, build.version, build.build, build.file, build.sha256)


def _unknown(name: str, inputs: TargetInputs, before: str | None) -> Infeasible:
    """Say that no build is what the spec asks of Python, and which ones there are."""
    version = str(inputs.python_range).removeprefix("==")
    until = f" released before {before[:10]}" if before else ""
    error = Infeasible(
        f"{name}: envspec knows no build of Python {version} for {inputs.platform}{until}",
        hint=f"of {inputs.python} it knows {', '.join(versions_of(inputs.python, inputs.platform)) or 'none'}",
    )
    error.key, error.targets = "env.python", (name,)
    return error


def _missing_builds(without: Mapping[str, TargetInputs], before: str | None) -> Iterator[Finding]:
    if without:
        first = next(iter(without.values()))
        python = (first.python_range or "").removeprefix("==") or first.python
        until = f" released before {before[:10]}" if before else ""
        yield Finding(
            "warning",
            "python-not-locked",
            f"{', '.join(without)}: envspec knows no build of Python {python}{until}, so the lock"
            " names none: environments and images get the machine's, or uv's newest",
            remedy=f'to lock Python too, take it from conda: [conda] dependencies = ["python {first.python}.*"]',
        )
