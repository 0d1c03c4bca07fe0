"""`envspec why`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app.graph import ExplainedPackage, Explanation, Step, why
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.table import heading

if TYPE_CHECKING:
    from envspec.lock.model import Lock

EPILOG = """\b
Examples:
  envspec why specs/mm-v2.9.toml numpy
  envspec why specs/mm-v2.9.toml nvidia-cudnn-cu12 --target cu128-hopper --limit 100
"""


@click.command(epilog=EPILOG)
@options.spec_and("package", "PKG")
@options.target
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Show at most this many paths."
)
@options.locks_dir
@options.as_json
def command(path: str, package: str, targets: tuple[str, ...], limit: int, locks_dir: Path | None) -> None:
    """Show the paths from a spec to a package, the shortest first

    envspec shows every requirement on a path as its package wrote it, and evaluates markers and extras for each target.
    Targets with the same answer share it.
    """
    grouped = why(path, package, targets, limit, locks_dir)
    groups = (_lines(names, answer, grouped.lock) for names, answer in grouped.groups)
    options.answer("why", _as_json(grouped.spec.path, package, grouped.groups), ["\n\n".join(map("\n".join, groups))])


def _lines(names: tuple[str, ...], answer: Explanation, lock: Lock) -> Iterator[str]:
    if not answer.packages:
        yield f"{heading(names, lock)}: nothing requires it"
        return
    yield f"{heading(names, lock)}: {'; '.join(map(_describe, answer.packages))}"
    if not answer.paths:
        yield "  nothing in the spec leads to this package: conda's solver added it"
    for number, path in enumerate(answer.paths, 1):
        for position, step in enumerate(path):
            asker = "the spec" if step.name is None else f"{step.name} {step.version}"
            counter = f"{number}." if position == 0 else ""
            yield f"  {counter:<3} {asker} requires {printable(step.requirement)}"
    if answer.more:
        yield "  ... and more paths: raise --limit to see them"


def _describe(package: ExplainedPackage) -> str:
    build = f" {package.build}" if package.build else ""
    licence = printable(package.licence) if package.licence else "licence unknown"
    return f"{package.name} {package.version}{build} ({package.index}, {licence})"


def _as_json(spec: str, package: str, groups: tuple[tuple[tuple[str, ...], Explanation], ...]) -> dict[str, Any]:
    return {
        "spec": spec,
        "package": package,
        "groups": [
            {
                "targets": names,
                "packages": answer.packages,
                "paths": [[_step_as_json(step) for step in path] for path in answer.paths],
                "more": answer.more,
            }
            for names, answer in groups
        ],
    }


def _step_as_json(step: Step) -> dict[str, Any]:
    asker = None if step.name is None else {"kind": step.kind, "name": step.name, "version": step.version}
    return {"from": asker, "requirement": step.requirement}
