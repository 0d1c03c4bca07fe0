"""`python -m tools.reference`: write the generated pages of docs/. `--check` names those that aren't up to date, and
exits with 1. `--man DIR` writes the man pages, `--long DIR` the site's long pages.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.reference import commands
from tools.reference.pages import DOCS, LONG, PAGES, PARTS, with_part


def main() -> int:
    """Write or check. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--man", type=Path, metavar="DIR", help="write the man pages into DIR")
    parser.add_argument("--long", type=Path, metavar="DIR", help="write the site's long pages into DIR")
    given = parser.parse_args()
    if given.man or given.long:
        written = commands.man_pages() if given.man else {name: page() for name, page in LONG.items()}
        folder = given.man or given.long
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in written.items():
            (folder / name).write_text(text, "utf-8")
        return 0
    stale = 0
    texts = {name: page() for name, page in PAGES.items()} | {
        name: with_part(name, part()) for name, part in PARTS.items()
    }
    for name, text in texts.items():
        path = DOCS / name
        if given.check:
            if not path.exists() or path.read_text("utf-8") != text:
                print(f"docs/{name} isn't up to date: run `python -m tools.reference`", file=sys.stderr)
                stale = 1
        else:
            path.write_text(text, "utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
