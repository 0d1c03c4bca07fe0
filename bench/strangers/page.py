"""docs/strangers.md, of what came of the repositories."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "strangers.md"
HEAD = """\
# Strangers' repositories

<!-- Made by `python -m bench.strangers FOLDER` from bench/strangers/done.json. Edit bench/strangers/page.py. -->

The 44 repositories that [ResearchEnvBench](https://arxiv.org/abs/2603.06739) chose, each taken as its user would take
it: `envspec init it --from .` with the benchmark's machine, then `envspec lock`. Where a command is refused, it is run
again with the first option that its hint names; *options* lists these. `python -m bench.strangers FOLDER` does it all
anew, with clones from GitHub or those that FOLDER has. The machine: `{machine}`.

*Imports* are the packages that a repository's own sources import at module level: those that the lock brings; of the
others, those for which `envspec check --imports` names the file or extra of the repository that declares them, and
those that no file declares, which it names too.

*Imports on a CPU* is asked of those that need no compiler: the repository is taken anew with the options named there,
locked, given what `envspec check --imports` names with the file that declares it (*by hand*: what a person added of all
that it names), installed by `envspec run`, and imports modules of its own that need most of what its sources import.
PyTorch's index, which alone has wheels of torch for CPUs, couldn't be reached: `--cuda` is that of PyPI's own wheels,
which import without a GPU, and `cpu` where this machine has such a wheel. bench/strangers/repositories.toml lists the
modules.

"""
OLD = """
## Old repositories

20 of 2021 to 2024, each taken by `envspec init it --from . --as-of HEAD --cuda cpu` and `envspec lock`, installed by
`envspec run`, and asked to import modules of its own. The last 6 have torch: five of them are taken for the CUDA of
PyPI's wheels of their day instead of `cpu`. Where PyPI has lost what a day had (jaxlib from before October 2023), or
envspec's facts don't reach it (torch before 2.0), the error names the first day that does: the option `exclude-newer`.
gym builds box2d-py with swig, which its error names. optax asks for names that the first jax with a jaxlib has no more.
"""
_IMPORTS = ("locked", "offered", "named")


def page_text(done: Mapping[str, Mapping[str, Any]], listed: Mapping[str, Any]) -> str:
    """Write the page: counts, then a line a repository."""
    outside: Mapping[str, str] = listed["outside"]
    rows = {name: done[name] for name in listed["repositories"] if name in done}
    whats = Counter(_what(name, row, outside) for name, row in rows.items())
    locked = [row for row in rows.values() if row["what"] == "locked"]
    counts = {
        **{what: str(count) for what, count in whats.most_common()},
        "not asked yet": str(len(listed["repositories"]) - len(rows)),
        "locks with a package for CUDA 13": str(sum(bool(row["cuda 13"]) for row in locked)),
        **{
            f"imports, {key}": str(sum(row["imports"][key] for row in locked)) for key in ("locked", "offered", "named")
        },
        **{
            f"on a CPU, {key}": str(count)
            for key, count in Counter(_here(row["on a CPU"]) for row in locked if "on a CPU" in row).most_common()
        },
    }
    lines = ["| repositories | |", "|---|---:|", *(f"| {key} | {count} |" for key, count in counts.items()), ""]
    lines += [
        "| repository | outcome | options | packages | CUDA | imports locked, offered, named | imports on a CPU |"
    ]
    lines += ["|---|---|---|---:|---|---|---|"]
    for name, row in rows.items():
        stands_in = "" if row.get("commit") in (None, listed["repositories"][name]) else f", at {row['commit'][:8]}"
        cells = [
            f"{name}{stands_in}",
            _what(name, row, outside) + _why(name, row, outside),
            _options(row),
            str(row.get("packages", "")),
            ", ".join(row.get("cuda", ())),
            ", ".join(str(row["imports"][key]) for key in _IMPORTS) if "imports" in row else "",
            _on_cpu(row["on a CPU"], listed["imports"][name]["options"])
            if "on a CPU" in row and name in listed["imports"]
            else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [OLD, "| repository | day | outcome | options | packages |", "|---|---|---|---|---:|"]
    for name, one in listed["old"].items():
        row = done.get(name, {"what": "not asked yet"})
        outcome = _plain(row.get("imports", "")) + _torch(row) + _added(row) or _what(name, row, outside) + _why(
            name, row, outside
        )
        cells = [name, one["day"], outcome, _options(row), str(row.get("packages", ""))]
        lines.append(f"| {' | '.join(cells)} |")
    return HEAD.format(machine=" ".join(listed["machine"])) + "\n".join(lines) + "\n"


def _what(name: str, row: Mapping[str, Any], outside: Mapping[str, str]) -> str:
    return "refused for a reason outside envspec" if row["what"] == "refused" and name in outside else row["what"]


def _why(name: str, row: Mapping[str, Any], outside: Mapping[str, str]) -> str:
    if row["what"] not in ("refused", "too long"):
        return ""
    words = _plain(str(row["error"])[:400])
    return f" ({outside[name]}): {words}" if name in outside else f": {words}"


def _here(row: Mapping[str, Any]) -> str:
    """Say in two words whether an installed repository imports its own modules, or that it wasn't installed."""
    return str(row.get("imports", row["what"])).partition(":")[0]


def _torch(row: Mapping[str, Any]) -> str:
    return f", torch {row['torch']}" if row.get("torch") else ""


def _on_cpu(row: Mapping[str, Any], options: Sequence[str]) -> str:
    said = _plain(str(row.get("imports", f"{row['what']}: {row.get('error', '')}"))[:300])
    return f"{said}{_torch(row)} (`{' '.join(options)}`{_added(row)})"


def _added(row: Mapping[str, Any]) -> str:
    told = {"added": "added", "by hand": "by hand"}
    return "".join(f", {len(row[key])} {words}" for key, words in told.items() if row.get(key))


def _options(row: Mapping[str, Any]) -> str:
    return " ".join(f"`{one}`" for one in (*row.get("init", ()), *row.get("lock", ())))


def _plain(text: str) -> str:
    return re.sub(r"[`*_<>|]", lambda found: f"\\{found[0]}", text)
