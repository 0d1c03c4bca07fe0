"""`python -m tools.reference`: write the generated pages of docs/. `--check` says which aren't up to date, and exits
with 1. `--man DIR` writes the man pages.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.reference import architecture, codes, commands, demands, design, documents, examples, forged, spec

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = {
    "architecture.md": architecture.page,
    "architecture.svg": architecture.picture,
    "spec.md": spec.page,
    "cli.md": commands.page,
    "codes.md": codes.page,
    "design/README.md": design.page,
    "examples.md": examples.page,
    "reference-stacks.md": demands.page,
}
"""The pages that are generated, by name in docs/."""
PARTS = {"json.md": documents.sections, "security.md": forged.table}
"""The pages of which a part is generated: what stands between two comments."""
_BEGIN, _END = "<!-- made by `python -m tools.reference` -->\n", "<!-- end -->\n"


def main() -> int:
    """Write or check. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--man", type=Path, metavar="DIR", help="write the man pages into DIR")
    given = parser.parse_args()
    if given.man:
        given.man.mkdir(parents=True, exist_ok=True)
        for name, text in commands.man_pages().items():
            (given.man / name).write_text(text, "utf-8")
        return 0
    stale = 0
    texts = {name: page() for name, page in PAGES.items()} | {name: _with(name, part()) for name, part in PARTS.items()}
    for name, text in texts.items():
        path = DOCS / name
        if given.check:
            if not path.exists() or path.read_text("utf-8") != text:
                print(f"docs/{name} isn't up to date: run `python -m tools.reference`", file=sys.stderr)
                stale = 1
        else:
            path.write_text(text, "utf-8")
    return stale


def _with(name: str, part: str) -> str:
    """Return a page with its generated part anew."""
    before, _, rest = (DOCS / name).read_text("utf-8").partition(_BEGIN)
    return f"{before}{_BEGIN}{part}{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    sys.exit(main())
