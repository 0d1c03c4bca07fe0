"""`envspec tree`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from envspec.app import inputs
from envspec.base.errors import AnswerNo, InputError
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out, styled
from envspec.cli.groups import grouped, heading
from envspec.lock.graph import Edge, Graph, Tree
from envspec.lock.model import LockedTarget
from envspec.packages.requirement import head_of

EPILOG = """\b
Examples:
  envspec tree specs/mm-v2.9.toml --target cpu --depth 2
  envspec tree specs/mm-v2.9.toml --package torch
  envspec tree specs/mm-v2.9.toml --package numpy --inverse
"""

REPEATED = "(*)"


@dataclass(frozen=True)
class Branch:
    """A package in its place in the tree.

    `requirement` led to it (in an inverse tree: its requirement of the package above); None at the top of one package's
    tree. `condition` is the requirement's marker, "" without one. `direct` says that the spec itself asks for the
    package. `repeated` says that its branches stand at its first place.
    """

    kind: str
    name: str
    version: str
    extras: tuple[str, ...]
    requirement: str | None
    condition: str
    direct: bool
    repeated: bool
    branches: tuple[Branch, ...]


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option("--depth", type=click.IntRange(min=0), help="Show this many levels below the first.")
@click.option("--inverse", is_flag=True, help="Show the packages that require this one instead.")
@click.option(
    "--package",
    metavar="PKG",
    shell_complete=options.complete("package_names"),
    help="Start at this package instead of the spec.",
)
@options.locks_dir
@options.as_json
def command(
    path: str,
    targets: tuple[str, ...],
    depth: int | None,
    inverse: bool,
    package: str | None,
    locks_dir: Path | None,
    as_json: bool,
) -> None:
    """Show which package requires which, across conda and pip, for each target. Targets with the same tree share it.

    envspec draws a package's branches once; later, (*) stands for them. Extras follow the name of the package that they
    belong to. A requirement's condition follows `if`; the condition holds for these targets.
    """
    if inverse and package is None:
        raise InputError("--inverse needs --package", hint=f"envspec tree {path} --inverse --package PKG")
    spec, lock = inputs.look_at_lock(path, locks_dir)
    inputs.warn_if_stale(spec, lock)
    chosen = inputs.locked_targets(lock, targets)
    groups = grouped(chosen, lambda target: _branches(target, package, depth, inverse=inverse))
    if package is not None and not any(branches for _, branches in groups):
        raise AnswerNo(
            f"{printable(package)} isn't in the lock of {lock.name}",
            hint=inputs.did_you_mean(package, lock),
        )
    if as_json:
        options.print_json("tree", _as_json(spec.path, package, groups, inverse=inverse))
    else:
        trees = (_lines(f"{lock.name}, {heading(names, lock)}", found, inverse=inverse) for names, found in groups)
        out("\n\n".join("\n".join(lines) for lines in trees))


def _branches(target: LockedTarget, package: str | None, depth: int | None, *, inverse: bool) -> tuple[Branch, ...]:
    graph = Graph.of(target)
    if package is None:
        trees = graph.tree(depth)
    elif inverse:
        trees = graph.inverse(package, depth)
    else:
        # a tree whose roots are the package itself
        starts = tuple(Edge(None, node, "", node.kind) for node in graph.find(package))
        trees = tuple(replace(tree, edge=None) for tree in replace(graph, roots=starts).tree(depth))
    direct = {edge.target for edge in graph.roots}

    def branch(tree: Tree) -> Branch:
        pin = graph.pins[tree.node]
        return Branch(
            kind=pin.kind,
            name=pin.name,
            version=pin.version,
            extras=() if inverse or tree.edge is None else _extras(tree.edge),
            requirement=None if tree.edge is None else tree.edge.told,
            condition="" if tree.edge is None else _condition(tree.edge),
            direct=tree.node in direct,
            repeated=tree.repeated,
            branches=tuple(map(branch, tree.children)),
        )

    return tuple(map(branch, trees))


def _extras(edge: Edge) -> tuple[str, ...]:
    return tuple(sorted(head_of(edge.requirement).extras)) if edge.kind == "pip" else ()


def _condition(edge: Edge) -> str:
    """Give the marker of a requirement; a conda package's has none."""
    marker = head_of(edge.requirement).marker if edge.kind == "pip" else None
    return str(marker) if marker else ""


def _lines(title: str, branches: tuple[Branch, ...], *, inverse: bool) -> Iterator[str]:
    tee, corner, bar, gap = ("├── ", "└── ", "│   ", "    ") if _draws_unicode() else ("|-- ", "`-- ", "|   ", "    ")

    def below(children: Iterable[Branch], indent: str) -> Iterator[str]:
        ordered = tuple(children)
        for position, child in enumerate(ordered, 1):
            last = position == len(ordered)
            yield f"{indent}{corner if last else tee}{_label(child, inverse=inverse)}"
            yield from below(child.branches, indent + (gap if last else bar))

    yield f"{title}:"
    if not branches:
        yield f"{corner}not locked"
    yield from below(branches, "")


def _label(branch: Branch, *, inverse: bool) -> str:
    extras = f"[{','.join(branch.extras)}]" if branch.extras else ""
    conda = " (conda)" if branch.kind == "conda" else ""
    # In an inverse tree, what the spec asks for is where the reasons end.
    asked = " (in the spec)" if inverse and branch.direct else ""
    repeated = f" {REPEATED}" if branch.repeated else ""
    condition = _dim(f" if {printable(branch.condition)}") if branch.condition else ""
    return f"{branch.name}{extras} {branch.version}{conda}{asked}{repeated}{condition}"


def _dim(text: str) -> str:
    return styled(text, "dim")


def _draws_unicode() -> bool:
    encoding = (sys.stdout.encoding or "").lower().replace("-", "").replace("_", "")
    return sys.stdout.isatty() and encoding == "utf8"


def _as_json(
    spec: str, package: str | None, groups: tuple[tuple[tuple[str, ...], tuple[Branch, ...]], ...], *, inverse: bool
) -> dict[str, Any]:
    return {
        "spec": spec,
        "package": package,
        "inverse": inverse,
        "groups": [
            {"targets": list(names), "tree": [_branch_as_json(branch) for branch in branches]}
            for names, branches in groups
        ],
    }


def _branch_as_json(branch: Branch) -> dict[str, Any]:
    values = {name: value for name, value in vars(branch).items() if name != "condition"}
    return {**values, "extras": list(branch.extras), "branches": [_branch_as_json(b) for b in branch.branches]}
