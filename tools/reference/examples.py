"""docs/examples.md: the specs of examples/, each with its own comment. The site's page has their text."""

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
    """Return the page's text: a line a spec."""
    sections = map(_section, sorted(FOLDER.glob("*.toml")))
    return HEAD + "\n" + "".join(f"- [{title}](../examples/{name}): {prose}\n" for name, title, prose, _ in sections)


def long_page() -> str:
    """Return the text of the site's page: each spec whole."""
    sections = map(_section, sorted(FOLDER.glob("*.toml")))
    return HEAD + "".join(f"\n## {title}\n\n{prose}\n\n```toml\n{spec}```\n" for _, title, prose, spec in sections)


def _section(path: Path) -> tuple[str, str, str, str]:
    """Give a spec's file name, its title, the comment that it begins with as prose, and the rest of its text."""
    comment, spec = re.split(r"^(?=[^#])", path.read_text("utf-8"), maxsplit=1, flags=re.MULTILINE)
    prose = " ".join(line.removeprefix("# ") for line in comment.splitlines())
    title = path.stem.replace("-", " ")
    for name in ("gpu", "llm", "jax"):
        title = title.replace(name, name.upper())
    return path.name, f"{title[0].upper()}{title[1:]}", prose, spec
