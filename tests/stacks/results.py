"""What was found for each stack: results.toml, and the table of docs/stacks.md that is made of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tomli

from envspec.lock.toml_text import string, value
from stacks.answers import Answer
from stacks.projects import FOLDER, Project

RESULTS = FOLDER / "results.toml"
TABLE = FOLDER.parents[1] / "docs" / "stacks.md"


@dataclass(frozen=True)
class Result:
    """A stack's two answers.

    packages  how many the lock has; None for a refusal
    seconds   of wall time, with caches that earlier stacks of the same run had filled
    told      notes, or the refusal
    uv_…      the same of uv's answer
    differs   `name ours theirs` of every package that differs, `-` where one has none
    torch     the PyTorch index that both were given for the torch family (`cu128`); none where it comes from PyPI
    """

    packages: int | None
    seconds: float
    told: str
    uv_packages: int | None
    uv_seconds: float
    uv_told: str
    differs: tuple[str, ...]
    torch: str = ""


def result_of(ours: Answer, theirs: Answer, torch: str = "") -> Result:
    """Compare two answers. Nothing differs where one is a refusal."""
    names = sorted(ours.packages.keys() | theirs.packages.keys()) if ours.packages and theirs.packages else []
    differs = tuple(
        f"{name} {ours.packages.get(name, '-')} {theirs.packages.get(name, '-')}"
        for name in names
        if ours.packages.get(name) != theirs.packages.get(name)
    )
    return Result(
        len(ours.packages) or None,
        round(ours.seconds, 1),
        _plain(ours.told),
        len(theirs.packages) or None,
        round(theirs.seconds, 1),
        _plain(theirs.told),
        differs,
        torch,
    )


def _plain(text: str) -> str:
    """Without paths and addresses of the machine that asked, and not longer than a reader bears."""
    text = re.sub(r"https?://\S+|(?<![\w.])/[\w./+-]+", "…", text)
    return text if len(text) <= 1200 else text[:1199] + "…"


def read_results() -> dict[str, Result]:
    """Read results.toml."""
    try:
        tables = tomli.loads(RESULTS.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {name: _result(table) for name, table in tables.items()}


def _result(table: Mapping[str, Any]) -> Result:
    return Result(
        table.get("packages"),
        table["seconds"],
        table.get("told", ""),
        table.get("uv-packages"),
        table["uv-seconds"],
        table.get("uv-told", ""),
        tuple(table.get("differs", ())),
        table.get("torch-index", ""),
    )


def results_text(results: Mapping[str, Result]) -> str:
    """Write results.toml."""
    lines = ["# What envspec and uv answered to each spec here. Made by: PYTHONPATH=tests python -m stacks run", ""]
    for name, result in sorted(results.items()):
        lines.append(f"[{string(name)}]" if "." in name else f"[{name}]")
        lines += [f"torch-index = {string(result.torch)}"] if result.torch else []
        for prefix, packages, seconds, told in (
            ("", result.packages, result.seconds, result.told),
            ("uv-", result.uv_packages, result.uv_seconds, result.uv_told),
        ):
            lines += [f"{prefix}packages = {packages}"] if packages else []
            lines.append(f"{prefix}seconds = {seconds}")
            lines += [f"{prefix}told = {string(told)}"] if told else []
        lines += [f"differs = {value(list(result.differs))}"] if result.differs else []
        lines.append("")
    return "\n".join(lines[:-1]) + "\n"


HEAD = """\
# Real stacks

<!-- Made by `PYTHONPATH=tests python -m stacks table` from tests/stacks. Edit there. -->

Public projects' own requirements, locked by envspec and compiled by uv: the same requirements, Python, platform and
date (2026-11-01). The torch family comes from PyPI where its build there has the CUDA of the target, else from the
PyTorch index of the third column: both were locked against what envspec's facts have of that index, with its hashes,
not against the index itself. Flat indexes (`find-links`) are pages on loopback, with the names and the requirements of
the projects' own wheels. `tests/stacks` has the specs, the projects' revisions and the digests of the files that they
follow. uv's answer is that of `uv pip compile` without options that choose, so it builds what it needs from source,
whatever the spec allows. Neither fetched a Python. The seconds are wall time on two cores that others used, one run
after another, each with caches that the earlier stacks had filled. They show what is slow; they don't measure.

"""


def table_text(projects: Mapping[str, Project], results: Mapping[str, Result]) -> str:
    """Write docs/stacks.md."""
    rows = {name: results[name] for name in sorted(projects) if name in results}
    locked = [name for name, row in rows.items() if row.packages]
    both = [name for name in locked if rows[name].uv_packages]
    same = [name for name in both if not rows[name].differs]
    answered = [name for name, row in rows.items() if row.uv_packages]
    lines = [
        f"Of {len(projects)} stacks, {len(locked)} lock; uv answers {len(answered)}. Of the {len(both)} that both "
        f"answer, {len(same)} are the same, package by package. {sum(one.recorded for one in projects.values())} are "
        "locked in CI too, from a recording of PyPI's pages.",
        "",
        "| stack | project | torch from | packages | seconds | uv's packages | uv's seconds | difference |",
        "|---|---|---|---:|---:|---:|---:|---|",
    ]
    for name, project in sorted(projects.items()):
        row = rows.get(name)
        cells = [name, project.repository]
        if row is None:
            cells += [""] * 6
        else:
            cells += [
                row.torch or "PyPI", str(row.packages or "refused"), f"{row.seconds:g}",
                str(row.uv_packages or "refused"), f"{row.uv_seconds:g}", difference(project, row),
            ]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return HEAD + "\n".join(lines) + "\n"


def difference(project: Project, row: Result) -> str:
    """Say in a line how the answers differ, and why."""
    if row.packages and row.uv_packages:
        if not row.differs:
            return "none"
        shown = "; ".join(_versions(one) for one in row.differs[:4])
        more = f"; {len(row.differs) - 4} more" if len(row.differs) > 4 else ""
        return f"{shown}{more}: {project.explained}"
    return project.explained


def _versions(text: str) -> str:
    name, ours, theirs = text.split(" ")
    return f"{name} {ours} instead of {theirs}" if "-" not in (ours, theirs) else (
        f"{name} {ours} besides" if theirs == "-" else f"without {name} {theirs}"
    )  # fmt: skip
