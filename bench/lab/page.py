"""docs/lab.md, of what the lab did."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "lab.md"
HEAD = """\
# The lab

<!-- Made by `make lab` from bench/lab/done.json. Edit bench/lab/page.py. -->

envspec's locks beside other tools' answers, on what people install: the stacks of `tests/stacks` and of
`bench/lab/stacks.toml`. `make lab` does for 90 minutes what is still to do, and goes on from there the next time;
`bench/lab/done.json` has what it did.

- **answers**: `envspec lock --upgrade` beside `uv pip compile`, with the same requirements, Python, platform and
  date. Both build what they need from source: where lock asks for that, it is run with `--allow-needed`. *Told*:
  lock named packages that differ, and uv with these as pins gives the rest as lock has it. *Differs*: something is
  left, which is a fault of envspec; the fewest requirements that still show it stand below. *Only refused*: the
  target is newer than the newest release allows (a cap on Python, a requirement that the target's torch can't meet,
  binaries of an older CUDA or torch), and uv goes back to an older release, which names nothing of the target.
  *Only locked*: uv runs a source's build to ask what it requires, and that fails; the spec has its metadata. pip is
  asked by `pip install --dry-run --report`, for wheels alone, by a Python of the same minor version.
- **recorded**: the same from the recording of `tests/stacks`, without a network and without pip, which asks for
  more.
- **conda**: the conda half beside rattler, given the match specs and the target's CUDA, on the recorded channel.
- **installs**: the rendered requirements installed by `pip install --require-hashes --no-deps` and by `uv pip
  sync`, the environment by `envspec install`, then `pip check`, and each top-level module imported in a process of
  its own. The Python is the machine's newest of the lock's minor version.

"""


def page_text(done: Mapping[str, Mapping[str, Any]], planned: Iterable[str], explained: Mapping[str, str]) -> str:
    """Write the page: counts, then a table a part, then what is open, and what of `planned` isn't done. `explained`
    says why uv has no answer to a stack."""
    parts: dict[str, dict[str, Mapping[str, Any]]] = {}
    for key, row in sorted(done.items()):
        part, _, rest = key.partition(" ")
        parts.setdefault(part, {})[rest] = row
    lines = ["| part | done | of these | asked |", "|---|---:|---|---|"]
    for part, rows in parts.items():
        counts = Counter(row["what"] for row in rows.values())
        listed = ", ".join(f"{count} {what}" for what, count in counts.most_common())
        days = sorted({row["asked"] for row in rows.values()})
        lines.append(f"| {part} | {len(rows)} | {listed} | {' to '.join(sorted({days[0], days[-1]}))} |")
    for part, rows in parts.items():
        lines += ["", f"## {part.capitalize()}", "", *_table(part, rows, explained)]
    waiting: dict[str, list[str]] = {}
    for key in planned:
        if key not in done:
            part, _, rest = key.partition(" ")
            waiting.setdefault(part, []).append(rest)
    left = [f"- {part} ({len(names)}): {', '.join(names)}" for part, names in waiting.items()]
    return (
        HEAD + "\n".join([*lines, "", *_open(parts), "", "## Not done yet", "", *(left or ["Nothing is left."])]) + "\n"
    )


def _table(part: str, rows: Mapping[str, Mapping[str, Any]], explained: Mapping[str, str]) -> list[str]:
    if part == "installs":
        lines = ["| stack | packages | Python | modules | outcome |", "|---|---:|---|---:|---|"]
        for name, row in rows.items():
            cells = [name, row.get("packages", ""), row.get("python", ""), row.get("modules", ""), _installed(row)]
            lines.append(f"| {' | '.join(map(_cell, cells))} |")
        return lines
    lines = ["| stack | packages | outcome | pip |", "|---|---:|---|---|"]
    for name, row in rows.items():
        outcome = row["what"]
        if row.get("differs"):
            outcome += f" ({len(row['differs'])}): {_few(row['differs'])}"
        # a host of git's that neither tool reaches is told by the stack's own words: of git's there is no room
        instead = row["what"] == "only locked" or "Git operation failed" in row.get("told", "")
        if instead and name.split()[-1] in explained:
            outcome += f": {explained[name.split()[-1]]}"
        elif row.get("told"):
            outcome += f": {_reason(row['told'])}"
        lines.append(f"| {' | '.join(map(_cell, [name, row.get('packages', ''), outcome, _pip(row.get('pip'))]))} |")
    return lines


def _installed(row: Mapping[str, Any]) -> str:
    said = {**row.get("failed", {}), **row.get("imports", {})}
    told = [_reason(row["told"])] if row.get("told") else []
    return "; ".join([row["what"], *(f"{where}: {why}" for where, why in said.items()), *told])


def _pip(pip: Any) -> str:
    if pip is None:
        return ""
    if isinstance(pip, str):
        return pip
    if "refused" in pip:
        return f"refused: {_reason(pip['refused'])}"
    if not pip["differs"]:
        return "equal"
    return f"{len(pip['differs'])} differ, from uv {pip['from uv']}: {_few(pip['differs'], 2)}"


def _reason(told: str) -> str:
    """Leave of a refusal what it says of packages: no place, no target, and no more than a line."""
    return textwrap.shorten(
        re.sub(r"^error: (?:\S+:\d+:\d+: (?:[\w.-]+: )?)?", "", told, flags=re.I), 180, placeholder=" …"
    )


def _open(parts: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    lines = ["## Open", ""]
    for part, rows in parts.items():
        for name, row in rows.items():
            if row.get("open"):
                smallest = f"; shown by {', '.join(f'`{one}`' for one in row['smallest'])}" if "smallest" in row else ""
                lines.append(f"- {part} {name}: {_few(row['open'], 8)}{smallest}")
            elif part == "installs" and row["what"] not in ("works", "refused"):
                lines.append(f"- {part} {name}: {_installed(row)}")
    return lines if len(lines) > 2 else [*lines, "Nothing."]


def _few(differs: Any, count: int = 4) -> str:
    shown = [
        "{} {} instead of {}".format(*one.split(" ", 2)) if one.count(" ") == 2 else one for one in differs[:count]
    ]
    return "; ".join(shown) + (f"; {len(differs) - count} more" if len(differs) > count else "")


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|")
