"""docs/examples.md: the specs of examples/, each with what it says of itself."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "examples"
HEAD = """\
# Examples

Small specs to begin with, from [examples/](../examples): copy one into `specs/`, change names and targets, and lock it.
A test locks each. `exclude-newer` makes them give the same releases on any day; without it, `envspec lock` takes the
newest.
Larger ones, with their locks and recipes, are the shipped [specs/](../specs).
"""


def page() -> str:
    """Return the page's text."""
    return HEAD + "".join(map(_section, sorted(FOLDER.glob("*.toml"))))


def _section(path: Path) -> str:
    """Give a spec's section: its heading, the comment that it begins with as prose, and the rest of its text."""
    comment, spec = re.split(r"^(?=[^#])", path.read_text("utf-8"), maxsplit=1, flags=re.MULTILINE)
    told = " ".join(line.removeprefix("# ") for line in comment.splitlines())
    title = path.stem.replace("-", " ")
    for name in ("gpu", "llm", "jax"):
        title = title.replace(name, name.upper())
    return f"\n## {title[0].upper()}{title[1:]}\n\n{told}\n\n```toml\n{spec}```\n"
