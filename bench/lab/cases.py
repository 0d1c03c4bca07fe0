"""The cases of the lab: the stacks of tests/stacks and those of stacks.toml here, as texts of specs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tomli
import tomlkit
from msgspec import Struct, field
from msgspec.structs import replace
from stacks.projects import Project, projects

NAMED = Path(__file__).resolve().parent / "stacks.toml"
DATES = ("2026-11-01", "2026-06-01")
_DATE = re.compile(r'^exclude-newer = "[^"]*"$', re.MULTILINE)


class Case(Struct, frozen=True):
    """A spec of one target.

    name      of the stack
    text      of the spec
    project   where the stack is one of tests/stacks
    install   whether its environment is made, too
    expected  packages of the environment that can't be imported, and why that is right
    """

    name: str
    text: str
    project: Project | None = None
    install: bool = False
    expected: Mapping[str, str] = field(default_factory=dict)

    @property
    def requirements(self) -> tuple[str, ...]:
        """The spec's own requirements, which a smaller case has fewer of."""
        return tuple(map(str, tomli.loads(self.text).get("pip", {}).get("dependencies", ())))

    def at(self, date: str) -> Case:
        """Give the case as of another day."""
        return replace(self, text=_DATE.sub(f'exclude-newer = "{date}"', self.text))

    def with_requirements(self, requirements: Iterable[str]) -> Case:
        """Give the case with these requirements alone."""
        document: Any = tomlkit.parse(self.text)
        document["pip"]["dependencies"] = list(requirements)
        return replace(self, text=tomlkit.dumps(document))


def cases() -> dict[str, Case]:
    """Read all cases, by name."""
    of_projects = (
        Case(name, project.spec_path.read_text(encoding="utf-8"), project) for name, project in projects().items()
    )
    tables = tomli.loads(NAMED.read_text(encoding="utf-8"))
    return {case.name: case for case in (*of_projects, *(named(name, table) for name, table in tables.items()))}


def named(name: str, table: dict[str, Any]) -> Case:
    """Write the spec of a table of stacks.toml: requirements, and what isn't as usual."""
    python, date = table.get("python", "3.12"), table.get("date", DATES[0])
    target = {"platform": "linux-64", **({"cuda": "13.0", "gpus": ["H100"]} if table.get("cuda", True) else {})}
    target |= table.get("target", {})
    document = {
        "env": {"name": name, "python": python, "exclude-newer": date},
        **({"pip": {"dependencies": table["pip"], **table.get("more", {})}} if "pip" in table else {}),
        **({"conda": {"channels": ["conda-forge"], "dependencies": table["conda"]}} if "conda" in table else {}),
        "targets": {"it": target},
    }
    install, expected = table.get("install", False), table.get("expected", {})
    return Case(name, tomlkit.dumps(document), install=install, expected=expected)


def dated(case: Case, dates: Sequence[str] = DATES) -> list[tuple[str, Case]]:
    """Give a case at each date; one that is of a day of its own at that day alone."""
    own = tomli.loads(case.text)["env"]["exclude-newer"]
    return [(date, case.at(date)) for date in (dates if own in dates else [own])]
