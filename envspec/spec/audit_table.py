"""What a checked document says in `[audit]`."""

from __future__ import annotations

from collections.abc import Collection
from types import MappingProxyType

from envspec.base.texts import nearest
from envspec.packages.requirement import canonical_name
from envspec.spec.checked import Checked
from envspec.spec.messages import dotted, show
from envspec.spec.model import Audit, Waiver
from envspec.spec.newer_table import last_day
from envspec.spec.positions import Path


def audit_of(checked: Checked, targets: Collection[str]) -> Audit:
    """Read `[audit]` of a spec with these targets. Problems go to `checked`."""
    return Audit(
        allow_licences=tuple(licence for _, licence in checked.children("audit", "allow-licences")),
        deny_licences=tuple(licence for _, licence in checked.children("audit", "deny-licences")),
        licences=MappingProxyType(
            {canonical_name(str(path[-1])): text for path, text in checked.children("audit", "licences")}
        ),
        ignore=MappingProxyType(
            {str(path[-1]): _waiver(checked, path, targets) for path, _ in checked.children("audit", "ignore")}
        ),
        accept=MappingProxyType(
            {
                (canonical_name(str(path[-2])), str(path[-1])): _waiver(checked, path, targets)
                for package, _ in checked.children("audit", "accept")
                for path, _ in checked.children(*package)
            }
        ),
    )


def _waiver(checked: Checked, path: Path, targets: Collection[str]) -> Waiver:
    value = checked.value(*path)
    if not isinstance(value, dict):
        return Waiver(str(value or ""))
    return Waiver(
        str(checked.value(*path, "reason") or ""), last_day(checked, *path, "until"), _targets(checked, path, targets)
    )


def _targets(checked: Checked, path: Path, known: Collection[str]) -> tuple[str, ...]:
    found = []
    for at, name in checked.children(*path, "targets"):
        if name not in known and checked.sound_throughout("targets") and checked.sound_throughout("matrix"):
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"its targets: {', '.join(known)}"
            checked.problem(at, f"{dotted(path)}: the spec has no target {show(name)}", hint)
        found.append(str(name))
    return tuple(sorted(found))
