"""`envspec why`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from envspec.app import inputs
from envspec.base.errors import AnswerNo
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out
from envspec.cli.groups import grouped, heading
from envspec.lock.graph import Edge, Graph, packages_named
from envspec.lock.model import Lock, LockedTarget, Pin

EPILOG = """\b
Examples:
  envspec why specs/mm-v2.9.toml numpy
  envspec why specs/mm-v2.9.toml nvidia-cudnn-cu12 --target cu128-hopper --limit 100
"""


@dataclass(frozen=True)
class ExplainedPackage:
    """The part of a pin that `why` shows: targets whose pins are equal in it have the same answer."""

    kind: str
    name: str
    version: str
    build: str | None
    index: str
    licence: str | None
    direct: bool

    @staticmethod
    def of(pin: Pin) -> ExplainedPackage:
        return ExplainedPackage(pin.kind, pin.name, pin.version, pin.build, pin.index, pin.licence, pin.direct)


@dataclass(frozen=True)
class Step:
    """One requirement on a path.

    `requirement` is what the package `name` asks for, in its own words, or the override in its place. `kind`,
    `name` and `version` are None where the spec asks. The version has no local part: torchvision 0.24.1+cu126 in
    one target and 0.24.1+cpu in another are the same reason for numpy.
    """

    kind: str | None
    name: str | None
    version: str | None
    requirement: str

    @staticmethod
    def of(edge: Edge, graph: Graph) -> Step:
        if edge.source is None:
            return Step(None, None, None, edge.told)
        pin = graph.pins[edge.source]
        return Step(pin.kind, pin.name, pin.version.partition("+")[0], edge.told)


@dataclass(frozen=True)
class Explanation:
    """The reasons why a target has the packages of a name (conda and pip may both have one).

    `paths` lead from the spec to a package, the shortest first; `more` says that others exist. All fields are empty for
    a target without the package.
    """

    packages: tuple[ExplainedPackage, ...]
    paths: tuple[tuple[Step, ...], ...]
    more: bool = False


@click.command(epilog=EPILOG)
@options.spec
@options.package
@options.target
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Show at most this many paths."
)
@options.locks_dir
@options.as_json
def command(
    path: str, package: str, targets: tuple[str, ...], limit: int, locks_dir: Path | None, as_json: bool
) -> None:
    """Show the paths from a spec to a package, the shortest first

    envspec shows every requirement on a path as its package wrote it, and evaluates markers and extras for each target.
    Targets with the same answer share it.
    """
    spec, lock = inputs.only_read_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = inputs.locked_targets(lock, targets)
    groups = grouped(chosen, lambda target: _answer(target, package, limit))
    if not any(answer.packages for _, answer in groups):
        raise _not_locked(package, lock, chosen)
    if as_json:
        options.print_json("why", _as_json(spec.path, package, groups))
    else:
        out("\n\n".join("\n".join(_lines(names, answer, lock)) for names, answer in groups))


def _answer(target: LockedTarget, package: str, limit: int) -> Explanation:
    """Find why `target` has `package`, by any spelling, or by the PyPI name that a conda package provides."""
    nodes = packages_named(target.pins, package)
    if not nodes:
        return Explanation((), ())
    graph = Graph.of(target)
    found = graph.paths_to(package, limit + 1)
    return Explanation(
        tuple(ExplainedPackage.of(graph.pins[node]) for node in nodes),
        tuple(tuple(Step.of(edge, graph) for edge in path) for path in found[:limit]),
        len(found) > limit,
    )


def _not_locked(package: str, lock: Lock, chosen: tuple[LockedTarget, ...]) -> AnswerNo:
    elsewhere = [target.name for target in lock if packages_named(target.pins, package)]
    asked = printable(package)
    if elsewhere:
        return AnswerNo(
            f"{asked} isn't locked for {', '.join(target.name for target in chosen)}",
            hint=f"it is locked for {', '.join(elsewhere)}",
        )
    return AnswerNo(f"{asked} isn't in the lock of {lock.name}", hint=inputs.did_you_mean(package, lock))


def _lines(names: tuple[str, ...], answer: Explanation, lock: Lock) -> Iterator[str]:
    if not answer.packages:
        yield f"{heading(names, lock)}: nothing requires it"
        return
    yield f"{heading(names, lock)}: {'; '.join(map(_described, answer.packages))}"
    if not answer.paths:
        yield "  nothing in the spec leads to this package: conda's solver added it"
    for number, path in enumerate(answer.paths, 1):
        for position, step in enumerate(path):
            asker = "the spec" if step.name is None else f"{step.name} {step.version}"
            counter = f"{number}." if position == 0 else ""
            yield f"  {counter:<3} {asker} requires {printable(step.requirement)}"
    if answer.more:
        yield "  ... and more paths: raise --limit to see them"


def _described(package: ExplainedPackage) -> str:
    build = f" {package.build}" if package.build else ""
    licence = printable(package.licence) if package.licence else "licence unknown"
    return f"{package.name} {package.version}{build} ({package.index}, {licence})"


def _as_json(spec: str, package: str, groups: tuple[tuple[tuple[str, ...], Explanation], ...]) -> dict[str, Any]:
    return {
        "spec": spec,
        "package": package,
        "groups": [
            {
                "targets": list(names),
                "packages": [vars(found) for found in answer.packages],
                "paths": [[_step_as_json(step) for step in path] for path in answer.paths],
                "more": answer.more,
            }
            for names, answer in groups
        ],
    }


def _step_as_json(step: Step) -> dict[str, Any]:
    asker = None if step.name is None else {"kind": step.kind, "name": step.name, "version": step.version}
    return {"from": asker, "requirement": step.requirement}
