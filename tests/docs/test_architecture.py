"""The page about the structure names what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_module_on_a_locks_way_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    block = page.partition("## One lock's way")[2].split("```")[1]
    names = re.findall(r"\b[a-z_]+(?:/[a-z_]+)+\b", block)
    assert len(names) > 12
    missing = [name for name in names if not any((ROOT / "envspec" / f"{name}{end}").exists() for end in ("", ".py"))]
    assert missing == []
