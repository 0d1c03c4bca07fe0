"""`envspec tree`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict

from envspec.app.graph import Branch, trees
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import style_text
from envspec.cli.table import heading

EPILOG = """\b
Examples:
  envspec tree specs/mm-v2.9.toml --target cpu --depth 2
  envspec tree specs/mm-v2.9.toml --package torch
  envspec tree specs/mm-v2.9.toml --package numpy --inverse
"""

REPEATED = "(*)"


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
    path: str, targets: tuple[str, ...], depth: int | None, inverse: bool, package: str | None, locks_dir: Path | None
) -> None:
    """Show which package requires which, across conda and pip, for each target. Targets with the same tree share it.

    envspec draws a package's branches once; later, (*) stands for them. Extras follow the name of the package that they
    belong to. A requirement's condition follows `if`; the condition holds for these targets.
    """
    grouped = trees(path, targets, package, depth, locks_dir, inverse=inverse)
    about = {"spec": grouped.spec.path, "package": package, "inverse": inverse}
    groups = [{"targets": names, "tree": list(map(_branch_as_json, branches))} for names, branches in grouped.groups]
    lock = grouped.lock
    drawn = (
        _lines(f"{lock.name}, {heading(names, lock)}", branches, inverse=inverse) for names, branches in grouped.groups
    )
    options.answer("tree", {**about, "groups": groups}, ["\n\n".join(map("\n".join, drawn))])


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
    conda = f" ({branch.kind})" if branch.kind != "pip" else ""
    # In an inverse tree, what the spec asks for is where the reasons end.
    note = " (in the spec)" if inverse and branch.direct else ""
    repeated = f" {REPEATED}" if branch.repeated else ""
    condition = style_text(f" if {printable(branch.condition)}", "dim") if branch.condition else ""
    return f"{branch.name}{extras} {branch.version}{conda}{note}{repeated}{condition}"


def _draws_unicode() -> bool:
    encoding = (sys.stdout.encoding or "").lower().replace("-", "").replace("_", "")
    return sys.stdout.isatty() and encoding == "utf8"


def _branch_as_json(branch: Branch) -> dict[str, Any]:
    values = {name: value for name, value in asdict(branch).items() if name != "condition"}
    return {**values, "branches": [_branch_as_json(child) for child in branch.branches]}
