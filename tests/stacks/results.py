"""The answers to each stack: results.toml, which docs/evidence.md counts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tomli

from envspec.lock.toml_text import string, value
from stacks.answers import Answer
from stacks.projects import FOLDER

RESULTS = FOLDER / "results.toml"


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
