"""docs/evidence.md: counts and exceptions of what was run outside the tests, from the data that each part names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli

ROOT = Path(__file__).resolve().parents[2]
STACKS, BENCH = ROOT / "tests" / "stacks", ROOT / "bench"
DEMANDS = ROOT / "tests" / "reference_stacks" / "demands.toml"
HEAD = """\
# Evidence

envspec ran on these stacks and machines outside its own tests. This page has counts and exceptions, the data has
every row. [evidence/](evidence/README.md) has the smoke check's reports, and each shipped target's proof level.

"""
REAL = """\
## Real stacks

envspec locked public projects' own requirements, and uv compiled the same requirements, for the same Python, platform
and date (2026-11-01). The specs, the projects' revisions and the digests of the files that they follow are in
[tests/stacks](../tests/stacks); `results.toml` has every answer, and `projects.toml` explains every difference.

- Torch comes from PyPI where its build there has the target's CUDA, else from the PyTorch index. Both tools then
  answered from envspec's facts about that index, with its hashes, not from the index itself.
- uv's answer is that of `uv pip compile` without preferences, so uv builds from source as needed.

"""
LAB = """\
## The lab

envspec beside other tools, on these stacks and on those of `bench/lab/stacks.toml`. `make lab` does for 90 minutes
the remaining work, and resumes the next time. `bench/lab/done.json` has every row.

- **answers**: `envspec lock --upgrade` beside `uv pip compile`, with the same input. pip is asked too, by
  `pip install --dry-run --report`, for wheels alone.
- **recorded**: the same from the recording of `tests/stacks`, without a network.
- **conda**: the conda half beside rattler, given the match specs and the target's CUDA, on the recorded channel.
- **installs**: the rendered requirements by pip and by `uv pip sync`, the environment by `envspec install`, then
  `pip check`, and an import of each top-level module in a process of its own.

| outcome | means |
|---|---|
| equal | the same packages and versions |
| told | envspec named the packages that differ; with these pinned, uv gives the rest as envspec has it |
| differs | a difference is left: a fault of envspec |
| only refused | the newest release excludes the target; uv goes back to an older release that names no such limit |
| only locked | uv runs a source's build to read its requirements, and the build fails; the spec has its metadata |

"""
STRANGERS = """\
## Strangers' repositories

The 44 repositories of [ResearchEnvBench](https://arxiv.org/abs/2603.06739), taken as a user would: `envspec init it
--from .` with the benchmark's machine (`{machine}`), then `envspec lock`.
A refused command is run again with the first option that its hint names. `python -m bench.strangers FOLDER` repeats
it; `bench/strangers/done.json` has every row, with the options, `repositories.toml` the commits and the modules.

*Imports* are the packages that a repository's sources import at module level; *offered* are those for which `envspec
check --imports` names the file or extra that declares them. *On a CPU* counts repositories that need no compiler,
installed by `envspec run`, which then import modules of their own.

"""
OLD = """\
`repositories.toml` has the reasons outside envspec. The old repositories are of 2021 to 2024, taken with
`--as-of HEAD`. Where PyPI has lost what a day had (jaxlib from before October 2023), or envspec's facts don't reach it
(torch before 2.0), the error names the first day that does.
"""
REFERENCE = """\
## Reference stacks

What four stacks ask that the shipped specs stand for: images that people use as "PyTorch-CUDA v2.9" and "v2.6". A is
multimodal training (mm-v2.1, then mm-v2.9), B language models (llm-v2.9), C teams (team-v2.9), D DeiT (deit-v2.6).
[demands.toml](../tests/reference_stacks/demands.toml) has each demand with the checks, files and tests that meet it,
and its gap; `tests/reference_stacks` holds that each is there. {met} of {all} have no gap. These never ran on the
hardware that they are about:

"""
UNPROVED = re.compile(r"never ran|no run|no figure", re.IGNORECASE)
_Rows = Mapping[str, Mapping[str, Any]]


def page() -> str:
    """Return the page's text."""
    return HEAD + "\n".join(
        "".join(part) for part in (_stacks(), lab_part(_rows(BENCH / "lab" / "done.json")), _strangers(), _reference())
    )


def _toml(path: Path) -> dict[str, Any]:
    return tomli.loads(path.read_text("utf-8"))


def _rows(path: Path) -> dict[str, Mapping[str, Any]]:
    rows: dict[str, Mapping[str, Any]] = json.loads(path.read_text("utf-8"))
    return rows


def _stacks() -> Iterator[str]:
    projects, results = _toml(STACKS / "projects.toml"), _toml(STACKS / "results.toml")
    both = [name for name, row in results.items() if row.get("packages") and row.get("uv-packages")]
    differ = sorted(name for name in both if results[name].get("differs"))
    recorded = sum(bool(project.get("recorded")) for project in projects.values())
    yield REAL
    yield "| stacks | |\n|---|---:|\n"
    yield from _counts(
        {
            "all": len(projects),
            "envspec locks": sum("packages" in row for row in results.values()),
            "uv answers": sum("uv-packages" in row for row in results.values()),
            "both answer": len(both),
            "the same, package by package": len(both) - len(differ),
            "locked in CI from a recording of PyPI's pages": recorded,
        }
    )
    yield f"\nThe answers differ for {', '.join(differ)}.\n"


def lab_part(done: _Rows) -> Iterator[str]:
    """Yield the section of the lab: a row a part, and the keys of the open points."""
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for key, row in sorted(done.items()):
        parts.setdefault(key.partition(" ")[0], []).append({"key": key, **row})
    yield LAB
    yield "| part | done | of these | asked |\n|---|---:|---|---|\n"
    for part, rows in parts.items():
        days = sorted({row["asked"] for row in rows})
        listed = ", ".join(f"{count} {what}" for what, count in Counter(row["what"] for row in rows).most_common())
        yield f"| {part} | {len(rows)} | {listed} | {' to '.join(sorted({days[0], days[-1]}))} |\n"
    still_open = [
        row["key"]
        for part, rows in parts.items()
        for row in rows
        if row.get("open") or (part == "installs" and row["what"] not in ("works", "refused"))
    ]
    yield f"\nOpen: {', '.join(still_open) or 'nothing'}.\n"


def _strangers() -> Iterator[str]:
    done, listed = _rows(BENCH / "strangers" / "done.json"), _toml(BENCH / "strangers" / "repositories.toml")
    rows = {name: done[name] for name in listed["repositories"] if name in done}
    old = {name: done[name] for name in listed["old"] if name in done}
    locked = [row for row in rows.values() if row["what"] == "locked"]
    tried = [row["on a CPU"] for row in locked if "on a CPU" in row]
    yield STRANGERS.format(machine=" ".join(listed["machine"]))
    yield "| repositories | |\n|---|---:|\n"
    yield from _counts(
        {
            **Counter(_outcome(name, row, listed["outside"]) for name, row in rows.items()),
            "locks with a package for CUDA 13": sum(bool(row["cuda 13"]) for row in locked),
            "imports: in the lock": sum(row["imports"]["locked"] for row in locked),
            "imports: offered": sum(row["imports"]["offered"] for row in locked),
            "imports: declared by no file": sum(row["imports"]["named"] for row in locked),
            **{f"on a CPU: {what}": count for what, count in Counter(map(_import_result, tried)).most_common()},
            **{f"old: {what}": count for what, count in Counter(map(_import_result, old.values())).most_common()},
        }
    )
    yield f"\n{OLD}"


def _outcome(name: str, row: Mapping[str, Any], outside: Mapping[str, str]) -> str:
    return "refused for a reason outside envspec" if row["what"] == "refused" and name in outside else row["what"]


def _import_result(row: Mapping[str, Any]) -> str:
    """Return whether an installed repository imports its own modules, in two words."""
    return str(row.get("imports", row["what"])).partition(":")[0].partition(",")[0]


def _reference() -> Iterator[str]:
    demands: _Rows = _toml(DEMANDS)
    gaps = {number: demand["lacks"] for number, demand in demands.items() if demand.get("lacks")}
    yield REFERENCE.format(met=len(demands) - len(gaps), all=len(demands))
    yield from (f"- {number}: {lacks}.\n" for number, lacks in gaps.items() if UNPROVED.search(lacks))


def _counts(counts: Mapping[str, int]) -> Iterator[str]:
    yield from (f"| {name} | {count} |\n" for name, count in counts.items())
