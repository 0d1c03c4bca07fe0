"""The notices about wheels that were read, or weren't."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envspec.lock.model import LockedCorrection
from envspec.resolve.workflow.keep import Kept
from envspec.resolve.workflow.notices import Notice
from envspec.resolve.workflow.solve import Solved
from envspec.rules.finding import Finding


def tell_inspection(solved: Sequence[Solved], kept: Kept, notice: Notice) -> None:
    """Report the targets whose wheels the spec leaves unread, and what the old lock says of wheels that they don't."""
    unread = [one.name for one in solved if one.pip and not one.prepared.inputs.inspect]
    if unread:
        message = "wheels aren't read (inspect = false): what their METADATA leaves out may break the environment"
        notice(Finding("info", "not-inspected", f"{', '.join(unread)}: {message}"))
    for one in dict.fromkeys(row for target in solved for row in _unfounded(target, kept)):
        notice(
            Finding(
                "warning",
                "correction-unfounded",
                f"the old lock says that {one.package} {one.version} needs {one.constraint}, and {one.file} doesn't say"
                " so; envspec leaves it out",
            )
        )


def _unfounded(target: Solved, kept: Kept) -> Iterator[LockedCorrection]:
    if not target.prepared.inputs.inspect:
        return
    said = {(one.package, one.sha256, one.constraint) for one in target.read}
    for one in target.pinned(row for row, _ in kept.read.get(target.name, ())):
        if (one.package, one.sha256, one.constraint) not in said and target.counts(one):
            yield one
