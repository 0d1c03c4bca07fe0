"""The builds of Python that a lock names: those of the old lock that still hold, and the newest known for the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from envspec.facts.python_builds import is_released, newest_build
from envspec.lock.model import Lock, LockedPython, LockedTarget
from envspec.record import replace
from envspec.rules.finding import Finding
from envspec.workflow.keep import Upgrade
from envspec.workflow.notices import Notice

if TYPE_CHECKING:
    from envspec.lock.rules.case import Flaw

PACKAGE = "python"
"""The name by which `--upgrade-package` moves a build."""


def locked_pythons(
    targets: Iterable[LockedTarget],
    old: Lock | None,
    upgrade: Upgrade,
    flaws: Sequence[Flaw],
    bounds: Sequence[str | None],
    notice: Notice,
) -> tuple[LockedPython, ...]:
    """Choose the build for each platform that has targets without conda's Python. `bounds` are moments (RFC 3339): only
    what was released before all of them is taken. A platform without a known build has none, and `notice` hears so.
    """
    # with what judges locks, which nobody needs before uv's answer
    from envspec.lock.rules.whole import WRONG_PYTHON

    before = min((one for one in bounds if one is not None), default=None)
    moves = upgrade.everything or PACKAGE in upgrade.packages
    wrong = {name for flaw in flaws if flaw.code == WRONG_PYTHON for name in flaw.targets}
    kept = {one.platform: one for one in old.pythons} if old and not moves else {}
    without: list[LockedTarget] = []
    found: dict[str, LockedPython] = {}
    for target in targets:
        python, platform = target.inputs.python, target.inputs.platform
        if platform in found or target.pin("python", "conda"):
            continue
        own = kept.get(platform)
        stays = own is not None and own.version.startswith(f"{python}.") and target.name not in wrong
        chosen = own if own and stays and is_released(own.build, before) else _newest(python, platform, before)
        if chosen is None:
            without.append(target)
        else:
            found[platform] = chosen
    _tell(without, before, notice)
    return tuple(found[platform] for platform in sorted(found))


def with_missing_pythons(lock: Lock, not_after: Callable[[], str | None]) -> Lock:
    """Name the builds that a lock of an older envspec lacks, which has none. `not_after` gives a site's bound in time.
    All else stays."""
    if lock.pythons or all(target.pin("python", "conda") for target in lock):
        return lock
    bounds = (lock.inputs.exclude_newer, not_after())
    return replace(lock, pythons=locked_pythons(lock, None, Upgrade(), (), bounds, lambda finding: None))


def _newest(python: str, platform: str, before: str | None) -> LockedPython | None:
    build = newest_build(python, platform, before)
    if build is None:
        return None
    return LockedPython(build.platform, build.version, build.build, build.file, build.sha256)


def _tell(without: Sequence[LockedTarget], before: str | None, notice: Notice) -> None:
    if not without:
        return
    python = without[0].inputs.python
    until = f" released before {before[:10]}" if before else ""
    notice(
        Finding(
            "warning",
            "python-not-locked",
            f"{', '.join(one.name for one in without)}: envspec knows no build of Python {python}{until}, so the lock"
            " names none: environments and images get the machine's, or uv's newest",
            remedy=f'to lock Python too, take it from conda: [conda] dependencies = ["python {python}.*"]',
        )
    )
