"""docs/reference-stacks.md: what four stacks ask, from `tests/reference_stacks/demands.toml`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import tomlkit

DEMANDS = Path(__file__).resolve().parents[2] / "tests" / "reference_stacks" / "demands.toml"
STACKS = {
    "A": "Multimodal training: mm-v2.1, and mm-v2.9 after it",
    "B": "Language models: llm-v2.9",
    "C": "Teams: team-v2.9",
    "D": "DeiT: deit-v2.6",
}
_HEAD = """# Reference stacks

<!-- Made by `python -m tools.reference` from tests/reference_stacks/demands.toml. Edit there. -->

What four stacks ask that the shipped specs stand for, demand by demand: images that people use as "PyTorch-CUDA v2.9"
and "v2.6". A demand is met by a check of `envspec smoke` (`device.driver`), by a text that stands in a file, or by a
test. `tests/reference_stacks` holds that each is there, and that a check runs in that stack. The last column has what
isn't met, and why.
"""


def page() -> str:
    """Make the page."""
    return _HEAD + "".join(f"\n## {title}\n\n" + "\n".join(_table(stack)) + "\n" for stack, title in STACKS.items())


def _table(stack: str) -> Iterator[str]:
    yield "| | asks | met by | isn't met, and why |"
    yield "|---|---|---|---|"
    for number, demand in tomlkit.parse(DEMANDS.read_text("utf-8")).unwrap().items():
        if number.startswith(stack):
            by = ", ".join(f"`{one}`" for one in demand.get("by", ())) or "–"
            yield f"| {number} | {demand['asks']} | {by} | {demand.get('lacks', '–')} |"
